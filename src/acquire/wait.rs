//! The wait around the attempts: how long, through what, and what it was that took so long.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Attempt, Way, attempt};
use super::canceller::Canceller;
use super::limits::{Limits, Patience};
use crate::backoff::{Backoff, Pauses};
use crate::clock::Time;
use crate::error::{Action, Cause, Error, Kind, chain};
use crate::keep::{Record, Site, give_back};
use crate::server::Class;
use crate::token::Token;

/// How often a waiter looks at what stands in its way.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Takes the lock. `None` if it is held and the caller does not wait, or was cancelled.
pub(crate) fn acquire(
    site: &Arc<Site>,
    patience: Patience,
    canceller: Option<&Canceller>,
) -> Result<Option<Arc<Record>>, Error> {
    run(site, Way::Free, patience, canceller)
}

/// Takes the lock over from the holder who gave `token` away. `None` if it is not that
/// holder's any more.
pub(crate) fn adopt(site: &Arc<Site>, token: &Token) -> Result<Option<Arc<Record>>, Error> {
    run(site, Way::From(token), Patience::Once, None)
}

fn run(
    site: &Arc<Site>,
    way: Way<'_>,
    patience: Patience,
    canceller: Option<&Canceller>,
) -> Result<Option<Arc<Record>>, Error> {
    if site.origin.is_elsewhere() {
        return Err(Error::forked(None));
    }
    Waiter {
        site,
        way,
        limits: Limits::new(&site.base, patience, canceller),
        unsettled: None,
        look_at: None,
        warned: false,
        told_away: false,
    }
    .run()
}

struct Waiter<'a> {
    site: &'a Arc<Site>,
    way: Way<'a>,
    limits: Limits<'a>,
    /// Why an earlier attempt of this very call is unknown and stays so.
    unsettled: Option<Cause>,
    /// When to look at the holder next; `None` before the lock was seen held.
    look_at: Option<Time>,
    warned: bool,
    /// Whether a server that is away was logged.
    told_away: bool,
}

/// What stood in the way last.
enum Obstacle {
    Held,
    Away(Cause),
}

impl Waiter<'_> {
    fn run(mut self) -> Result<Option<Arc<Record>>, Error> {
        let mut spare: Option<Token> = None;
        let mut held = Backoff::POLL.pauses();
        let mut away = Backoff::OUTAGE.pauses();
        // What was settled as "did not run" is tried again at once, once: the link is new, so
        // that there is nothing to wait for.
        let mut again = true;
        let mut in_doubt = false;
        loop {
            if self.limits.is_cancelled() {
                return self.cancelled();
            }
            let token = match spare.take() {
                Some(token) => token,
                None => Token::fresh(self.site.label.as_deref())
                    .map_err(|cause| self.site.unavailable(self.action(), cause))?,
            };
            let obstacle = match attempt(self.site, token, self.way, &self.limits) {
                Attempt::Taken(record) => return self.taken(record),
                Attempt::Held { token } => {
                    in_doubt = false;
                    self.site.counters.contended.add_one();
                    if self.limits.is_once() {
                        return Ok(None);
                    }
                    spare = token;
                    Obstacle::Held
                }
                Attempt::Settled { .. } if again && !self.limits.is_over() => {
                    again = false;
                    continue;
                }
                Attempt::Settled { cause } | Attempt::NotNow { cause, token: None } => {
                    self.away(cause)?
                }
                Attempt::NotNow { cause, token } => {
                    spare = token;
                    self.away(cause)?
                }
                Attempt::NoTurn { token, cause } => {
                    spare = Some(token);
                    if self.limits.is_once() {
                        return Err(self.end(Obstacle::Away(cause)));
                    }
                    if !self.limits.is_over() {
                        self.limits.next_attempt(false);
                        continue;
                    }
                    Obstacle::Away(cause)
                }
                Attempt::Never(fault) => {
                    return Err(self.site.error(self.action(), fault));
                }
                Attempt::Unknown { cause, reached } => {
                    // Two in a row, and it is not others that this call waits for.
                    let once_more = reached && !self.limits.is_once() && !in_doubt;
                    let goes_on = self.limits.outlasts_outages() || once_more;
                    in_doubt = true;
                    if !goes_on {
                        return Err(self.unknown(cause));
                    }
                    // Of several the last is told: all of them are why the end is unknown.
                    self.unsettled = Some(cause);
                    // Waited for like a held lock: our own record may stand there.
                    Obstacle::Held
                }
            };
            if self.limits.is_cancelled() {
                return self.cancelled();
            }
            self.limits.next_attempt(true);
            let pause = match &obstacle {
                Obstacle::Held => self.between_looks(&mut held)?,
                Obstacle::Away(_) => away.next_pause(),
            };
            if !self.limits.is_over() {
                self.limits.rest(self.site.clock.now().plus(pause));
            }
            if self.limits.is_over() && !self.limits.is_cancelled() {
                return Err(self.end(obstacle));
            }
        }
    }

    /// What a server that is away means for this call: an obstacle, or its end.
    fn away(&mut self, cause: Cause) -> Result<Obstacle, Error> {
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
            return Ok(Obstacle::Away(cause));
        }
        Err(self.end(Obstacle::Away(cause)))
    }

    /// The pause before the next try at a held lock: shorter if its time is up sooner.
    fn between_looks(&mut self, pauses: &mut Pauses) -> Result<Duration, Error> {
        let pause = pauses.next_pause();
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
                Some(remaining) => Ok(pause.min(remaining + Duration::from_millis(1))),
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

    const fn action(&self) -> Action {
        match self.way {
            Way::Free => Action::Acquire,
            Way::From(_) => Action::Adopt,
        }
    }

    /// A wait that was cancelled while its command was on the way leaves no record.
    fn taken(self, record: Arc<Record>) -> Result<Option<Arc<Record>>, Error> {
        if self.limits.is_cancelled() {
            return match give_back(&record, self.site.timeouts.command) {
                // A record that has gone by itself is not left behind either.
                Err(error) if !error.is_lost() => Err(error),
                _ => self.cancelled(),
            };
        }
        Ok(Some(record))
    }

    fn cancelled(mut self) -> Result<Option<Arc<Record>>, Error> {
        match self.unsettled.take() {
            Some(cause) => Err(self.unknown(cause)),
            None => Ok(None),
        }
    }

    /// The error that says which wait it was.
    fn end(&mut self, obstacle: Obstacle) -> Error {
        if let Some(cause) = self.unsettled.take() {
            return self.unknown(cause);
        }
        match obstacle {
            Obstacle::Held => {
                self.site.counters.timed_out.add_one();
                let kind = Kind::Timeout {
                    key: Arc::clone(self.site.key()),
                    waited: self.site.clock.now().since(self.limits.begun),
                };
                Error::new(kind, None)
            }
            Obstacle::Away(cause) => self.site.unavailable(self.action(), cause),
        }
    }

    fn unknown(&self, cause: Cause) -> Error {
        let kind = Kind::Unknown {
            action: self.action(),
            key: Arc::clone(self.site.key()),
            until: None,
        };
        Error::new(kind, Some(cause))
    }
}
