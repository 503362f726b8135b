//! The thread that renews and reaps: round after round, it takes what is due, sends it, and
//! sorts what has landed.
//!
//! It waits at one place, for the earliest of three: the next task that is due, an answer, the
//! end of an attempt's patience. Whoever else has something for it finds it there or in its next
//! round, which comes within [`SLICE`] while it waits for answers.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::agenda::{Agenda, Entry, State};
use super::schedule::LINGER;
use super::task::{Due, Next, Task};
use crate::backoff::Backoff;
use crate::clock::Time;
use crate::error::chain;
use crate::server::{Courier, Errand, Fault, Landed};

/// How long answers are waited for at a stretch. A lease that comes meanwhile and is due before
/// that would otherwise wait as long as the patience of another.
const SLICE: Duration = Duration::from_millis(5);

const FIRST_PAUSE: Duration = Duration::from_millis(10);

pub(super) fn run(agenda: &Agenda, mut courier: Box<dyn Courier>) {
    let mut rounds = Rounds {
        agenda,
        courier: &mut *courier,
        landed: Vec::new(),
        is_away: false,
    };
    // A fault of one round must not cost the leases their renewal: what was in hand is due again
    // soon, and the thread goes on.
    while catch_unwind(AssertUnwindSafe(|| while rounds.round() {})).is_err() {
        say!(error, target: "leasehold::renew", "the renewal thread has panicked, and goes on");
        rounds.courier.give_all_up();
        rounds.landed.clear();
        let soon = agenda.clock.now().plus(FIRST_PAUSE);
        let mut state = agenda.state.lock();
        state.schedule.put_all_back(soon);
        if state.closing {
            return;
        }
    }
}

struct Rounds<'a> {
    agenda: &'a Agenda,
    courier: &'a mut dyn Courier,
    /// Kept from round to round for its memory.
    landed: Vec<Landed>,
    /// There was no link to be had when one was asked for last.
    is_away: bool,
}

