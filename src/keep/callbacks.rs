//! The threads on which a user's callbacks run: as many as it takes, up to 64.
//!
//! A queued callback that finds no idle thread gets a new one, so that one that blocks delays no
//! other while fewer than 64 do. The first thread is there before it is needed.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::schedule::LINGER;
use super::watched::{Notice, Watched};
use crate::clock::{Clock, Time};
use crate::error::{Cause, chain};
use crate::threads;

const THREAD: &str = "leasehold-call";

const MOST_THREADS: usize = 64;

/// Something to be told.
pub(super) struct Job {
    pub(super) watched: Weak<dyn Watched>,
    pub(super) notice: Notice,
}

pub(super) struct Callbacks {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    came: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Leases with callbacks: while there is one, a thread stays.
    leases: usize,
    quiet_since: Time,
    /// Why a thread could not be started. Told by the next one that is there, since a logger is
    /// somebody else's code and whoever submits must not be held up.
    refused: Option<Cause>,
    closing: bool,
}

impl Callbacks {
    pub(super) fn new(clock: Clock) -> Self {
        let quiet_since = clock.now();
        Self {
            shared: Arc::new(Shared {
                clock,
                state: Mutex::new(State {
                    jobs: VecDeque::new(),
                    threads: 0,
                    idle: 0,
                    leases: 0,
                    quiet_since,
                    refused: None,
                    closing: false,
                }),
                came: Condvar::new(),
            }),
        }
    }

    /// Makes sure of a thread for a lease with callbacks.
    pub(super) fn reserve(&self) -> Result<(), Cause> {
        let mut state = self.shared.state.lock();
        // One that is blocked is none. Where there is any, a refusal is no error: it is asked for
        // again when it is needed.
        if state.idle == 0 && state.threads < MOST_THREADS {
            match self.start(&mut state) {
                Err(cause) if state.threads == 0 => return Err(cause),
                _ => {}
            }
        }
        state.leases += 1;
        Ok(())
    }

    pub(super) fn free(&self) {
        let mut state = self.shared.state.lock();
        state.leases = state.leases.saturating_sub(1);
        state.quiet_since = self.shared.clock.now();
    }

    /// Queues callbacks, in this order, and sees to it that each finds a thread. `false` if the
    /// system refuses one that is needed: it should be asked again soon.
    pub(super) fn submit(&self, jobs: &mut Vec<Job>) -> bool {
        let count = jobs.len();
        let missing = {
            let mut state = self.shared.state.lock();
            state.jobs.extend(jobs.drain(..));
            let wanted = state.jobs.len().saturating_sub(state.idle);
            wanted.min(MOST_THREADS - state.threads)
        };
        for _ in 0..count {
            self.shared.came.notify_one();
        }
        // One by one: those that are there begin meanwhile.
        for _ in 0..missing {
            let mut state = self.shared.state.lock();
            let is_needed = state.idle < state.jobs.len() && state.threads < MOST_THREADS;
            if is_needed && let Err(cause) = self.start(&mut state) {
                state.refused = Some(cause);
                return false;
            }
        }
        true
    }

    pub(super) fn close(&self) {
        self.shared.state.lock().closing = true;
        self.shared.came.notify_all();
    }

    /// It counts as idle from now on, so that the next job does not start another one.
    fn start(&self, state: &mut MutexGuard<'_, State>) -> Result<(), Cause> {
        let shared = Arc::clone(&self.shared);
        threads::start(THREAD, move || shared.run())?;
        state.threads += 1;
        state.idle += 1;
        Ok(())
    }
}

impl Shared {
    fn run(&self) {
        while let Some((job, refused)) = self.next() {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| tell(job))) {
                // What it panicked with may panic again when it is dropped.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            }
            // Last, for a logger may take its time.
            if let Some(cause) = refused {
                say!(
                    warn,
                    target: "leasehold::callback",
                    "callbacks have to wait for threads that are there: {}", chain(&cause)
                );
            }
            self.state.lock().idle += 1;
        }
    }

    fn next(&self) -> Option<(Job, Option<Cause>)> {
        let mut state = self.state.lock();
        let mut idle_until = self.clock.now().plus(LINGER);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.idle -= 1;
                return Some((job, state.refused.take()));
            }
            let now = self.clock.now();
            // The last one stays for as long as there is a lease that may need it.
            let needed = state.threads == 1 && 0 < state.leases;
            if state.threads == 1 {
                idle_until = idle_until.max(state.quiet_since.plus(LINGER));
            }
            if state.closing || (idle_until <= now && !needed) {
                state.threads -= 1;
                state.idle -= 1;
                return None;
            }
            // The end of the last lease with callbacks notifies nobody: it is found here.
            let until = if needed { now.plus(LINGER) } else { idle_until };
            self.clock.park(&self.came, &mut state, until);
        }
    }
}

fn tell(job: Job) {
    // A lease that is gone has nobody to be told.
    let Some(watched) = job.watched.upgrade() else {
        return;
    };
    let key = watched.key();
    let told = catch_unwind(AssertUnwindSafe(|| watched.tell(job.notice)));
    if let Err(payload) = told {
        say!(
            error,
            target: "leasehold::callback",
            "the callback for {} of lock `{}` has panicked", job.notice, key.escape_debug()
        );
        resume_unwind(payload);
    }
}
