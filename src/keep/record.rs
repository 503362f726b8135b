//! The record of one lease: its token, its deadline, and how it ended.
//!
//! The state is computed from the clock and the deadline at every call; no thread has to
//! turn a flag in time. Deadline and ending share one atomic word, so that whoever sees the
//! end first makes it final in the same step, and a confirmation that comes in later finds
//! it so.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::site::Site;
use super::troubles::Troubles;
use crate::clock::Time;
use crate::error::{Error, Kind, LostBy};
use crate::token::Token;

/// Values of the word below this one are endings, not deadlines. No deadline is that small:
/// the clock had more nanoseconds on it before the process could start.
const ENDINGS: u64 = 16;
const RELEASED: u64 = 1;
const EXPIRED: u64 = 2;
const TAKEN_OVER: u64 = 3;
const VANISHED: u64 = 4;
const MAX_HOLD: u64 = 5;
const GIVEN_AWAY: u64 = 6;

/// One acquisition, for as long as anyone looks at it.
pub(crate) struct Record {
    pub(crate) site: Arc<Site>,
    pub(crate) token: Token,
    pub(crate) fence: Option<u64>,
    /// Its name in the schedules of the background.
    number: u64,
    /// The deadline in nanoseconds of the clock, or an ending.
    word: AtomicU64,
    /// No deadline goes beyond it: acquisition and `max_hold`.
    cap: Time,
    /// When the last confirmation was read, a late one included: the server had set the
    /// expiry by then.
    read_at: AtomicU64,
    /// Renewals that were sent and not answered.
    unanswered: AtomicU32,
    /// Whether the watch looks after it, and has to hear what the clock does not tell.
    watched: AtomicBool,
    pub(crate) troubles: Troubles,
    /// For those who wait for the danger zone: notified when the lease ends before it.
    ended: Condvar,
    waiting: Mutex<()>,
}

/// Where a lease stands at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Held {
        remaining: Duration,
    },
    Danger {
        remaining: Duration,
    },
    Lost(LostBy),
    /// Ended by its holder's own will.
    Released(LostBy),
}

/// What a lease was when its release began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    /// Its last deadline; `None` if its end had been seen already.
    pub(crate) deadline: Option<Time>,
    /// How it was lost, if it was not held any more.
    pub(crate) lost: Option<LostBy>,
}

impl Record {
    /// A lease that was taken at `taken`, or later, and whose confirmation was sent for at
    /// `sent` and read at `now`.
    pub(crate) fn new(
        site: &Arc<Site>,
        token: Token,
        fence: Option<u64>,
        taken: Time,
        sent: Time,
        now: Time,
    ) -> Self {
        let terms = &site.terms;
        let cap = terms
            .max_hold()
            .map_or(Time::MAX, |max_hold| taken.plus(max_hold));
        let deadline = sent.plus(terms.validity()).min(cap);
        Self {
            word: AtomicU64::new(deadline.as_nanos().max(ENDINGS)),
            cap,
            read_at: AtomicU64::new(now.as_nanos()),
            unanswered: AtomicU32::new(0),
            watched: AtomicBool::new(false),
            troubles: Troubles::default(),
            number: site.next_number(),
            ended: Condvar::new(),
            waiting: Mutex::new(()),
            site: Arc::clone(site),
            token,
            fence,
        }
    }

    /// The deadline as it stands; the clock's origin once the lease has ended.
    pub(crate) fn deadline(&self) -> Time {
        match self.word.load(Ordering::Acquire) {
            0..ENDINGS => Time::from_nanos(0),
            word => Time::from_nanos(word),
        }
    }

    /// Where the lease stands at `now`. The first to see the deadline pass makes the loss
    /// final.
    pub(crate) fn standing(&self, now: Time) -> Standing {
        let (standing, is_news) = self.look_silently(now);
        if is_news {
            self.log(standing);
        }
        standing
    }

