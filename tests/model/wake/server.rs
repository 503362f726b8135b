//! The server's side: the scripts, the queue in front of *wake*, and what expires.

use super::model::{Fault, Waking};
use super::state::{Blocked, Breach, Command, Out, Record, Reply, State, Who};
use super::witness::Witness;
use crate::token::Token;

/// Ticks for which `BLPOP` blocks at most.
pub(super) const BLOCKS: u8 = 1;

/// How the server takes a command, where it has a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Willing,
    /// A `CLIENT KILL` is refused, or a `LPUSH` is: for want of memory, or of rights.
    Unwilling,
}

impl Waking {
    /// `None` if the command blocks.
    pub(super) fn run(
        &self,
        state: &mut State,
        who: Who,
        command: Command,
        mood: Mood,
    ) -> Option<Reply> {
        let willing = mood == Mood::Willing;
        Some(match command {
            Command::Set(token) => Reply::Taken(take(state, who, token)),
            Command::Wait(token) => {
                let taken = take(state, who, token);
                if !taken {
                    state.announced = Some(who);
                }
                Reply::Taken(taken)
            }
            Command::Announce(token) => {
                if self.fault == Some(Fault::AnnouncementTakes) && take(state, who, token) {
                    state.breach = Some(Breach::TookUnasked);
                }
                state.announced = Some(who);
                Reply::Taken(false)
            }
            Command::Pop if state.wake > 0 => {
                self.witness(Witness::WokenAhead);
                state.wake -= 1;
                Reply::Popped(true)
            }
            Command::Pop => return None,
            Command::Settle(token) => {
                let process = state.process_mut(who);
                if willing && process.could_set(token) {
                    process.late = None;
                }
                Reply::Settled {
                    barrier: willing,
                    ours: state.record_is(who, token),
                }
            }
            Command::Release(token) => {
                let others = state.announced.is_some_and(|last| last != who);
                let released = self.release(state, who, token, willing);
                Reply::Released {
                    others: released && others,
                }
            }
        })
    }

    /// Compare, delete, and push one wake-up if somebody is announced and none is there.
    pub(super) fn release(
        &self,
        state: &mut State,
        who: Who,
        token: Token,
        may_push: bool,
    ) -> bool {
        if !state.record_is(who, token) {
            return false;
        }
        if state.process(who).counts_on() == Some(token) {
            state.breach = Some(Breach::WrongDelete);
        }
        state.record = None;
        let own = self.fault == Some(Fault::PushedForOthersAlone) && state.announced == Some(who);
        let unchecked = self.fault == Some(Fault::PushedUnchecked);
        if may_push && !own && state.announced.is_some() && (state.wake == 0 || unchecked) {
            self.push(state);
            if self.fault == Some(Fault::AnnouncementCleared) {
                state.announced = None;
            }
        }
        true
    }

    fn push(&self, state: &mut State) {
        if state.blocked.is_empty() {
            state.wake += 1;
            return;
        }
        let first = state.blocked.remove(0);
        if first.ghost {
            self.witness(Witness::GhostWoken);
        } else {
            state.process_mut(first.who).out = Out::Answered(Reply::Popped(true));
        }
    }

    pub(super) fn block(&self, state: &mut State, who: Who, ghost: bool) {
        state.blocked.push(Blocked {
            who,
            ghost,
            left: BLOCKS,
        });
        if !ghost {
            state.process_mut(who).out = Out::Blocked;
        }
    }

    /// One tick of every clock; the server answers those whose time is over.
    pub(super) fn server_tick(&self, state: &mut State) {
        if self.fault == Some(Fault::BlocksForEver) {
            return;
        }
        for blocked in &mut state.blocked {
            blocked.left -= 1;
        }
        let (over, blocked) = state.blocked.iter().partition(|blocked| blocked.left == 0);
        let over: Vec<Blocked> = over;
        state.blocked = blocked;
        for blocked in over.into_iter().filter(|blocked| !blocked.ghost) {
            state.process_mut(blocked.who).out = Out::Answered(Reply::Popped(false));
        }
    }
}

fn take(state: &mut State, owner: Who, token: Token) -> bool {
    let free = state.record.is_none();
    if free {
        state.record = Some(Record { owner, token });
    }
    free
}
