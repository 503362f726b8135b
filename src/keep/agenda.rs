//! What the background has to do and when, shared by the thread that does it and by those who
//! give it something to do.
//!
//! Two mutexes, neither of which is ever held over anything that blocks:
//!
//! * the *state*: what is due when. Acquire and release take it for a moment.
//! * the *gate*: held from the last look at whether a command is still wanted until it has been
//!   handed to the socket, which never blocks. A release passes through it after it has marked
//!   the lease: from then on nothing can be sent for it any more.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::schedule::Schedule;
use super::task::Task;
use crate::backoff::Pauses;
use crate::clock::{Clock, Time};

/// Tokens to reap at a time.
const MOST_ORPHANS: usize = 1024;

/// A task as the schedule has it.
pub(super) struct Entry {
    pub(super) task: Held,
    /// Somebody waits for it to be out of hand, and then it is over.
    pub(super) withdrawn: bool,
    /// The longest that one attempt may take, and the longest pause between two.
    pub(super) patience: Duration,
    pub(super) pauses: Option<Pauses>,
}

pub(super) enum Held {
    /// The lease is its holder's; it is renewed for as long as it is there.
    Lease(Weak<dyn Task>),
    /// A token that nobody else remembers.
    Orphan(Arc<dyn Task>),
}

impl Held {
    pub(super) fn task(&self) -> Option<Arc<dyn Task>> {
        match self {
            Self::Lease(lease) => lease.upgrade(),
            Self::Orphan(orphan) => Some(Arc::clone(orphan)),
        }
    }
}

pub(super) struct State {
    pub(super) schedule: Schedule<Entry>,
    /// The numbers of the orphans, the oldest first.
    orphans: VecDeque<u64>,
    /// When the thread looks next by itself.
    pub(super) looks_at: Time,
    /// Something has happened that it should look at.
    pub(super) woken: bool,
    pub(super) running: bool,
    pub(super) closing: bool,
    pub(super) quiet_since: Time,
    /// How many wait for a task to be out of hand.
    pub(super) withdrawing: usize,
}

pub(super) struct Agenda {
    pub(super) clock: Clock,
    pub(super) state: Mutex<State>,
    /// For the thread.
    pub(super) changed: Condvar,
    /// For those who withdraw.
    pub(super) out_of_hand: Condvar,
    pub(super) gate: Mutex<()>,
}

impl Agenda {
    pub(super) fn new(clock: Clock) -> Self {
        let quiet_since = clock.now();
        Self {
            clock,
            state: Mutex::new(State {
                schedule: Schedule::default(),
                orphans: VecDeque::new(),
                looks_at: Time::MAX,
                woken: false,
                running: false,
                closing: false,
                quiet_since,
                withdrawing: 0,
            }),
            changed: Condvar::new(),
            out_of_hand: Condvar::new(),
            gate: Mutex::new(()),
        }
    }

    pub(super) fn wake(&self) {
        self.state.lock().woken = true;
        self.changed.notify_one();
    }
}

impl State {
    /// Adds a task. Of too many orphans the oldest is forgotten, and returned: it must not be
    /// dropped with the mutex held.
    pub(super) fn put(
        &mut self,
        number: u64,
        held: Held,
        task: &dyn Task,
        due: Time,
        now: Time,
    ) -> Option<Entry> {
        self.quiet_since = now;
        let mut forgotten = None;
        if matches!(held, Held::Orphan(_)) {
            self.orphans.push_back(number);
            if MOST_ORPHANS < self.orphans.len() {
                let oldest = self.orphans.pop_front();
                forgotten = oldest.and_then(|oldest| self.schedule.remove(oldest));
            }
        }
        let entry = Entry {
            task: held,
            withdrawn: false,
            patience: task.patience(),
            pauses: None,
        };
        self.schedule.insert(number, due, task.urgency(), entry);
        forgotten
    }

    /// Takes a task out for good.
    pub(super) fn end(&mut self, number: u64) -> Option<Entry> {
        let entry = self.schedule.remove(number)?;
        if matches!(entry.task, Held::Orphan(_)) {
            self.orphans.retain(|orphan| *orphan != number);
        }
        Some(entry)
    }
}
