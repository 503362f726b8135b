//! A client's side, rule by rule: how a lock is acquired, kept and released, and what becomes of
//! each command that was never answered.

use super::breach::Breach;
use super::fault::Fault;
use super::phase::{Command, Phase, Reply};
use super::protocol::Protocol;
use super::queue::Queue;
use super::state::{Bound, Client, Doubt, Notices, Slot};
use super::token::Token;
use super::witness::Witness;

impl Protocol {
    /// `SET NX PX` with a fresh token.
    pub(super) fn acquire(&self, client: &mut Client, token: Token) -> Option<Breach> {
        let again = client.may_have_sent_delete(token) || client.could_set(token);
        // Not needed for a fresh token; the planted fault passes a tainted one.
        *client.reaper.doubt_mut(token) = None;
        client.bound = Bound::Unset;
        client.phase = Phase::Acquiring {
            token,
            left: self.validity(),
        };
        client.link.requests.push(Command::Set(token));
        again.then_some(Breach::SetTooSoon)
    }

    /// On a new link the old one is fenced off, and then the server is asked whose the record is.
    /// Both go out in one batch: the server runs them in this order, which is all that counts.
    pub(super) fn resolve(&self, client: &mut Client) {
        let Phase::Unsettled {
            token,
            suspect,
            barrier,
        } = client.phase
        else {
            return;
        };
        client.phase = Phase::Resolving {
            token,
            suspect,
            barrier,
            left: self.validity(),
        };
        if !barrier {
            client.link.requests.push(Command::Kill(suspect));
        }
        client.link.requests.push(Command::Renew(token));
    }

    /// The lease stops being relied on first, and no callback of it begins any more; then its
    /// renewal is stopped; then the compare-and-delete goes out. That a renewal in flight is waited
    /// for, is not modelled: the delete may be as late here as it likes.
    pub(super) fn release_lease(&self, client: &mut Client) {
        match client.phase {
            Phase::Held { token, left } => self.release(client, token, left),
            Phase::Lost { token } => self.release(client, token, 0),
            _ => {}
        }
    }

    pub(super) fn release(&self, client: &mut Client, token: Token, left: u8) {
        self.drop_notices(client);
        self.stop_renewals(client);
        client.phase = Phase::Releasing {
            token,
            left,
            again: false,
            deleted: false,
        };
        client.link.requests.push(Command::Delete(token));
    }

    pub(super) fn release_again(&self, client: &mut Client) {
        let Phase::ReleaseUnsettled {
            token,
            left,
            suspect,
            deleted,
        } = client.phase
        else {
            return;
        };
        client.phase = Phase::Releasing {
            token,
            left,
            again: true,
            deleted,
        };
        client.link.requests.push(Command::Kill(suspect));
        client.link.requests.push(Command::Delete(token));
    }

    /// The budget is over: the call answers `is_unknown()`, and the reaper owns the token.
    pub(super) fn give_up(&self, client: &mut Client) {
        match client.phase {
            Phase::Unsettled { token, .. } | Phase::ReleaseUnsettled { token, .. } => {
                self.taint(client, token);
            }
            Phase::HandUnsettled { hand, .. } => self.taint_both(client, hand),
            _ => {}
        }
    }

    pub(super) fn taint(&self, client: &mut Client, token: Token) {
        self.witness(Witness::TokenTainted);
        *client.reaper.doubt_mut(token) = Some(Doubt::default());
        client.phase = Phase::Idle;
    }

    /// The process dies, and another takes its place: it knows nothing of the first one's tokens,
    /// and what the first one sent may still run.
    pub(super) fn crash(&self, client: &mut Client, slot: Option<Slot>) {
        self.break_link(client, slot);
        client.give_up_renewals();
        client.phase = Phase::Idle;
        client.notices = Notices::default();
        client.reaper.die();
        client.bound = Bound::Unset;
    }

    /// The client waits on its link no longer. What the server has not run yet may run later, from
    /// the slot that it moves to.
    pub(super) fn break_link(&self, client: &mut Client, slot: Option<Slot>) {
        if let Some(slot) = slot {
            client.broken[usize::from(slot)] = client.link.requests;
        }
        client.link.requests = Queue::default();
        client.link.replies = Queue::default();
        client.phase = match client.phase {
            Phase::Acquiring { token, .. } => Phase::Unsettled {
                token,
                suspect: slot,
                barrier: false,
            },
            Phase::Resolving {
                token,
                suspect,
                barrier,
                ..
            } => {
                self.leave_bound_open(client);
                let wrong = self.fault == Some(Fault::WrongLinkFencedOff);
                Phase::Unsettled {
                    token,
                    suspect: if wrong { slot } else { suspect },
                    barrier,
                }
            }
            Phase::Releasing {
                token,
                left,
                deleted,
                ..
            } => Phase::ReleaseUnsettled {
                token,
                left,
                suspect: slot,
                deleted,
            },
            _ => self.break_hand_over(client, slot),
        };
    }

