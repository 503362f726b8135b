//! How far the fencing off of a connection has come.

use std::time::Duration;

use super::class::Class;
use crate::clock::Time;

/// The pause before a server that could not fence a link off is asked again, doubled each time.
const LEAST_PAUSE: Duration = Duration::from_millis(10);
const MOST_PAUSE: Duration = Duration::from_millis(200);

/// The fencing off of a connection.
#[derive(Debug)]
pub(super) struct Fencing {
    pub(super) stage: Stage,
    /// How many have tried in vain, and what the last has met.
    pub(super) failures: u32,
    pub(super) failure: Class,
    pub(super) next_try: Time,
    /// The last convoy whose replies have all been read.
    pub(super) arrived: u64,
    /// Until when the replies of the one under way are waited for.
    pub(super) read_by: Time,
}

impl Default for Fencing {
    fn default() -> Self {
        Self {
            stage: Stage::Open,
            failures: 0,
            failure: Class::NoLink,
            next_try: Time::from_nanos(0),
            arrived: 0,
            read_by: Time::from_nanos(0),
        }
    }
}

impl Fencing {
    /// It came to nothing, for whatever anybody else would meet as well.
    pub(super) fn fail(&mut self, class: Class, now: Time) {
        let pause = LEAST_PAUSE.saturating_mul(1 << self.failures.min(8));
        self.next_try = now.plus(pause.min(MOST_PAUSE));
        self.failures += 1;
        self.failure = class;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nobody has had an answer to it.
    Open,
    /// Somebody is at it.
    Underway,
    /// The server has no such connection any more: nothing that was sent on it can run.
    Done,
    /// The server has answered, and it was no barrier; or it has never told the name of the
    /// connection.
    Refused,
}
