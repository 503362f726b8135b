//! What is left of a link that broke with commands unanswered, and fencing it off.

use std::sync::Arc;

use super::class::Class;
use super::fencing::{Fencing, Stage};
use super::wire::{Connection, Identity, Wire};
use crate::clock::{Clock, Time};

/// A link on which a command went unanswered. Its socket is kept open, so that the server still
/// knows the connection by its id and address until it is fenced off.
///
/// All whose commands went unanswered on it share one: what one of them has fenced off is fenced
/// off for each.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    wire: Arc<Wire>,
    /// Which convoy the command was in, where its owner has gone before the others: once that has
    /// arrived, nothing of it can run any more, and nothing has to be killed.
    voyage: Option<u64>,
}

/// What is to be done about a broken link before it can be asked what came of its commands.
pub(super) enum Fence<'a> {
    /// The caller is the one to fence it off; the others wait for it.
    Yours(Fencer<'a>),
    /// It is over, one way or the other: there is nothing more to kill.
    Over,
    /// Somebody is still at it, and the time is up.
    TooLate,
    /// Somebody has just tried in vain, and this is what he has met: who waited would meet the
    /// same, one after the other.
    Failed(Class),
}

impl Broken {
    /// Of a link that nobody reads on.
    pub(super) fn ended(wire: &Arc<Wire>) -> Self {
        wire.end();
        Self {
            wire: Arc::clone(wire),
            voyage: None,
        }
    }

    /// Of a link on which others still wait for their replies.
    pub(super) fn under_way(wire: &Arc<Wire>, voyage: u64) -> Self {
        Self {
            wire: Arc::clone(wire),
            voyage: Some(voyage),
        }
    }

    /// Waits, until `until`, for others who are fencing it off. One is enough, and each needs a
    /// link of its own: hundreds of callers may have shared this one. It also waits for those who
    /// still read replies on it: killing it would leave them without.
    pub(super) fn fence(&self, clock: &Clock, until: Time) -> Fence<'_> {
        let mut fencing = self.wire.fencing.lock();
        let failures = fencing.failures;
        loop {
            let now = clock.now();
            if self.has_arrived(&fencing) {
                return Fence::Over;
            }
            let wait = match fencing.stage {
                Stage::Done | Stage::Refused => return Fence::Over,
                _ if fencing.failures != failures => return Fence::Failed(fencing.failure),
                Stage::Underway => until,
                Stage::Open if now < fencing.read_by => until.min(fencing.read_by),
                Stage::Open if now < fencing.next_try => return Fence::Failed(fencing.failure),
                Stage::Open => {
                    let Some(connection) = &self.wire.identity().connection else {
                        fencing.stage = Stage::Refused;
                        return Fence::Over;
                    };
                    fencing.stage = Stage::Underway;
                    return Fence::Yours(Fencer {
                        wire: &self.wire,
                        connection,
                    });
                }
            };
            if until <= now {
                return Fence::TooLate;
            }
            clock.park(&self.wire.fenced, &mut fencing, wait);
        }
    }

    fn has_arrived(&self, fencing: &Fencing) -> bool {
        self.voyage.is_some_and(|voyage| voyage <= fencing.arrived)
    }

    /// Whether nothing that was sent on it and not answered can run any more.
    pub(super) fn is_fenced_off(&self) -> bool {
        let fencing = self.wire.fencing.lock();
        fencing.stage == Stage::Done || self.has_arrived(&fencing)
    }

    /// Whether `other` is known to lead to the same history of data as this link did: only
    /// then is what is missing there known to have been removed by a command.
    pub(super) fn shares_history(&self, other: &Identity) -> bool {
        let history = &self.wire.identity().history;
        history.is_some() && *history == other.history
    }
}

/// The right to fence a broken link off. It goes to the next where nothing came of it.
pub(super) struct Fencer<'a> {
    wire: &'a Wire,
    /// The one to kill.
    pub(super) connection: &'a Connection,
}

impl Fencer<'_> {
    /// Takes the answer to `CLIENT KILL` that came over a link of the identity `asked`; `None`
    /// where it was refused.
    ///
    /// 1 is a barrier. 0 says that there is no such connection, which is one too, if it is
    /// the same run of the same server that says so; from any other server it says nothing.
    /// It is noted, because a second try would find nothing to kill.
    pub(super) fn note(&self, killed: Option<i64>, asked: &Identity) {
        let is_done = match killed {
            Some(1) => true,
            Some(0) => self.wire.identity().is_of_same_run(asked),
            _ => false,
        };
        self.wire.fencing.lock().stage = if is_done { Stage::Done } else { Stage::Refused };
        self.wire.fenced.notify_all();
    }

    /// Notes that it came to nothing, for whatever anybody else would meet as well.
    pub(super) fn failed(&self, class: Class, now: Time) {
        self.wire.fencing.lock().fail(class, now);
    }
}

impl Drop for Fencer<'_> {
    fn drop(&mut self) {
        let mut fencing = self.wire.fencing.lock();
        if fencing.stage == Stage::Underway {
            fencing.stage = Stage::Open;
        }
        drop(fencing);
        self.wire.fenced.notify_all();
    }
}
