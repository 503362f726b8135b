//! What a holder is told of its lease without asking: danger, in time, and loss.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, LostBy};
use crate::keep::{Notice, Record, Standing, Wants, Watched};
use crate::lease::LeaseWatch;

/// A lease has entered its danger zone. It still holds, but no new side effect should start.
pub struct Danger {
    record: Arc<Record>,
    cause: DangerCause,
    remaining: Duration,
    failure: Option<Arc<Error>>,
}

impl Danger {
    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> &str {
        self.record.site.key()
    }

    /// The fence of the lease, if its lock is fenced.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.record.fence
    }

    /// How much was left when the callback was called; [`watch`](Self::watch) tells how much is
    /// left by now.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// Why so little is left.
    #[must_use]
    pub fn cause(&self) -> DangerCause {
        self.cause
    }

    /// Why the renewal that was tried last has failed, if it has.
    #[must_use]
    pub fn last_error(&self) -> Option<&Error> {
        self.failure.as_deref()
    }

    /// The lease's state from here on: it may recover, or be lost.
    #[must_use]
    pub fn watch(&self) -> LeaseWatch {
        LeaseWatch::new(Arc::clone(&self.record))
    }
}

impl fmt::Debug for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Danger")
            .field("key", &self.key())
            .field("fence", &self.fence())
            .field("cause", &self.cause)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

/// Why a lease is in its danger zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DangerCause {
    /// No renewal has been confirmed for too long.
    Unconfirmed,
    /// It is not renewed in the background, and its time is running out.
    Unrenewed,
    /// It has been held for nearly as long as `max_hold` allows.
    MaxHold,
}

impl fmt::Display for DangerCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unconfirmed => "no renewal has been confirmed for too long",
            Self::Unrenewed => "it is not renewed in the background",
            Self::MaxHold => "it has been held for nearly as long as `max_hold` allows",
        })
    }
}

/// A lease is lost, for good.
pub struct Loss {
    record: Arc<Record>,
    cause: LossCause,
}

impl Loss {
    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> &str {
        self.record.site.key()
    }

    /// The fence of the lease, if its lock is fenced.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.record.fence
    }

    /// How it was lost.
    #[must_use]
    pub fn cause(&self) -> LossCause {
        self.cause
    }

    /// The lease's view, for symmetry with [`Danger::watch`]: its state is final.
    #[must_use]
    pub fn watch(&self) -> LeaseWatch {
        LeaseWatch::new(Arc::clone(&self.record))
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss")
            .field("key", &self.key())
            .field("fence", &self.fence())
            .field("cause", &self.cause)
            .finish_non_exhaustive()
    }
}

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// Its deadline passed without a confirmed renewal.
    Expired,
    /// Another's record stands at the key: an adopter has it, or it was overwritten.
    TakenOver,
    /// Its record is gone from the server: deleted, evicted, or lost at a failover.
    Vanished,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LostBy::from(*self).fmt(f)
    }
}

impl From<LossCause> for LostBy {
    fn from(cause: LossCause) -> Self {
        match cause {
            LossCause::Expired => Self::Expired,
            LossCause::TakenOver => Self::TakenOver,
            LossCause::Vanished => Self::Vanished,
            LossCause::MaxHold => Self::MaxHold,
        }
    }
}

type Hook<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// The callbacks of a lock.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) danger: Option<Hook<Danger>>,
    pub(crate) lost: Option<Hook<Loss>>,
}

impl Hooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.danger.is_none() && self.lost.is_none()
    }
}

/// A lease together with those who are told of it.
struct Announced {
    record: Arc<Record>,
    hooks: Arc<Hooks>,
}

pub(crate) fn announced(record: &Arc<Record>, hooks: &Arc<Hooks>) -> Arc<dyn Watched> {
    Arc::new(Announced {
        record: Arc::clone(record),
        hooks: Arc::clone(hooks),
    })
}

impl Watched for Announced {
    fn key(&self) -> Arc<str> {
        Arc::clone(self.record.site.key())
    }

    fn wants(&self) -> Wants {
        Wants {
            danger: self.hooks.danger.is_some(),
            lost: self.hooks.lost.is_some(),
        }
    }

    /// Where the lease stands is asked once more, last of all: since the look it may have been
    /// released, or have recovered (and be in danger again), or be lost, which is told by itself.
    fn tell(self: Arc<Self>, notice: Notice) {
        let record = &self.record;
        match notice {
            Notice::Danger { stay, unlogged } => {
                let standing = record.standing(record.site.clock.now());
                let news = unlogged.then_some(standing);
                let _logged = LoggedAtLast { record, news };
                let Some(callback) = &self.hooks.danger else {
                    return;
                };
                let mut danger = Danger {
                    record: Arc::clone(record),
                    cause: danger_cause(record),
                    remaining: Duration::ZERO,
                    failure: record.troubles.last_failure(),
                };
                let present = record.troubles.stay();
                if let Standing::Danger { remaining } = record.standing(record.site.clock.now())
                    && stay == present
                {
                    danger.remaining = remaining;
                    callback(&danger);
                }
            }
            Notice::Lost { unlogged } => {
                let Standing::Lost(by) = record.standing(record.site.clock.now()) else {
                    return;
                };
                let news = unlogged.then_some(Standing::Lost(by));
                let _logged = LoggedAtLast { record, news };
                let (Some(callback), Some(cause)) = (&self.hooks.lost, loss_cause(by)) else {
                    return;
                };
                callback(&Loss {
                    record: Arc::clone(record),
                    cause,
                });
            }
        }
    }
}

