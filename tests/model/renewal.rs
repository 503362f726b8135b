//! Renewal in the background: what the renewal thread sends, and what an answer says, however late.

use super::breach::Breach;
use super::fault::Fault;
use super::phase::Phase;
use super::protocol::Protocol;
use super::state::{Client, Renewal, Slot, Stage, State, Who};
use super::witness::Witness;

impl Protocol {
    /// The lease goes into a batch. What is due may be due again before an answer is there: an
    /// overdue renewal is tried again on another link, and both answers count.
    pub(super) fn begin_renewal(&self, client: &mut Client) {
        let Phase::Held { token, .. } = client.phase else {
            return;
        };
        let stage = Stage::Due {
            left: self.validity(),
        };
        if let Some(place) = client.renewals.iter_mut().find(|place| place.is_none()) {
            *place = Some(Renewal { token, stage });
        }
    }

    pub(super) fn send_renewal(&self, client: &mut Client, slot: Slot) -> Option<Breach> {
        let renewal = client.renewals[usize::from(slot)].as_mut()?;
        if let Stage::Due { left } = renewal.stage {
            renewal.stage = Stage::Sent { left };
        }
        // A phase that has the token is one that `release` has not returned from.
        (client.phase.token() != Some(renewal.token)).then_some(Breach::RenewedAfterRelease)
    }

    pub(super) fn run_renewal(&self, state: &mut State, who: Who, slot: Slot) {
        let Some(renewal) = state.client(who).renewals[usize::from(slot)] else {
            return;
        };
        let before = state.record;
        let ours = self.renew(state, who, renewal.token);
        let stage = match renewal.stage {
            Stage::Sent { left } => Some(Stage::Answered { left, ours }),
            _ => None,
        };
        if stage.is_none() && state.record != before {
            self.witness(Witness::RenewalRanLate);
        }
        state.client_mut(who).renewals[usize::from(slot)] =
            stage.map(|stage| Renewal { stage, ..renewal });
    }

    /// One answer is read and acted on, in one step with the look at the clock.
    pub(super) fn read_renewal(
        &self,
        client: &mut Client,
        margin: u8,
        slot: Slot,
    ) -> Option<Breach> {
        let renewal = client.renewals[usize::from(slot)].take()?;
        let Stage::Answered { left: new, ours } = renewal.stage else {
            return None;
        };
        if ours {
            self.bound_record(client, renewal.token);
        }
        match client.phase {
            Phase::Held { token, .. } if !ours => client.phase = Phase::Lost { token },
            Phase::Held { token, left } => {
                let new = left.max(self.counted_from(new));
                if new > left && client.renewals.iter().any(Option::is_some) {
                    self.witness(Witness::OneOfTwoConfirmed);
                }
                if left <= margin && new > margin {
                    self.end_stay(client);
                } else if client.notices.told && new > left {
                    self.witness(Witness::DangerLengthened);
                }
                client.phase = Phase::Held { token, left: new };
            }
            Phase::Lost { token } if ours && new > 0 => {
                self.witness(Witness::LateConfirmation);
                if self.fault == Some(Fault::LateConfirmationApplied) {
                    client.phase = Phase::Held { token, left: new };
                    return Some(Breach::Revived);
                }
            }
            _ => {}
        }
        None
    }

    /// The link broke under an answer that had come from the server.
    pub(super) fn miss_renewal(&self, client: &mut Client, slot: Slot) {
        client.renewals[usize::from(slot)] = None;
        self.leave_bound_open(client);
    }

    /// What is in the batch is taken out again, and what has been sent is waited for no longer.
    pub(super) fn stop_renewals(&self, client: &mut Client) {
        let due = client
            .renewals
            .iter()
            .flatten()
            .copied()
            .find(|renewal| matches!(renewal.stage, Stage::Due { .. }));
        if client.give_up_renewals() {
            self.leave_bound_open(client);
        }
        if self.fault == Some(Fault::RenewalNotStopped)
            && let Some(place) = client.renewals.iter_mut().find(|place| place.is_none())
        {
            *place = due;
        }
    }
}

impl Client {
    /// Says whether any of them was still waited for.
    pub(super) fn give_up_renewals(&mut self) -> bool {
        let waited_for =
            self.renewals.iter().flatten().any(|renewal| {
                matches!(renewal.stage, Stage::Sent { .. } | Stage::Answered { .. })
            });
        for place in &mut self.renewals {
            *place = place.and_then(|renewal| match renewal.stage {
                Stage::Due { .. } | Stage::Answered { .. } => None,
                Stage::Sent { .. } | Stage::GivenUp => Some(Renewal {
                    stage: Stage::GivenUp,
                    ..renewal
                }),
            });
        }
        waited_for
    }
}
