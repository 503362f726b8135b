//! Whether the sibling keys of a lock can be used for waking and for being woken.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::fault::Fault;
use crate::clock::{Clock, Time};

/// How long a refusal is believed. Rights change, and a user may have them for some keys only.
const BELIEVED: Duration = Duration::from_secs(60);

/// How long a server that has no room for one more link is not asked again.
const FULL: Duration = Duration::from_secs(1);

/// How long a wake-up that nobody takes stays, in milliseconds: a waiter that was told to wait
/// and does not block yet must find it.
pub(super) const WAKE_TTL: u64 = 1000;

pub(super) struct Siblings {
    clock: Clock,
    /// By which this client knows its own waiters among those of others. It proves nothing.
    name: String,
    /// For releases, which wake.
    waking: Leave,
    /// For those who wait to be woken.
    waiting: Leave,
    /// Whether a command that wakes was run.
    granted: AtomicBool,
    was_told: AtomicBool,
    /// How often in a row a connection ended at once where it was to wait.
    cut_off: AtomicU32,
}

/// Until when not to try, in nanoseconds of the clock; 0 where nothing was refused.
#[derive(Default)]
struct Leave(AtomicU64);

impl Leave {
    fn refuse(&self, until: Time) {
        self.0.store(until.as_nanos(), Ordering::Relaxed);
    }

    fn is_given(&self, clock: &Clock) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        until == 0 || Time::from_nanos(until) <= clock.now()
    }
}

impl Siblings {
    pub(super) fn new(clock: Clock) -> Self {
        // Without randomness two clients may have one name, and let each other wait.
        let name = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        Self {
            clock,
            name: format!("{name:016x}"),
            waking: Leave::default(),
            waiting: Leave::default(),
            granted: AtomicBool::new(false),
            was_told: AtomicBool::new(false),
            cut_off: AtomicU32::new(0),
        }
    }

    pub(super) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    pub(super) fn may_wake(&self) -> bool {
        self.waking.is_given(&self.clock)
    }

    pub(super) fn may_wait(&self) -> bool {
        self.waiting.is_given(&self.clock)
    }

    /// Whether waking is known to be allowed, for those who could do nothing about a refusal.
    pub(super) fn are_granted(&self) -> bool {
        self.granted.load(Ordering::Relaxed)
    }

    /// Notes that something that wakes was run.
    pub(super) fn granted(&self) {
        if !self.are_granted() {
            self.granted.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a refusal to wake others.
    pub(super) fn refused_to_wake(&self, fault: &Fault) {
        self.granted.store(false, Ordering::Relaxed);
        self.waking.refuse(self.clock.now().plus(BELIEVED));
        self.tell(fault);
    }

    /// Notes a refusal to wait until woken.
    pub(super) fn refused_to_wait(&self, fault: &Fault) {
        self.waiting.refuse(self.clock.now().plus(BELIEVED));
        self.tell(fault);
    }

    /// Notes that a wait was answered.
    pub(super) fn answered(&self) {
        self.cut_off.store(0, Ordering::Relaxed);
    }

    /// Notes that a connection has ended at once where it was to wait. Whether that was too often for
    /// a coincidence: there are proxies that do so.
    pub(super) fn is_cut_off(&self) -> bool {
        2 <= self.cut_off.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that there is no room for a link to wait on.
    pub(super) fn no_room(&self) {
        self.waiting.refuse(self.clock.now().plus(FULL));
    }

    /// It is told once: a lock works without them.
    fn tell(&self, fault: &Fault) {
        if !self.was_told.swap(true, Ordering::Relaxed) {
            say!(
                warn,
                target: "leasehold::acquire",
                "no wake-ups, or not all of them: who waits polls, or notices a release within a \
                 second: {}",
                fault.cause
            );
        }
    }
}
