//! The wait around the attempts: how long, through what, and what it was that took so long.

mod judge;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Attempt, Way, attempt, fit};
use super::canceller::Canceller;
use super::limits::{Limits, Patience};
use super::place::{Place, Reached};
use crate::backoff::{Backoff, Pauses};
use crate::clock::Time;
use crate::error::{Action, Cause, Error, Kind};
use crate::keep::{Record, Site, give_back, occupy};
use crate::server::Entry;
use crate::token::Token;

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
        place: None,
        spare: None,
        entry: None,
        found_held: false,
        polls: false,
        waited: Time::from_nanos(0),
        vain: 0,
        again: true,
        in_doubt: false,
        pauses: Backoff::POLL.pauses(),
        outage: Backoff::OUTAGE.pauses(),
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
    /// Among the threads of this client that want the key; none before there are any others.
    place: Option<Place<'a>>,
    /// A token that was sent nowhere, or only where it has left nothing.
    spare: Option<Token>,
    /// How the next attempt waits at the server; `None` if it does not.
    entry: Option<Entry>,
    /// Whether an attempt has found it held since the last wait in memory.
    found_held: bool,
    /// Whether there is no waiting at the server for the attempt that is next.
    polls: bool,
    /// When it last came back from waiting at the server, and how often in a row it has at once.
    waited: Time,
    vain: u32,
    /// What was settled as "did not run" is tried again at once, once: the link is new, so
    /// that there is nothing to wait for.
    again: bool,
    /// Whether the last attempt stays unknown.
    in_doubt: bool,
    pauses: Pauses,
    outage: Pauses,
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

/// What is to be done next.
enum Next {
    /// Another attempt, now.
    Again,
    /// Another attempt after a pause, unless the time is up by then.
    After(Duration, Obstacle),
    Done(Arc<Record>),
}

type Outcome = Result<Option<Arc<Record>>, Error>;

impl Waiter<'_> {
    fn run(mut self) -> Outcome {
        if self.queues() {
            let pass = self
                .site
                .heirs
                .pass(self.site.key(), !self.limits.outlasts_outages());
            if pass.is_none_or(|start| start.behind) {
                self.sit(pass.is_some())?;
            }
        }
        loop {
            if self.limits.is_cancelled() {
                return self.cancelled();
            }
            let attempt = match self.wait_here()? {
                Some(attempt) => attempt,
                None if self.limits.is_cancelled() => return self.cancelled(),
                None => {
                    let token = self.token()?;
                    let way = self.entry.map_or(self.way, Way::Waiting);
                    attempt(self.site, token, way, &self.limits)
                }
            };
            let next = match self.judge(attempt)? {
                Some(next) => next,
                None => return Ok(None),
            };
            let (pause, obstacle) = match next {
                Next::Done(record) => return self.taken(record),
                Next::Again => continue,
                Next::After(pause, obstacle) => (pause, obstacle),
            };
            if self.limits.is_cancelled() {
                return self.cancelled();
            }
            self.limits.next_attempt(true);
            if !self.limits.is_over() {
                self.limits.rest(self.site.clock.now().plus(pause));
            }
            if self.limits.is_over() && !self.limits.is_cancelled() {
                return Err(self.end(obstacle));
            }
        }
    }

    /// Whether this call waits its turn among the threads of this client. One attempt does not,
    /// and one without any time left does not either: it would end before it had begun.
    fn queues(&self) -> bool {
        !self.limits.is_once() && !self.limits.is_over()
    }

    /// Takes its place among the threads of this client, if it has none; `behind` others where it
    /// is the first here.
    fn sit(&mut self, behind: bool) -> Result<(), Error> {
        if self.place.is_none() && self.queues() {
            let token = self.token()?;
            self.place = Some(Place::take(self.site, token, behind, &self.limits));
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Token, Error> {
        match self.spare.take() {
            Some(token) => Ok(token),
            None => Token::fresh(self.site.label.as_deref())
                .map_err(|cause| self.site.unavailable(self.action(), cause)),
        }
    }

    /// Waits in memory, if there is anything to wait for there. What comes of it may be as good as
    /// an attempt.
    fn wait_here(&mut self) -> Result<Option<Attempt>, Error> {
        let Some(place) = self.place.as_mut().filter(|place| !place.is_ahead) else {
            return Ok(None);
        };
        let reached = place.wait(&self.limits);
        self.limits.next_attempt(true);
        match reached {
            // There is no time left to use it: it is the next one's.
            Reached::Turn(_) if self.limits.is_over() => {
                let word = place.word();
                Err(self.end(self.obstacle(word)))
            }
            Reached::Turn(start) => {
                if !start.fresh {
                    self.spare = Some(place.token().clone());
                }
                if start.pause {
                    let pause = Backoff::COURTESY.pauses().next_pause();
                    self.limits.rest(self.site.clock.now().plus(pause));
                }
                // Who comes from there just now does not ask the same question again.
                let is_known = mem::take(&mut self.found_held);
                self.entry = match (start.behind, is_known) {
                    (true, _) => Some(Entry::Behind),
                    (false, true) => Some(Entry::Try),
                    (false, false) => None,
                };
                Ok(None)
            }
            Reached::Yours(record) => {
                self.place = None;
                Ok(Some(fit(record, &self.limits)))
            }
            Reached::InDoubt(cause) => {
                self.site.counters.unknown_unresolved.add_one();
                let reached = true;
                Ok(Some(Attempt::Unknown { cause, reached }))
            }
            Reached::Away(cause) => {
                self.place = None;
                Err(self.end(Obstacle::Away(cause)))
            }
            Reached::LeftInDoubt => {
                self.unsettled = Some(Cause::HandOver);
                if self.limits.is_cancelled() {
                    return Ok(None);
                }
                Err(self.end(Obstacle::Held))
            }
            Reached::Over(_) if self.limits.is_cancelled() => Ok(None),
            Reached::Over(word) => Err(self.end(self.obstacle(word))),
        }
    }

    const fn action(&self) -> Action {
        match self.way {
            Way::Free | Way::Waiting(_) => Action::Acquire,
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
        occupy(&record);
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
