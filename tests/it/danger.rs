//! Danger and loss: what a holder is told, in time, in order, and no more than that.

mod blocked;
mod coming_back;
mod ended;
mod notices;
mod silent_server;
mod suspended;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use leasehold::{
    Client, Danger, DangerCause, Error, Lease, LeaseState, LeaseWatch, LockBuilder, Loss, LossCause,
};
use parking_lot::{Condvar, Mutex};

use crate::support::{PATIENCE, eventually};
use crate::wire::take;

/// What a starved machine may add to the moment at which a callback runs.
pub(crate) const SLACK: Duration = Duration::from_millis(500);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a callback was called with.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) at: Instant,
    pub(crate) key: String,
    pub(crate) fence: Option<u64>,
    pub(crate) what: What,
    pub(crate) watch: LeaseWatch,
    /// As the watch told it inside the callback.
    pub(crate) state: LeaseState,
    /// The notice as a log line would show it.
    pub(crate) shown: String,
}

#[derive(Debug)]
pub(crate) enum What {
    Danger {
        cause: DangerCause,
        remaining: Duration,
        why: Option<Why>,
    },
    Lost(LossCause),
}

/// The error of the last renewal.
#[derive(Debug)]
pub(crate) struct Why {
    pub(crate) text: String,
    pub(crate) is_unavailable: bool,
    pub(crate) is_unknown: bool,
    pub(crate) is_refused: bool,
}

impl Why {
    fn of(error: &Error) -> Why {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(deeper) = cause {
            text = format!("{text}: {deeper}");
            cause = deeper.source();
        }
        Why {
            text,
            is_unavailable: error.is_unavailable(),
            is_unknown: error.is_unknown(),
            is_refused: error.is_refused(),
        }
    }
}

impl Notice {
    fn of_danger(at: Instant, danger: &Danger) -> Notice {
        Notice {
            at,
            key: danger.key().to_owned(),
            fence: danger.fence(),
            what: What::Danger {
                cause: danger.cause(),
                remaining: danger.remaining(),
                why: danger.last_error().map(Why::of),
            },
            watch: danger.watch(),
            state: danger.watch().state(),
            shown: format!("{danger:?} {danger:#?}"),
        }
    }

    fn of_loss(at: Instant, loss: &Loss) -> Notice {
        Notice {
            at,
            key: loss.key().to_owned(),
            fence: loss.fence(),
            what: What::Lost(loss.cause()),
            watch: loss.watch(),
            state: loss.watch().state(),
            shown: format!("{loss:?} {loss:#?}"),
        }
    }

    #[track_caller]
    pub(crate) fn danger(&self) -> (DangerCause, Duration, Option<&Why>) {
        match &self.what {
            What::Danger {
                cause,
                remaining,
                why,
            } => (*cause, *remaining, why.as_ref()),
            What::Lost(_) => panic!("not danger: {self:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn lost(&self) -> LossCause {
        match self.what {
            What::Lost(cause) => cause,
            What::Danger { .. } => panic!("not a loss: {self:?}"),
        }
    }
}

/// Hears what the leases of a lock are told.
pub(crate) struct Ear(Receiver<Notice>);

/// A lock both of whose callbacks are heard.
pub(crate) fn heard(lock: LockBuilder) -> (LockBuilder, Ear) {
    let (mouth, ear) = channel();
    let (danger, lost) = (mouth.clone(), mouth);
    // Whoever does not listen any more does not want to know.
    let lock = lock
        .on_danger(move |notice| drop(danger.send(Notice::of_danger(Instant::now(), notice))))
        .on_lost(move |notice| drop(lost.send(Notice::of_loss(Instant::now(), notice))));
    (lock, Ear(ear))
}

impl Ear {
    #[track_caller]
    pub(crate) fn next(&self) -> Notice {
        self.0
            .recv_timeout(PATIENCE)
            .expect("a callback within the patience of the tests")
    }

    /// All that is still to come, once lock and leases have been dropped: until nobody is left
    /// who could say anything.
    #[track_caller]
    pub(crate) fn rest(self) -> Vec<Notice> {
        let end = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        loop {
            match self
                .0
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(notice) => all.push(notice),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("somebody holds the callbacks for ever; so far {all:?}")
                }
            }
        }
    }
}

/// Holds callbacks up until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Doorway>, Condvar)>);

#[derive(Default)]
struct Doorway {
    open: bool,
    inside: usize,
}

impl Gate {
    /// Waits for the gate to open; longer than any test has patience.
    pub(crate) fn pass(&self) {
        self.pass_within(6 * PATIENCE);
    }

    pub(crate) fn pass_within(&self, patience: Duration) {
        let (doorway, changed) = &*self.0;
        let mut doorway = doorway.lock();
        doorway.inside += 1;
        changed.wait_while_for(&mut doorway, |doorway| !doorway.open, patience);
    }

    pub(crate) fn open(&self) {
        let (doorway, changed) = &*self.0;
        doorway.lock().open = true;
        changed.notify_all();
    }

    /// How many have come to it.
    pub(crate) fn inside(&self) -> usize {
        self.0.0.lock().inside
    }
}

/// A test that fails leaves no thread behind that waits.
pub(crate) struct OpenedAtLast(pub(crate) Gate);

impl Drop for OpenedAtLast {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A lock whose lease is in danger a few milliseconds after it was taken, and for many seconds.
pub(crate) fn soon_in_danger(client: &Client, key: &str) -> LockBuilder {
    // Valid for 19,798 ms, of which the first 50 are out of danger.
    let lock = client.lock(key).ttl(ms(20_000)).without_renewal();
    lock.danger(ms(19_748))
}

/// So many more leases whose danger callbacks have begun and block at the gate.
#[track_caller]
pub(crate) fn block(client: &Client, count: usize, gate: &Gate) -> Vec<Lease> {
    let before = gate.inside();
    let leases = (before..before + count)
        .map(|own| {
            let gate = gate.clone();
            let lock = soon_in_danger(client, &format!("blocked:{own}"));
            take(&lock.on_danger(move |_| gate.pass()).build().unwrap())
        })
        .collect();
    eventually("all callbacks block", PATIENCE, || {
        gate.inside() == before + count
    });
    leases
}
