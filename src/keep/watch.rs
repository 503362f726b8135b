//! The thread that watches the clock for leases with callbacks.
//!
//! Nothing here can be held up: the thread waits on a condition and on nothing else. It opens no
//! socket, it takes no mutex that anybody holds over I/O or over a user's code, and the callbacks
//! it hands over run on threads of their own. What the network does, or another callback, is no
//! matter to when a notice comes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::callbacks::{Callbacks, Job};
use super::schedule::{LINGER, Schedule};
use super::watched::{Looked, Notice, Told, Wants, Watched};
use crate::clock::{Clock, Time};
use crate::error::Cause;
use crate::fork::Origin;
use crate::threads;

const THREAD: &str = "leasehold-watch";

/// How soon a callback thread that the system refused is asked for again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

struct Entry {
    looked: Weak<dyn Looked>,
    /// Never upgraded here.
    watched: Weak<dyn Watched>,
    wants: Wants,
    told: Told,
    /// It was to be looked at while it was being looked at.
    kicked: bool,
}

/// An entry that is being looked at.
struct Due {
    number: u64,
    looked: Option<Arc<dyn Looked>>,
    told: Told,
    notice: Option<Notice>,
    next: Option<Time>,
}

struct State {
    schedule: Schedule<Entry>,
    /// When the thread looks next by itself.
    looks_at: Time,
    running: bool,
    closing: bool,
    quiet_since: Time,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
    callbacks: Callbacks,
}

/// The watch of a client. Dropping it ends its threads, which hold nothing of the client.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    origin: Origin,
}

impl Watch {
    pub(crate) fn new(clock: Clock, origin: Origin) -> Self {
        let quiet_since = clock.now();
        Self {
            origin,
            shared: Arc::new(Shared {
                callbacks: Callbacks::new(clock.clone()),
                clock,
                state: Mutex::new(State {
                    schedule: Schedule::default(),
                    looks_at: Time::MAX,
                    running: false,
                    closing: false,
                    quiet_since,
                }),
                changed: Condvar::new(),
            }),
        }
    }

    /// Watches a lease from `first` on. A thread that cannot be started is told here: in the
    /// danger zone it would be a silence.
    pub(crate) fn add(
        &self,
        number: u64,
        looked: Weak<dyn Looked>,
        watched: &Arc<dyn Watched>,
        first: Time,
    ) -> Result<(), Cause> {
        let shared = &self.shared;
        shared.callbacks.reserve()?;
        let mut state = shared.state.lock();
        if !state.running {
            let shared = Arc::clone(shared);
            if let Err(cause) = threads::start(THREAD, move || run(&shared)) {
                drop(state);
                self.shared.callbacks.free();
                return Err(cause);
            }
            state.running = true;
            state.looks_at = Time::from_nanos(0);
        }
        let entry = Entry {
            looked,
            watched: Arc::downgrade(watched),
            wants: watched.wants(),
            told: Told::default(),
            kicked: false,
        };
        state.schedule.insert(number, first, first, entry);
        state.quiet_since = shared.clock.now();
        if first < state.looks_at {
            drop(state);
            shared.changed.notify_one();
        }
        Ok(())
    }

    /// Ends the watching of a lease. What is about to be told of it is not told any more if its
    /// record says by now that it was released.
    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.shared.state.lock();
        let gone = state.schedule.remove(number);
        state.quiet_since = self.shared.clock.now();
        drop(state);
        if gone.is_some() {
            self.shared.callbacks.free();
        }
    }

    /// Has a lease looked at now: its end was proven, or its stay in the danger zone is over.
    pub(crate) fn kick(&self, number: u64) {
        let mut state = self.shared.state.lock();
        if state.schedule.is_free(number) {
            state
                .schedule
                .put_back(number, Time::from_nanos(0), Time::from_nanos(0));
            drop(state);
            self.shared.changed.notify_one();
        } else if let Some(entry) = state.schedule.get_mut(number) {
            entry.kicked = true;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // In a forked child there are no threads, and one of the parent's may hold a mutex in
        // this copy of its memory for ever.
        if self.origin.is_elsewhere() {
            return;
        }
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_one();
        self.shared.callbacks.close();
    }
}

fn run(shared: &Shared) {
    // Kept from one time to the next for their memory.
    let (mut due, mut jobs) = (Vec::new(), Vec::new());
    let mut refused = false;
    while wait(shared, refused) {
        look(shared, &mut due, &mut jobs);
        refused = !shared.callbacks.submit(&mut jobs);
    }
}

/// Waits until a lease is to be looked at, or until another try at a thread that was refused is
/// due. `false` when there is no lease any more.
fn wait(shared: &Shared, refused: bool) -> bool {
    let again = shared.clock.now().plus(REFUSED_PAUSE);
    let mut state = shared.state.lock();
    loop {
        let now = shared.clock.now();
        if state.closing {
            return false;
        }
        let mut until = state.schedule.next_due();
        if state.schedule.is_empty() {
            until = state.quiet_since.plus(LINGER);
            if until <= now {
                // Before the mutex is let go: whoever comes then starts a new thread.
                state.running = false;
                return false;
            }
        }
        if refused {
            until = until.min(again);
        }
        if until <= now {
            return true;
        }
        state.looks_at = until;
        shared.clock.park(&shared.changed, &mut state, until);
    }
}

/// Looks at every lease that is due, and collects what is to be told. A look is a few readings
/// of the clock and of atomics, and done without the mutex: acquiring and releasing need it.
fn look(shared: &Shared, due: &mut Vec<Due>, jobs: &mut Vec<Job>) {
    let now = shared.clock.now();
    {
        let mut state = shared.state.lock();
        state.looks_at = Time::from_nanos(0);
        state.schedule.ripen(now);
        while let Some((number, entry)) = state.schedule.take() {
            entry.kicked = false;
            due.push(Due {
                number,
                looked: entry.looked.upgrade(),
                told: entry.told,
                notice: None,
                next: None,
            });
        }
    }
    for due in due.iter_mut() {
        let Some(looked) = &due.looked else {
            continue;
        };
        let look = looked.look(&mut due.told);
        (due.notice, due.next) = (look.notice, look.next);
    }
    let mut ended = 0;
    {
        let mut state = shared.state.lock();
        for due in due.iter() {
            let Some(entry) = state.schedule.get_mut(due.number) else {
                continue;
            };
            entry.told = due.told;
            let wanted = due.notice.filter(|notice| match notice {
                Notice::Danger { unlogged, .. } => entry.wants.danger || *unlogged,
                Notice::Lost { unlogged } => entry.wants.lost || *unlogged,
            });
            jobs.extend(wanted.map(|notice| Job {
                watched: Weak::clone(&entry.watched),
                notice,
            }));
            let kicked = entry.kicked;
            match due.next {
                Some(_) if kicked => state.schedule.put_back(due.number, now, now),
                Some(next) => state.schedule.put_back(due.number, next, next),
                None => {
                    state.schedule.remove(due.number);
                    ended += 1;
                }
            }
        }
        if 0 < ended {
            state.quiet_since = now;
        }
    }
    for _ in 0..ended {
        shared.callbacks.free();
    }
    // The last handle to a client may be among them, and ends the watch: with no lock held.
    due.clear();
}
