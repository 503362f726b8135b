//! Opening links beside the thread that uses them.
//!
//! A name lookup has no timeout, and a handshake waits for replies. Neither may hold up a
//! thread that renews leases, so each link is opened by a short-lived thread of its own. At
//! most two are at it: a *patient* one, which has all of the connect timeout, for a server
//! that is far away, and beside it a *quick* one, which has the time of the shortest attempt
//! and is begun anew, for a network that has just come back while the patient one still waits
//! for a packet that was lost.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::errand::Wake;
use super::fault::{Class, Fault};
use super::handshake;
use super::link::Link;
use super::route::Route;
use crate::backoff::Backoff;
use crate::clock::Time;
use crate::threads;

pub(super) const THREAD: &str = "leasehold-link";

/// The shortest pause between two tries, and the shortest time that a quick one gets.
const LEAST: Duration = Duration::from_millis(10);

/// The longest time that a quick one gets: whoever comes after it must not wait for its end.
const LONGEST_QUICK: Duration = Duration::from_millis(100);

/// Where links come from, and how soon the next may be asked for.
pub(super) struct Openings {
    route: Route,
    wake: Wake,
    results: Arc<Mutex<Vec<Opened>>>,
    /// When the tries that are under way began.
    patient: Option<Time>,
    quick: Option<Time>,
    /// Whether a quick try would be quicker than the patient one.
    may_be_quick: bool,
    /// How many tries in a row have brought no link that served.
    tries: u32,
    /// When the last try was begun, and when the next may be.
    began: Time,
    next: Time,
}

struct Opened {
    patient: bool,
    result: Result<Link, Fault>,
}

impl Openings {
    pub(super) fn new(route: Route, wake: Wake) -> Self {
        Self {
            route,
            wake,
            results: Arc::default(),
            patient: None,
            quick: None,
            may_be_quick: false,
            tries: 0,
            began: Time::from_nanos(0),
            next: Time::from_nanos(0),
        }
    }

    /// Begins to open a link, if it is time for it. `least` is the shortest patience among
    /// those who wait.
    pub(super) fn begin(&mut self, least: Duration) -> Result<(), Fault> {
        let now = self.route.clock.now();
        let least = least.max(LEAST);
        let quick = least.min(LONGEST_QUICK);
        self.may_be_quick = quick < self.route.timeouts.connect;
        // A pause that was drawn for those who could wait longer is cut down for one who cannot.
        self.next = self.next.min(self.began.plus(least));
        if now < self.next {
            return Ok(());
        }
        let patient = self.patient.is_none();
        let span = if patient {
            self.route.timeouts.connect
        } else {
            quick
        };
        if !patient && (self.quick.is_some() || !self.may_be_quick) {
            return Ok(());
        }
        // Doubling up to the shortest patience of those who wait *now*: a short lease that has
        // gone must not leave its pace behind.
        let doubled = LEAST.saturating_mul(1 << self.tries.min(20));
        let pause = Backoff {
            first: doubled.min(least),
            most: least,
        }
        .pauses()
        .next_pause();
        self.tries = self.tries.saturating_add(1);
        self.began = now;
        self.next = now.plus(pause);
        self.start(patient, now.plus(span))?;
        let slot = if patient {
            &mut self.patient
        } else {
            &mut self.quick
        };
        *slot = Some(now);
        Ok(())
    }

    /// When [`begin`](Self::begin) may do something next.
    pub(super) fn next(&self) -> Time {
        if self.patient.is_some() && (self.quick.is_some() || !self.may_be_quick) {
            // The end of either is told.
            return Time::MAX;
        }
        self.next
    }

    /// The links that have come up and the failures, one after the other.
    pub(super) fn take(&mut self) -> Vec<Result<Link, Fault>> {
        let opened = mem::take(&mut *self.results.lock());
        opened
            .into_iter()
            .map(|opened| {
                if opened.patient {
                    self.patient = None;
                } else {
                    self.quick = None;
                }
                opened.result
            })
            .collect()
    }

    /// A link has served: the next failure is a new story, and its first try is made at once.
    pub(super) fn served(&mut self) {
        if self.tries != 0 {
            self.tries = 0;
            self.next = Time::from_nanos(0);
        }
    }

    fn start(&self, patient: bool, until: Time) -> Result<(), Fault> {
        let (route, results, wake) = (
            self.route.clone(),
            Arc::clone(&self.results),
            Arc::clone(&self.wake),
        );
        let open = move || {
            // Whoever waits for the end of this must be told of it, whatever happens.
            let opened = catch_unwind(AssertUnwindSafe(|| handshake::open(&route, until)));
            let result = opened.unwrap_or_else(|_| Err(route.away(Class::NoLink)));
            results.lock().push(Opened { patient, result });
            wake();
        };
        threads::start(THREAD, open).map_err(|cause| Fault::new(Class::NoLink, "connect", cause))
    }
}
