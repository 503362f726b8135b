//! What is done with records in the background, and how callers take part in it.
//!
//! One thread a client, `leasehold-renew`, sends for every record that is due: renewals of
//! leases that live, deletions of tokens that nobody holds. What an answer means for a record,
//! and when it is due next, the record's own [`Task`] says; here is only what is common to all.

use std::sync::Arc;

use parking_lot::MutexGuard;

use super::agenda::{Agenda, Entry, Held, State};
use super::rounds;
use super::task::Task;
use crate::clock::{Clock, Time};
use crate::error::Cause;
use crate::fork::Origin;
use crate::server::Verbs;
use crate::threads;

const THREAD: &str = "leasehold-renew";

/// The background of a client. Dropping it ends the thread, which holds nothing of the client.
pub(crate) struct Keeper {
    agenda: Arc<Agenda>,
    origin: Origin,
}

impl Keeper {
    pub(crate) fn new(clock: Clock, origin: Origin) -> Self {
        Self {
            origin,
            agenda: Arc::new(Agenda::new(clock)),
        }
    }

    /// Sees to a lease for as long as it is there and has not been withdrawn.
    pub(crate) fn keep(
        &self,
        number: u64,
        lease: &Arc<dyn Task>,
        server: &dyn Verbs,
    ) -> Result<(), Cause> {
        let held = Held::Lease(Arc::downgrade(lease));
        self.add(number, held, &**lease, server).map(drop)
    }

    /// Reaps a token from now on. Where there are too many, the oldest is forgotten, and
    /// returned.
    pub(crate) fn reap(
        &self,
        number: u64,
        orphan: &Arc<dyn Task>,
        server: &dyn Verbs,
    ) -> Result<Option<Arc<dyn Task>>, Cause> {
        let held = Held::Orphan(Arc::clone(orphan));
        let forgotten = self.add(number, held, &**orphan, server)?;
        Ok(forgotten.and_then(|entry| entry.task.task()))
    }

    /// Ends what is done for a number: once this has returned, nothing is sent for it any more.
    /// An attempt that is on its way is waited for until `until` at most, and `false` is
    /// returned if its answer had not come by then.
    ///
    /// The task has to be unwanted already, so that what is about to be sent is not.
    pub(crate) fn withdraw(&self, number: u64, until: Time) -> bool {
        let agenda = &*self.agenda;
        let mut state = agenda.state.lock();
        if state.schedule.is_free(number) {
            let entry = state.schedule.remove(number);
            state.quiet_since = agenda.clock.now();
            drop(state);
            // An attempt that has gone unanswered may have bytes left that no socket took yet.
            if entry.is_some_and(|entry| entry.pauses.is_some()) {
                drop(agenda.gate.lock());
            }
            return true;
        }
        let Some(entry) = state.schedule.get_mut(number) else {
            return true;
        };
        entry.withdrawn = true;
        state.withdrawing += 1;
        let mut landed = false;
        while !landed && agenda.clock.now() < until {
            agenda.clock.park(&agenda.out_of_hand, &mut state, until);
            landed = state.schedule.get_mut(number).is_none();
        }
        state.withdrawing -= 1;
        drop(state);
        drop(agenda.gate.lock());
        landed
    }

    fn add(
        &self,
        number: u64,
        held: Held,
        task: &dyn Task,
        server: &dyn Verbs,
    ) -> Result<Option<Entry>, Cause> {
        let agenda = &self.agenda;
        let mut state = agenda.state.lock();
        if !state.running {
            self.start(&mut state, server)?;
        }
        let now = agenda.clock.now();
        let due = task.due();
        let forgotten = state.put(number, held, task, due, now);
        if due < state.looks_at {
            state.woken = true;
            drop(state);
            agenda.changed.notify_one();
        }
        Ok(forgotten)
    }

    fn start(&self, state: &mut MutexGuard<'_, State>, server: &dyn Verbs) -> Result<(), Cause> {
        // Weak, so that a link which comes up late does not keep it all in memory.
        let agenda = Arc::downgrade(&self.agenda);
        let courier = server.courier(Arc::new(move || {
            if let Some(agenda) = agenda.upgrade() {
                agenda.wake();
            }
        }));
        let agenda = Arc::clone(&self.agenda);
        threads::start(THREAD, move || rounds::run(&agenda, courier))?;
        state.running = true;
        state.looks_at = Time::from_nanos(0);
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // In a forked child there is no thread, and a thread of the parent may hold the mutex in
        // this copy of its memory for ever.
        if self.origin.is_elsewhere() {
            return;
        }
        self.agenda.state.lock().closing = true;
        self.agenda.changed.notify_one();
    }
}