    /// The same, and whether it was this look that found a danger or made a loss final: it is
    /// then to be [logged](Self::log), where a logger may take its time.
    pub(crate) fn look_silently(&self, now: Time) -> (Standing, bool) {
        let mut ended = false;
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word < ENDINGS {
                return (ending(word), ended);
            }
            let deadline = Time::from_nanos(word);
            if now < deadline {
                let remaining = deadline.since(now);
                if self.site.terms.danger() < remaining {
                    return (Standing::Held { remaining }, false);
                }
                let is_new = self.troubles.is_new_stay();
                if is_new {
                    self.site.counters.danger.add_one();
                }
                return (Standing::Danger { remaining }, is_new);
            }
            word = match self.end(word, self.ran_out(deadline)) {
                Ok(over) => {
                    ended = true;
                    over
                }
                Err(over) => over,
            };
        }
    }

    /// Takes a confirmation that counts from `sent`, if the lease still stands at `now`.
    /// Whatever comes after its end changes nothing.
    pub(crate) fn confirm(&self, sent: Time, now: Time) -> Result<(), LostBy> {
        // Also where it comes too late for the lease: the record stands all the same.
        self.read_at.fetch_max(now.as_nanos(), Ordering::AcqRel);
        let confirmed = sent.plus(self.site.terms.validity()).min(self.cap);
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word < ENDINGS {
                return Err(lost_by(word));
            }
            let deadline = Time::from_nanos(word);
            if deadline <= now {
                let by = self.ran_out(deadline);
                word = match self.end(word, by) {
                    Ok(over) => {
                        self.log(Standing::Lost(by));
                        over
                    }
                    Err(over) => over,
                };
                continue;
            }
            let next = deadline.max(confirmed).as_nanos();
            match self
                .word
                .compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.site.counters.margin(deadline.since(now));
                    // Read anew: whoever looked at the old deadline last did so before this, and
                    // may have told of a danger that `now` did not see yet.
                    let before = deadline.since(self.site.clock.now());
                    self.recovered(before, Time::from_nanos(next).since(now));
                    return Ok(());
                }
                Err(other) => word = other,
            }
        }
    }

    /// Ends the lease because the server has proven that the record is not ours.
    pub(crate) fn lose(&self, by: LostBy) -> LostBy {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word < ENDINGS {
                return lost_by(word);
            }
            word = match self.end(word, by) {
                Ok(_) => {
                    self.wake();
                    self.kick();
                    self.site.heirs.look_again(self.site.key());
                    self.log(Standing::Lost(by));
                    return by;
                }
                Err(other) => other,
            };
        }
    }

    /// Begins the release: from now on the lease is not held, and no confirmation counts.
    pub(crate) fn begin_release(&self, now: Time) -> Before {
        self.part(RELEASED, now)
    }

    /// Ends the lease because its token is given away.
    pub(crate) fn give_away(&self, now: Time) {
        self.part(GIVEN_AWAY, now);
    }

    /// Ends the lease by its holder's own will.
    fn part(&self, ending: u64, now: Time) -> Before {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word < ENDINGS {
                return Before {
                    deadline: None,
                    lost: Some(lost_by(word)),
                };
            }
            match self
                .word
                .compare_exchange(word, ending, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.wake();
                    let deadline = Time::from_nanos(word);
                    return Before {
                        deadline: Some(deadline),
                        // Not counted as lost yet: the server may still have the record.
                        lost: (deadline <= now).then(|| self.ran_out(deadline)),
                    };
                }
                Err(other) => word = other,
            }
        }
    }

    /// The last instant at which the record can stand on the server, by our own clock.
    ///
    /// It counts from when the last confirmation was *read*: the deadline is the least that
    /// a record stands, and says nothing about the most. A renewal that was not answered can
    /// run as late as the record still stands, and lengthens that by a whole ttl.
    pub(crate) fn stands_until(&self) -> Time {
        let read = Time::from_nanos(self.read_at.load(Ordering::Acquire));
        let spans = self.unanswered.load(Ordering::Acquire).saturating_add(1);
        read.plus(self.site.terms.longest_standing().saturating_mul(spans))
    }

    /// Notes renewals that were sent and not answered.
    pub(crate) fn note_unanswered(&self, renewals: u32) {
        self.unanswered.fetch_add(renewals, Ordering::AcqRel);
    }

    /// Takes one of them back: its answer has come after all.
    pub(super) fn note_answered(&self) {
        let less = |count: u32| count.checked_sub(1);
        let _ = self
            .unanswered
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Waits for at most `timeout` while the lease is held and out of its danger zone.
    pub(crate) fn wait_danger(&self, timeout: Duration) {
        let clock = &self.site.clock;
        let until = clock.now().plus(timeout);
        let mut guard = self.waiting.lock();
        loop {
            let now = clock.now();
            let (standing, is_news) = self.look_silently(now);
            let Standing::Held { remaining } = standing else {
                // A logger may take its time, and others wait for the mutex.
                drop(guard);
                if is_news {
                    self.log(standing);
                }
                return;
            };
            if until <= now {
                return;
            }
            let danger = now.plus(remaining.saturating_sub(self.site.terms.danger()));
            clock.park(&self.ended, &mut guard, until.min(danger));
        }
    }

    /// `Ok` while the lease is held and out of its danger zone.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.held()? {
            Standing::Danger { remaining } => Err(self.endangered(remaining)),
            _ => Ok(()),
        }
    }

    /// Where the lease stands while it is held, in its danger zone or not; else why it is over.
    pub(crate) fn held(&self) -> Result<Standing, Error> {
        let key = self.site.key();
        if self.site.origin.is_elsewhere() {
            return Err(Error::forked(Some(key)));
        }
        match self.standing(self.site.clock.now()) {
            Standing::Lost(by) | Standing::Released(by) => Err(Error::lost(key, by)),
            held => Ok(held),
        }
    }

    pub(crate) fn endangered(&self, remaining: Duration) -> Error {
        let key = Arc::clone(self.site.key());
        Error::new(Kind::Endangered { key, remaining }, None)
    }

    fn ran_out(&self, deadline: Time) -> LostBy {
        if deadline == self.cap {
            LostBy::MaxHold
        } else {
            LostBy::Expired
        }
    }

    /// Wakes those who wait for the danger zone. Not from [`standing`](Self::standing): a
    /// waiter calls that with its mutex held, and sees the deadline pass by itself.
    fn wake(&self) {
        // Taken and let go: a waiter that has looked and not yet gone to sleep holds it.
        drop(self.waiting.lock());
        self.ended.notify_all();
    }

    /// Turns the deadline `word` into an ending, once. `Err` is what stands there instead.
    fn end(&self, word: u64, by: LostBy) -> Result<u64, u64> {
        let ending = word_of(by);
        self.word
            .compare_exchange(word, ending, Ordering::AcqRel, Ordering::Acquire)?;
        self.site.counters.lost.add_one();
        Ok(ending)
    }

    /// Takes note of what a confirmation has done: `before` and `after` it so much was left.
    fn recovered(&self, before: Duration, after: Duration) {
        let danger = self.site.terms.danger();
        if before <= danger && danger < after {
            self.troubles.end_stay();
            self.kick();
        }
        self.troubles.succeeded();
    }

    fn kick(&self) {
        if self.is_watched() {
            self.site.watch.kick(self.number);
        }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// No deadline goes beyond it.
    pub(crate) const fn cap(&self) -> Time {
        self.cap
    }

    /// Whether the background has something to do for it.
    pub(super) fn is_kept(&self) -> bool {
        let terms = &self.site.terms;
        terms.renew_every().is_some() || terms.max_hold().is_some()
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    pub(super) fn be_watched(&self) {
        self.watched.store(true, Ordering::Release);
    }

    /// Whether it has ended, by what the record itself knows: no clock is read.
    pub(crate) fn has_ended(&self) -> bool {
        self.word.load(Ordering::Acquire) < ENDINGS
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("key", self.site.key())
            .field("token", &self.token)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

const fn word_of(by: LostBy) -> u64 {
    match by {
        LostBy::Released => RELEASED,
        LostBy::GivenAway => GIVEN_AWAY,
        LostBy::Expired | LostBy::DuringRelease => EXPIRED,
        LostBy::TakenOver => TAKEN_OVER,
        LostBy::Vanished => VANISHED,
        LostBy::MaxHold => MAX_HOLD,
    }
}

const fn lost_by(word: u64) -> LostBy {
    match word {
        RELEASED => LostBy::Released,
        GIVEN_AWAY => LostBy::GivenAway,
        TAKEN_OVER => LostBy::TakenOver,
        VANISHED => LostBy::Vanished,
        MAX_HOLD => LostBy::MaxHold,
        _ => LostBy::Expired,
    }
}

const fn ending(word: u64) -> Standing {
    match word {
        RELEASED | GIVEN_AWAY => Standing::Released(lost_by(word)),
        _ => Standing::Lost(lost_by(word)),
    }
}

#[cfg(test)]
mod tests;