impl Rounds<'_> {
    /// `false` when there is nothing to do any more.
    fn round(&mut self) -> bool {
        let agenda = self.agenda;
        let now = agenda.clock.now();
        let ripe = {
            let mut state = agenda.state.lock();
            state.woken = false;
            // It is looked at now; what comes in from here on wakes it, or is in time.
            state.looks_at = Time::from_nanos(0);
            state.schedule.ripen(now)
        };
        let room = if ripe { self.courier.room() } else { 0 };
        if 0 < room || self.courier.has_more_to_send() {
            self.send(room);
        }
        if ripe && room == 0 {
            let least = {
                let state = agenda.state.lock();
                let patience = state.schedule.ripe().map(|(_, entry)| entry.patience);
                patience.min()
            };
            if let Some(least) = least {
                self.courier.make_room(least);
            }
        }
        if self.courier.is_busy() {
            let next = {
                let state = agenda.state.lock();
                self.next_event(&state)
            };
            self.courier.wait(next.min(now.plus(SLICE)));
        } else if !self.park() {
            return false;
        }
        let mut landed = mem::take(&mut self.landed);
        self.courier.collect(&mut landed);
        self.settle(&mut landed);
        self.landed = landed;
        if let Some(fault) = self.courier.refusal() {
            self.miss(&fault);
        }
        !agenda.state.lock().closing
    }

    /// When something is to be done: a task falls due, or there may be a way to send those that
    /// are. Both, for what falls due may have less time than those that wait already.
    fn next_event(&self, state: &State) -> Time {
        let due = state.schedule.next_due();
        if state.schedule.has_ripe() {
            due.min(self.courier.next_try())
        } else {
            due
        }
    }

    /// Tells those who wait for a link that there is none. Whoever is over by now has no need of
    /// one.
    fn miss(&mut self, fault: &Fault) {
        let agenda = self.agenda;
        let tasks: Vec<_> = {
            let state = agenda.state.lock();
            let ripe = state.schedule.ripe();
            ripe.map(|(number, entry)| (number, entry.task.task()))
                .collect()
        };
        // Once for all of them, and at a level that an operator sees: an outage that costs no
        // lease would pass unnoticed otherwise.
        if !tasks.is_empty() && !mem::replace(&mut self.is_away, true) {
            say!(
                warn,
                target: "leasehold::renew",
                "{} renewals wait for a link: {}", tasks.len(), chain(&fault.cause)
            );
        }
        for (number, task) in tasks {
            let due = task.as_ref().map(|task| task.fell_due(agenda.clock.now()));
            match (due, &task) {
                (Some(Due::Send), Some(task)) => task.missed(fault),
                (Some(Due::Later(time)), Some(task)) => {
                    self.put_back(number, Next::At(time), task.urgency());
                }
                _ => self.put_back(number, Next::Over, Time::MAX),
            }
        }
    }

    /// Sends for up to `room` of the tasks that are due.
    fn send(&mut self, room: usize) {
        let agenda = self.agenda;
        let mut due: Vec<(u64, Option<Arc<dyn Task>>)> = Vec::new();
        {
            let mut state = agenda.state.lock();
            while due.len() < room
                && let Some((number, entry)) = state.schedule.take()
            {
                due.push((number, entry.task.task()));
            }
        }
        for (number, task) in &due {
            let Some(task) = task else {
                self.put_back(*number, Next::Over, Time::MAX);
                continue;
            };
            match task.fell_due(agenda.clock.now()) {
                Due::Send => {
                    let errand: Arc<dyn Errand> = Arc::clone(task) as _;
                    self.courier.take(*number, &errand);
                }
                Due::Later(time) => self.put_back(*number, Next::At(time), task.urgency()),
                Due::Over => self.put_back(*number, Next::Over, Time::MAX),
            }
        }
        let gate = agenda.gate.lock();
        self.courier.send();
        drop(gate);
        // The last handle to a client may be among them, and ends the keeper: with no lock held.
        drop(due);
    }

    /// Waits for something to do while no answer is expected. `false` if nothing came.
    fn park(&self) -> bool {
        let agenda = self.agenda;
        let mut state = agenda.state.lock();
        loop {
            let now = agenda.clock.now();
            if state.closing {
                return false;
            }
            let mut until = self.next_event(&state);
            if state.schedule.is_empty() {
                until = state.quiet_since.plus(LINGER);
                if until <= now {
                    // Before the mutex is let go: whoever comes then starts a new thread.
                    state.running = false;
                    return false;
                }
            }
            if state.woken || until <= now {
                return true;
            }
            state.looks_at = until;
            agenda.clock.park(&agenda.changed, &mut state, until);
        }
    }

    fn settle(&mut self, landed: &mut Vec<Landed>) {
        for landed in landed.drain(..) {
            if landed.outcome.is_ok() && mem::take(&mut self.is_away) {
                say!(info, target: "leasehold::renew", "renewals are answered again");
            }
            let (number, late) = (landed.number, landed.late);
            let task = {
                let mut state = self.agenda.state.lock();
                let entry = state.schedule.get_mut(number);
                entry.and_then(|entry| entry.task.task())
            };
            let Some(task) = task else {
                self.put_back(number, Next::Over, Time::MAX);
                continue;
            };
            let next = task.landed(landed);
            // One that came late moves a task that waits for its next attempt, and none that is in
            // hand again.
            if !late || (next != Next::Again && self.is_free(number)) {
                self.put_back(number, next, task.urgency());
            }
        }
    }

    /// Lets a task wait, or ends it.
    fn put_back(&self, number: u64, next: Next, urgency: Time) {
        let agenda = self.agenda;
        let now = agenda.clock.now();
        let mut state = agenda.state.lock();
        let Some(entry) = state.schedule.get_mut(number) else {
            return;
        };
        let withdrawn = entry.withdrawn;
        let gone = match next {
            _ if withdrawn => state.end(number),
            Next::Over => state.end(number),
            Next::At(time) => {
                entry.pauses = None;
                state.schedule.put_back(number, time, urgency);
                None
            }
            Next::Again => {
                let time = now.plus(pause(entry));
                state.schedule.put_back(number, time, urgency);
                None
            }
        };
        if gone.is_some() {
            state.quiet_since = now;
        }
        let awaited = withdrawn && 0 < state.withdrawing;
        drop(state);
        if awaited {
            agenda.out_of_hand.notify_all();
        }
        // Outside the mutex, for what its end may end.
        drop(gone);
    }

    /// Only this thread takes a task in hand, so that one that is free stays so until it does.
    fn is_free(&self, number: u64) -> bool {
        self.agenda.state.lock().schedule.is_free(number)
    }
}

/// Nothing before the first retry: it goes out on a new link, or a server has just said "not
/// now" to something that the next moment may undo.
fn pause(entry: &mut Entry) -> Duration {
    if let Some(pauses) = &mut entry.pauses {
        return pauses.next_pause();
    }
    let backoff = Backoff {
        first: FIRST_PAUSE,
        most: entry.patience.max(FIRST_PAUSE),
    };
    entry.pauses = Some(backoff.pauses());
    Duration::ZERO
}
