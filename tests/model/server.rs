//! The server's side: one atomic step per command, and expiry by its own clock.

use super::breach::Breach;
use super::fault::Fault;
use super::phase::{Command, Phase, Reply};
use super::protocol::Protocol;
use super::state::{Record, State, Who};
use super::token::Token;
use super::witness::Witness;

impl Protocol {
    /// Runs one command of a client. `barrier` says whether a `CLIENT KILL` is granted; where it is
    /// not, the answer is 0 and nothing is killed, as with missing rights, through a proxy, or on
    /// another server behind the same name.
    pub(super) fn run(
        &self,
        state: &mut State,
        who: Who,
        command: Command,
        barrier: bool,
    ) -> Reply {
        match command {
            Command::Set(token) => Reply::Set(self.set(state, who, token)),
            Command::HandOver(from, to) => Reply::HandOver(self.hand_over(state, who, from, to)),
            Command::Renew(token) => Reply::Renew(self.renew(state, who, token)),
            Command::Delete(token) => {
                let compares = self.fault != Some(Fault::DeleteWithoutCompare);
                Reply::Delete(self.delete(state, who, token, compares))
            }
            Command::Kill(slot) => {
                if barrier && let Some(slot) = slot {
                    self.witness(Witness::CommandFencedOff);
                    state.client_mut(who).vacate(slot);
                }
                Reply::Kill(barrier)
            }
        }
    }

    fn set(&self, state: &mut State, owner: Who, token: Token) -> bool {
        let free = state.record.is_none();
        if free {
            self.write(state, owner, token);
        }
        free
    }

    pub(super) fn renew(&self, state: &mut State, owner: Who, token: Token) -> bool {
        let recreates = self.fault == Some(Fault::RenewalRecreates) && state.record.is_none();
        let renewed = state.record_is(owner, token) || recreates;
        if renewed {
            self.write(state, owner, token);
        }
        renewed
    }

    /// Compared with the predecessor's token, and the heir's set, in one step.
    fn hand_over(&self, state: &mut State, owner: Who, from: Token, to: Token) -> bool {
        let compares = self.fault != Some(Fault::HandOverWithoutCompare);
        let handed = state.record_is(owner, from) || !compares;
        if handed {
            self.write(state, owner, to);
        }
        handed
    }

    fn write(&self, state: &mut State, owner: Who, token: Token) {
        state.record = Some(Record {
            owner,
            token,
            left: self.size.ttl,
        });
    }

    pub(super) fn delete(&self, state: &mut State, who: Who, token: Token, compares: bool) -> bool {
        let Some(record) = state.record else {
            return false;
        };
        let own = state.record_is(who, token);
        if !own && compares {
            return false;
        }
        let owner = state.client(record.owner).phase;
        let relied_on = matches!(owner, Phase::Held { token, .. } if token == record.token)
            || owner.heir() == Some(record.token);
        if !own || relied_on {
            state.breach = Some(Breach::WrongDelete);
        }
        state.record = None;
        if let Phase::Releasing {
            token: releasing,
            deleted,
            ..
        }
        | Phase::ReleaseUnsettled {
            token: releasing,
            deleted,
            ..
        } = &mut state.client_mut(who).phase
            && *releasing == token
        {
            *deleted = true;
        }
        true
    }

    /// One tick of the server's clock.
    pub(super) fn server_tick(&self, state: &mut State) {
        let Some(record) = &mut state.record else {
            return;
        };
        record.left -= 1;
        if record.left > 0 {
            return;
        }
        let expired = *record;
        state.record = None;
        if let Phase::Held { token, .. } | Phase::Lost { token } = state.client(expired.owner).phase
            && token == expired.token
        {
            self.witness(Witness::ExpiredUnderLease);
        }
    }
}