/// What is found by the watch is logged after the callback, also after one that panics: a logger
/// may take its time.
struct LoggedAtLast<'a> {
    record: &'a Record,
    news: Option<Standing>,
}

impl Drop for LoggedAtLast<'_> {
    fn drop(&mut self) {
        if let Some(standing) = self.news {
            self.record.log(standing);
        }
    }
}

fn danger_cause(record: &Record) -> DangerCause {
    if record.cap() <= record.deadline() {
        DangerCause::MaxHold
    } else if record.site.terms.renew_every().is_none() {
        DangerCause::Unrenewed
    } else {
        DangerCause::Unconfirmed
    }
}

const fn loss_cause(by: LostBy) -> Option<LossCause> {
    match by {
        LostBy::Expired | LostBy::DuringRelease => Some(LossCause::Expired),
        LostBy::TakenOver => Some(LossCause::TakenOver),
        LostBy::Vanished => Some(LossCause::Vanished),
        LostBy::MaxHold => Some(LossCause::MaxHold),
        LostBy::Released | LostBy::GivenAway => None,
    }
}

#[cfg(test)]
mod tests {
    //! What callbacks are told, on a clock that is moved by hand.

    use parking_lot::Mutex;

    use super::*;
    use crate::clock::Time;
    use crate::clock::fake::FakeClock;
    use crate::keep::fake::{START, ms, record};

    const FIRST: Notice = Notice::Danger {
        stay: 0,
        unlogged: true,
    };
    const SECOND: Notice = Notice::Danger {
        stay: 1,
        unlogged: true,
    };
    const LOST: Notice = Notice::Lost { unlogged: false };

    /// A lease of 988 ms, the last 300 in danger, and what its callbacks were told.
    struct Lease {
        clock: FakeClock,
        record: Arc<Record>,
        announced: Arc<dyn Watched>,
        heard: Arc<Mutex<Vec<String>>>,
    }

    impl Lease {
        fn new(max_hold: Option<Duration>) -> Self {
            let clock = FakeClock::at(START);
            let record = Arc::new(record(&clock, max_hold));
            let heard: Arc<Mutex<Vec<String>>> = Arc::default();
            let (of_danger, of_loss) = (Arc::clone(&heard), Arc::clone(&heard));
            let hooks = Arc::new(Hooks {
                danger: Some(Arc::new(move |danger| {
                    let (cause, remaining) = (danger.cause(), danger.remaining());
                    let told = format!("{cause:?}, {remaining:?} left");
                    of_danger.lock().push(told);
                })),
                lost: Some(Arc::new(move |loss| {
                    of_loss.lock().push(format!("{:?}", loss.cause()));
                })),
            });
            Self {
                announced: announced(&record, &hooks),
                clock,
                record,
                heard,
            }
        }

        /// Moves the clock to so long after the acquisition.
        fn at(&self, millis: u64) -> &Self {
            let time = Time::from_nanos(START).plus(ms(millis));
            self.clock.advance(time.since(self.clock.now()));
            self
        }

        fn tell(&self, notice: Notice) {
            Arc::clone(&self.announced).tell(notice);
        }

        fn confirm(&self) {
            let now = self.clock.now();
            self.record.confirm(now, now).unwrap();
        }

        #[track_caller]
        fn assert_heard(&self, expected: &[&str]) {
            assert_eq!(*self.heard.lock(), expected);
        }
    }

    #[test]
    fn danger_tells_what_is_left_when_it_is_told_and_loss_tells_why() {
        let lease = Lease::new(None);
        lease.at(700).tell(FIRST);
        lease.at(990).tell(LOST);
        lease.assert_heard(&["Unrenewed, 288ms left", "Expired"]);

        let lease = Lease::new(Some(ms(500)));
        lease.at(200).tell(FIRST);
        lease.at(500).tell(LOST);
        lease.assert_heard(&["MaxHold, 300ms left", "MaxHold"]);

        let lease = Lease::new(None);
        lease.record.lose(LostBy::Vanished);
        lease.tell(LOST);
        lease.assert_heard(&["Vanished"]);
    }

    #[test]
    fn a_danger_that_comes_to_be_told_after_the_deadline_is_not_told_at_all() {
        let lease = Lease::new(None);
        // A holder that stood still after the look.
        lease.at(3_600_000).tell(FIRST);
        lease.assert_heard(&[]);
    }

    #[test]
    fn a_danger_that_is_over_when_it_comes_to_be_told_is_not_told_and_never_for_another_stay() {
        let lease = Lease::new(None);
        lease.at(700).confirm();
        lease.tell(FIRST);
        lease.at(1_400).tell(FIRST);
        lease.assert_heard(&[]);
        lease.tell(SECOND);
        lease.assert_heard(&["Unrenewed, 288ms left"]);
    }

    #[test]
    fn nothing_is_told_of_a_lease_that_was_ended_by_its_holder() {
        let end: [fn(&Record, Time); 2] = [
            |record, now| {
                record.begin_release(now);
            },
            |record, now| record.give_away(now),
        ];
        for end in end {
            let lease = Lease::new(None);
            lease.at(700);
            end(&lease.record, lease.clock.now());
            lease.tell(FIRST);
            lease.at(1_000).tell(LOST);
            lease.assert_heard(&[]);
        }
    }

    #[test]
    fn a_loss_that_is_not_there_is_not_told() {
        let lease = Lease::new(None);
        lease.at(700).tell(LOST);
        lease.assert_heard(&[]);
    }
}
