//! The watch thread, which knows the clock alone, and the callbacks that it has others begin.

use super::breach::Breach;
use super::fault::Fault;
use super::phase::Phase;
use super::protocol::Protocol;
use super::state::{Client, LossNotice, Notices};
use super::witness::Witness;

/// As many dangers may wait for a callback thread; under a planted fault only is it more than one.
const WAITING_DANGERS: u8 = 2;

impl Protocol {
    /// Whether a look at the clock would tell anything.
    pub(super) fn would_tell(&self, client: &Client, margin: u8) -> bool {
        let notices = &client.notices;
        match client.phase {
            _ if margin == 0 => false,
            Phase::Held { left, .. } => {
                let again = self.fault == Some(Fault::DangerAtEveryLook);
                left <= margin && notices.dangers < WAITING_DANGERS && (!notices.told || again)
            }
            Phase::Lost { .. } => {
                let again = self.fault == Some(Fault::LossAtEveryLook);
                notices.loss == LossNotice::Untold || again
            }
            _ => false,
        }
    }

    /// The watch wakes, computes the state from the clock, and tells of it. It may be late.
    pub(super) fn look(&self, client: &mut Client) -> Option<Breach> {
        let waits_for_renewal = self.fault == Some(Fault::DangerWaitsForRenewal)
            && client.renewals.iter().any(Option::is_some);
        let notices = &mut client.notices;
        if let Phase::Held { .. } = client.phase {
            notices.seen = true;
            if !waits_for_renewal {
                notices.told = true;
                notices.dangers += 1;
            }
            return None;
        }
        if notices.seen && !notices.told {
            return Some(Breach::DangerPassedOver);
        }
        self.witness(if notices.told {
            Witness::LossAfterDanger
        } else {
            Witness::LossAtOnce
        });
        let twice = notices.loss != LossNotice::Untold;
        notices.loss = LossNotice::Waiting;
        twice.then_some(Breach::ToldTwice)
    }

    /// A callback thread asks once more where the lease stands, and begins the callback if it is
    /// still true, both in one step. Several threads do so, in any order.
    pub(super) fn call_danger(&self, client: &mut Client, margin: u8) -> Option<Breach> {
        client.notices.dangers -= 1;
        let still_true = matches!(client.phase, Phase::Held { left, .. } if left <= margin);
        if !still_true && self.fault != Some(Fault::NoticeBegunUnlooked) {
            self.witness(Witness::DangerDropped);
            return None;
        }
        self.witness(Witness::DangerBegun);
        let twice = client.notices.begun;
        client.notices.begun = true;
        match client.phase {
            Phase::Lost { .. } => Some(Breach::DangerAfterDeadline),
            _ if has_returned(client) => Some(Breach::NoticeAfterEnd),
            _ => twice.then_some(Breach::ToldTwice),
        }
    }

    pub(super) fn call_loss(&self, client: &mut Client) -> Option<Breach> {
        client.notices.loss = LossNotice::Begun;
        has_returned(client).then_some(Breach::NoticeAfterEnd)
    }

    /// A confirmation has brought the lease out of its danger zone. What waits for a callback
    /// thread is of a stay that is over, and is not begun in the next one either.
    pub(super) fn end_stay(&self, client: &mut Client) {
        self.witness(Witness::DangerOver);
        let stale = match self.fault {
            Some(Fault::StaleNoticeBegun) => client.notices.dangers,
            _ => 0,
        };
        client.notices = Notices {
            dangers: stale,
            ..Notices::default()
        };
    }

    /// What waits for a callback thread finds the lease released.
    pub(super) fn drop_notices(&self, client: &mut Client) {
        if self.fault != Some(Fault::NoticeBegunUnlooked) {
            client.notices = Notices::default();
        }
    }
}

/// Whether the lease that the notices are about has been released, and the caller knows it.
fn has_returned(client: &Client) -> bool {
    !matches!(
        client.phase,
        Phase::Held { .. }
            | Phase::Lost { .. }
            | Phase::Releasing { .. }
            | Phase::ReleaseUnsettled { .. }
            | Phase::HandingOver(_)
            | Phase::HandUnsettled { .. }
            | Phase::HandSettling { .. }
    )
}
