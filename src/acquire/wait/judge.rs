//! What an attempt means for the call that made it.

use std::mem;
use std::time::Duration;

use super::{Attempt, Next, Obstacle, Waiter};
use crate::backoff::Backoff;
use crate::error::{Cause, Error, chain};
use crate::queue::Word;
use crate::server::{Class, Entry, WaitEnd};

/// How often a waiter looks at what stands in its way.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often in a row a wait may end at once.
const MOST_IN_VAIN: u32 = 32;

/// A record is gone when its last millisecond is over, and not before.
const MOMENT: Duration = Duration::from_millis(1);

impl Waiter<'_> {
    /// What an attempt means for this call; `None` ends it without a lease and without an error.
    pub(super) fn judge(&mut self, attempt: Attempt) -> Result<Option<Next>, Error> {
        Ok(Some(match attempt {
            Attempt::Taken(record) => Next::Done(record),
            Attempt::Held { token, end } => {
                self.spare = token;
                return self.held(end);
            }
            Attempt::Settled { cause } if self.again && !self.limits.is_over() => {
                self.again = false;
                self.note(&cause);
                Next::Again
            }
            Attempt::Settled { cause } => self.away(cause)?,
            Attempt::NotNow {
                cause,
                token,
                is_away,
            } => {
                self.spare = token;
                if is_away && let Some(place) = &self.place {
                    place.turn_away(&cause);
                }
                self.away(cause)?
            }
            Attempt::NoTurn { token, cause } => {
                self.spare = Some(token);
                if self.limits.is_once() {
                    return Err(self.end(Obstacle::Away(cause)));
                }
                if !self.limits.is_over() {
                    self.limits.next_attempt(false);
                    return Ok(Some(Next::Again));
                }
                Next::After(Duration::ZERO, Obstacle::Away(cause))
            }
            Attempt::Never(fault) => return Err(self.site.error(self.action(), fault)),
            Attempt::Unknown { cause, reached } => {
                // Two in a row, and it is not others that this call waits for.
                let once_more = reached && !self.limits.is_once() && !self.in_doubt;
                let goes_on = self.limits.outlasts_outages() || once_more;
                self.in_doubt = true;
                if !goes_on {
                    return Err(self.unknown(cause));
                }
                self.note(&cause);
                // Of several the last is told: all of them are why the end is unknown.
                self.unsettled = Some(cause);
                // Waited for like a held lock: our own record may stand there.
                self.found_held = true;
                self.entry = Some(Entry::Try);
                self.sit(false)?;
                Next::After(self.pauses.next_pause(), Obstacle::Held)
            }
        }))
    }

    /// The lock is held: by somebody here, or by others.
    fn held(&mut self, end: WaitEnd) -> Result<Option<Next>, Error> {
        if matches!(end, WaitEnd::Untried) {
            self.entry = None;
            self.polls = true;
            return Ok(Some(Next::Again));
        }
        self.in_doubt = false;
        self.found_held = true;
        self.site.counters.contended.add_one();
        self.limits.next_attempt(true);
        if self.limits.is_once() {
            return Ok(None);
        }
        self.sit(false)?;
        if let Some(place) = &self.place {
            place.note_held();
        }
        self.entry = Some(Entry::Try);
        let (pause, cause) = match end {
            WaitEnd::Unannounced {
                remaining,
                for_ever,
                cause,
            } => {
                if for_ever {
                    self.warn_about_no_expiry();
                }
                (self.until(remaining), cause)
            }
            _ if self.limits.is_over() => (Duration::ZERO, None),
            WaitEnd::Again { woken, for_ever } => {
                if for_ever {
                    self.warn_about_no_expiry();
                }
                // Whoever was woken nearly always gets the lock, and this is the shorter way.
                self.entry = (!woken).then_some(Entry::Try);
                match self.in_vain() {
                    Some(pause) => (pause, None),
                    None => return Ok(Some(Next::Again)),
                }
            }
            WaitEnd::AnothersTurn => {
                self.entry = Some(Entry::Quietly);
                (Backoff::ANOTHERS_TURN.pauses().next_pause(), None)
            }
            WaitEnd::NoWait if mem::take(&mut self.polls) => (self.between_looks()?, None),
            WaitEnd::NoWait | WaitEnd::Untried => return Ok(Some(Next::Again)),
        };
        let obstacle = cause.map_or(Obstacle::Held, Obstacle::Away);
        Ok(Some(Next::After(pause, obstacle)))
    }

    /// The pause after a wait that has ended at once, where that goes on: somebody else fills the
    /// list of wake-ups, say.
    fn in_vain(&mut self) -> Option<Duration> {
        let now = self.site.clock.now();
        let last = mem::replace(&mut self.waited, now);
        self.vain = if now.since(last) < MOMENT * 2 {
            self.vain + 1
        } else {
            0
        };
        (MOST_IN_VAIN < self.vain).then(|| self.pauses.next_pause())
    }

    /// Tells those behind that the server has not said whether the lock is held.
    fn note(&self, cause: &Cause) {
        if let Some(place) = &self.place {
            place.note(Word::Away(cause.clone()));
        }
    }

    /// What has stood in the way of a call that waited in memory.
    pub(super) fn obstacle(&self, word: Word) -> Obstacle {
        match word {
            Word::Held => Obstacle::Held,
            Word::Away(cause) => Obstacle::Away(cause),
            Word::Unheard => Obstacle::Away(Cause::TimedOut {
                doing: "waiting for another thread to hear from",
                server: self.site.name.clone(),
                after: self.site.clock.now().since(self.limits.begun),
            }),
        }
    }

    /// What a server that is away means for this call: an obstacle, or its end.
    fn away(&mut self, cause: Cause) -> Result<Next, Error> {
        self.note(&cause);
        // A cancelled wait ends as such, at the next look.
        if self.limits.outlasts_outages() || self.limits.is_cancelled() {
            // Of a wait that goes on, or is cancelled, nobody hears it otherwise.
            if !mem::replace(&mut self.told_away, true) {
                say!(
                    warn,
                    target: "leasehold::acquire",
                    "waiting for lock `{}`: {}", self.site.key().escape_debug(), chain(&cause)
                );
            }
            self.sit(false)?;
            return Ok(Next::After(self.outage.next_pause(), Obstacle::Away(cause)));
        }
        Err(self.end(Obstacle::Away(cause)))
    }

    /// The pause before the next try at a held lock: shorter if its time is up sooner.
    fn between_looks(&mut self) -> Result<Duration, Error> {
        let pause = self.pauses.next_pause();
        let now = self.site.clock.now();
        if self.look_at.is_some_and(|look_at| now < look_at) || self.limits.is_over() {
            return Ok(pause);
        }
        self.look_at = Some(now.plus(LOOK_EVERY));
        match self
            .site
            .server
            .read(&self.site.keys, 0, self.limits.step())
        {
            Ok(Some(seen)) => match seen.remaining {
                Some(remaining) => Ok(pause.min(remaining + MOMENT)),
                None => {
                    self.warn_about_no_expiry();
                    Ok(pause)
                }
            },
            Ok(None) => Ok(Duration::ZERO),
            Err(fault) if fault.class == Class::WrongType => {
                Err(self.site.error(self.action(), fault))
            }
            // Looking is a courtesy; the next try will tell what is wrong.
            Err(_) => Ok(pause),
        }
    }

    /// The pause before the next try at a lock that comes free by itself in so much time.
    fn until(&mut self, remaining: Option<Duration>) -> Duration {
        let pause = self.pauses.next_pause();
        remaining.map_or(pause, |remaining| pause.min(remaining + MOMENT))
    }

    fn warn_about_no_expiry(&mut self) {
        if !self.warned {
            self.warned = true;
            say!(
                warn,
                target: "leasehold::acquire",
                "`{}` is held by a record without an expiry: it will not come free by itself",
                self.site.key().escape_debug()
            );
        }
    }
}
