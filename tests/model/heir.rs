//! A release with an heir: the lease goes on to another thread of the same client.

use super::breach::Breach;
use super::fault::Fault;
use super::phase::{Command, Hand, Phase, Reply};
use super::protocol::Protocol;
use super::state::{Bound, Client, Slot};
use super::token::Token;
use super::witness::Witness;

impl Protocol {
    /// As in a release the lease stops being relied on first, and then its renewal is stopped.
    /// The heir waits in memory, with a token that no command has carried.
    pub(super) fn begin_hand_over(&self, client: &mut Client, to: Token) -> Option<Breach> {
        let (from, left) = match client.phase {
            Phase::Held { token, left } => (token, left),
            Phase::Lost { token } => (token, 0),
            _ => return None,
        };
        let again = client.may_have_sent_delete(to) || client.could_set(to);
        self.drop_notices(client);
        if self.fault != Some(Fault::RenewalHandedOver) {
            self.stop_renewals(client);
        }
        client.phase = Phase::HandingOver(Hand {
            from,
            left,
            to,
            heirs: self.validity(),
        });
        client.link.requests.push(Command::HandOver(from, to));
        again.then_some(Breach::SetTooSoon)
    }

    /// The link that may carry the hand-over is fenced off, and then the server is asked whether
    /// the record is the heir's.
    pub(super) fn settle_hand_over(&self, client: &mut Client) {
        let Phase::HandUnsettled {
            mut hand,
            suspect,
            barrier,
        } = client.phase
        else {
            return;
        };
        hand.heirs = self.validity();
        client.phase = Phase::HandSettling {
            hand,
            suspect,
            barrier,
        };
        if self.settles_by_delete {
            client.link.requests.push(Command::Delete(hand.from));
        } else if !barrier {
            client.link.requests.push(Command::Kill(suspect));
        }
        client.link.requests.push(Command::Renew(hand.to));
    }

    pub(super) fn break_hand_over(&self, client: &mut Client, slot: Option<Slot>) -> Phase {
        match client.phase {
            Phase::HandingOver(hand) if self.fault == Some(Fault::UnansweredHandedOver) => {
                Phase::Held {
                    token: hand.to,
                    left: hand.heirs.max(1),
                }
            }
            Phase::HandingOver(hand) => Phase::HandUnsettled {
                hand: Hand { heirs: 0, ..hand },
                suspect: slot,
                barrier: false,
            },
            Phase::HandSettling {
                hand,
                suspect,
                barrier,
            } => {
                // The renewal with the heir's token may run late.
                self.leave_bound_open(client);
                Phase::HandUnsettled {
                    hand: Hand { heirs: 0, ..hand },
                    suspect,
                    barrier,
                }
            }
            other => other,
        }
    }

    /// A reply to the hand-over or to its settling. `heir_waits` says whether there is still
    /// somebody to take the lease; if not, whoever reads the reply gives it back.
    pub(super) fn read_hand_over(
        &self,
        client: &mut Client,
        margin: u8,
        reply: Reply,
        heir_waits: bool,
    ) {
        match (client.phase, reply) {
            (Phase::HandingOver(hand), Reply::HandOver(true)) => {
                self.witness(Witness::HandedOver);
                self.succeed(client, margin, hand, heir_waits);
            }
            // The heir's token has never stood and never will, so the heir may go on with it.
            (Phase::HandingOver(hand), Reply::HandOver(false)) => {
                client.disowned.insert(hand.to);
                client.phase = Phase::Idle;
            }
            (
                Phase::HandSettling {
                    hand,
                    suspect,
                    barrier,
                },
                Reply::Kill(answer),
            ) => {
                client.phase = Phase::HandSettling {
                    hand,
                    suspect,
                    barrier: barrier || answer,
                };
            }
            (Phase::HandSettling { hand, .. }, Reply::Renew(true)) => {
                self.witness(Witness::HeirSettledAsOurs);
                self.succeed(client, margin, hand, heir_waits);
            }
            (Phase::HandSettling { hand, .. }, Reply::Delete(true)) => {
                client.released.insert(hand.from);
            }
            // Answered either way, the delete has left nothing that could be handed over.
            (Phase::HandSettling { hand, .. }, Reply::Renew(false)) if self.settles_by_delete => {
                client.disowned.insert(hand.to);
                client.phase = Phase::Idle;
            }
            (Phase::HandSettling { hand, barrier, .. }, Reply::Renew(false)) => {
                if barrier || self.fault == Some(Fault::HeirDisprovenWithoutBarrier) {
                    self.witness(Witness::HeirSettledAsNotOurs);
                    client.disowned.insert(hand.to);
                    self.release(client, hand.from, hand.left);
                    if self.fault == Some(Fault::ReleaseWithHeirsToken) {
                        client.link.requests.pop();
                        client.link.requests.push(Command::Delete(hand.to));
                    }
                } else {
                    self.taint_both(client, hand);
                }
            }
            _ => {}
        }
    }

    /// The record is the heir's: the predecessor's release answers `Ok`, and the heir holds.
    fn succeed(&self, client: &mut Client, margin: u8, mut hand: Hand, heir_waits: bool) {
        client.released.insert(hand.from);
        if heir_waits {
            if self.fault == Some(Fault::HeirsDeadlineFromReply) {
                hand.heirs = self.validity();
            }
            self.take_up(client, margin, hand.to, hand.heirs);
            if self.fault == Some(Fault::HandedOverAndDeleted) {
                client.link.requests.push(Command::Delete(hand.to));
            }
            return;
        }
        self.witness(Witness::HeirWasGone);
        client.phase = Phase::Idle;
        if self.fault != Some(Fault::HeirGoneUnnoticed) {
            self.release(client, hand.to, self.counted_from(hand.heirs));
        }
    }

    /// Either token may stand, or come to stand: the hand-over may run as long as the
    /// predecessor's record does. The heir tries again with another token.
    pub(super) fn taint_both(&self, client: &mut Client, hand: Hand) {
        self.witness(Witness::BothTainted);
        let phase = client.phase;
        // It may run just before the predecessor's record expires; then the heir's has a whole ttl.
        if let Bound::Within { token, left } = &mut client.bound {
            *token = hand.to;
            if self.fault != Some(Fault::BoundIgnoresHeir) {
                *left += self.size.ttl;
            }
        }
        self.taint(client, hand.from);
        match self.fault {
            Some(Fault::HeirLeftUntainted) => {}
            Some(Fault::TaintedHeirSettled) => {
                self.taint(client, hand.to);
                client.phase = phase;
            }
            _ => self.taint(client, hand.to),
        }
    }
}
