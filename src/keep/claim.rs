//! What a waiter in memory brings, so that a lock can be handed to it, and what it is told.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::clock::Time;
use crate::error::Cause;
use crate::queue::{Queue, Seat, Tenancy};
use crate::server::Target;

/// A lock of one's own, and a fresh token for it that was sent nowhere so far.
pub(crate) trait Claim: Send + Sync {
    fn target(&self) -> Target<'_>;

    /// The longest that a record of it can stand, once a command has set it.
    fn longest_standing(&self) -> Duration;

    /// The record is the claimant's. `None` if it cannot be used.
    fn install(&self, fence: Option<u64>, proof: Proof) -> Option<(u64, Weak<dyn Tenancy>)>;

    /// Nobody holds by it: what may stand of it is deleted in the background.
    fn give_up(&self);
}

/// What is known of a record that was handed over.
#[derive(Clone, Copy)]
pub(crate) struct Proof {
    /// It was set then, or later.
    pub(crate) taken: Time,
    /// When the command went out that proves it: validity counts from here.
    pub(crate) sent: Time,
    /// Renewals that were sent for it since then and not answered.
    pub(crate) unanswered: u32,
}

/// What a neighbour's release brings a waiter.
pub(crate) enum Handed {
    /// The lock: its claim has the record.
    Yours,
    /// Perhaps the lock: it is the reaper's now.
    InDoubt(Cause),
}

/// Those who wait in this process for what this client holds.
pub(crate) type Heirs = Queue<Arc<dyn Claim>, Handed>;

pub(crate) type HeirSeat = Seat<Arc<dyn Claim>, Handed>;