    /// One reply is read and acted on, in one step with the look at the clock.
    pub(super) fn read(&self, client: &mut Client, margin: u8, reply: Reply) -> Option<Breach> {
        match (client.phase, reply) {
            (Phase::Acquiring { token, left }, Reply::Set(true)) => {
                self.take_up(client, margin, token, left);
            }
            (Phase::Acquiring { .. }, Reply::Set(false)) => client.phase = Phase::Idle,
            (
                Phase::Resolving {
                    token,
                    suspect,
                    barrier,
                    left,
                },
                Reply::Kill(answer),
            ) => {
                client.phase = Phase::Resolving {
                    token,
                    suspect,
                    barrier: barrier || answer,
                    left,
                };
            }
            (Phase::Resolving { token, left, .. }, Reply::Renew(true)) => {
                self.witness(Witness::ResolvedAsOurs);
                self.take_up(client, margin, token, left);
            }
            (Phase::Resolving { token, barrier, .. }, Reply::Renew(false)) => {
                if barrier || self.fault == Some(Fault::ProvenWithoutBarrier) {
                    self.witness(Witness::ResolvedAsNotOurs);
                    client.disowned.insert(token);
                    client.phase = Phase::Idle;
                } else {
                    self.taint(client, token);
                }
            }
            (Phase::Releasing { .. }, Reply::Delete(answer)) => {
                return self.end_release(client, answer);
            }
            (_, reply) => self.read_hand_over(client, margin, reply, true),
        }
        None
    }

    /// A confirmed acquisition is a lease only if more of its validity is left than the margin.
    pub(super) fn take_up(&self, client: &mut Client, margin: u8, token: Token, left: u8) {
        self.bound_record(client, token);
        let left = self.counted_from(left);
        client.notices = Notices::default();
        if left <= margin {
            self.witness(Witness::ConfirmedTooLate);
            self.release(client, token, left);
        } else {
            client.phase = Phase::Held { token, left };
        }
    }

    /// Deleted: `Ok`. Not ours at the first try: `is_lost()`. Not ours at a later try: an earlier
    /// one did it, if by our clock the record cannot have expired yet; else nobody can tell.
    fn end_release(&self, client: &mut Client, answer: bool) -> Option<Breach> {
        let Phase::Releasing {
            token,
            left,
            again,
            deleted,
        } = client.phase
        else {
            return None;
        };
        client.phase = Phase::Idle;
        if !answer {
            if !again || (left == 0 && self.fault != Some(Fault::GoneAlwaysReleased)) {
                return None;
            }
            self.witness(Witness::ReleaseInferred);
        }
        client.released.insert(token);
        (!deleted).then_some(Breach::UntrueRelease)
    }

    /// A confirmed command ran before its reply was read, so the record stands for a ttl from now
    /// at most. The deadline will not do here: it is the *least* that the record stands.
    pub(super) fn bound_record(&self, client: &mut Client, token: Token) {
        if self.tracks_bound && client.bound != Bound::Open {
            client.bound = Bound::Within {
                token,
                left: self.size.ttl,
            };
        }
    }

    pub(super) fn leave_bound_open(&self, client: &mut Client) {
        if self.tracks_bound && self.fault != Some(Fault::BoundIgnoresUnansweredRenewal) {
            client.bound = Bound::Open;
        }
    }

    pub(super) fn counted_from(&self, left: u8) -> u8 {
        if self.fault == Some(Fault::DeadlineFromReply) {
            self.validity()
        } else {
            left
        }
    }
}

impl Client {
    /// One tick of the client's clock. The loss needs no observer: whoever looks computes it.
    pub(super) fn tick(&mut self) {
        if let Bound::Within { left, .. } = &mut self.bound {
            *left = left.saturating_sub(1);
        }
        match &mut self.phase {
            Phase::Idle | Phase::Unsettled { .. } => {}
            Phase::Acquiring { left, .. }
            | Phase::Resolving { left, .. }
            | Phase::Releasing { left, .. }
            | Phase::ReleaseUnsettled { left, .. } => *left = left.saturating_sub(1),
            Phase::Held { left, .. } => *left -= 1,
            Phase::Lost { .. } => {}
            Phase::HandingOver(hand)
            | Phase::HandUnsettled { hand, .. }
            | Phase::HandSettling { hand, .. } => {
                hand.left = hand.left.saturating_sub(1);
                hand.heirs = hand.heirs.saturating_sub(1);
            }
        }
        if let Phase::Held { token, left: 0 } = self.phase {
            self.phase = Phase::Lost { token };
        }
        for renewal in self.renewals.iter_mut().flatten() {
            if let Some(left) = renewal.stage.left_mut() {
                *left = left.saturating_sub(1);
            }
        }
    }
}
