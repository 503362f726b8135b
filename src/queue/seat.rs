//! One waiter in memory.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use super::words::Start;
use crate::clock::{Clock, Time};
use crate::error::Cause;

/// A waiter, with the claim `C` that it brings and the `H` that it may be handed.
pub(crate) struct Seat<C, H> {
    pub(crate) claim: C,
    /// It does not wait for a server that is away.
    pub(super) hasty: bool,
    state: Mutex<State<H>>,
    changed: Condvar,
    /// Whether its thread is to look again. Written under the mutex.
    kicked: AtomicBool,
}

/// What a seat has come to. Changed with the queue's mutex held, but for what its own thread does.
pub(super) enum State<H> {
    /// `spent` once its claim was offered to a server in vain.
    Waiting {
        spent: bool,
    },
    /// Its turn to go to the server.
    Turn(Start),
    /// A lock is being handed to it, and it must not go before that is settled.
    Promised,
    Handed(H),
    /// No server is in reach, and it does not wait for one.
    Away(Cause),
    /// Its thread has gone.
    Left,
}

/// What its thread finds in a seat.
pub(super) enum Found<H> {
    Waiting,
    Turn(Start),
    Handed(H),
    Away(Cause),
    Promised,
}

impl<C, H> Seat<C, H> {
    pub(super) const fn new(claim: C, hasty: bool) -> Self {
        Self {
            claim,
            hasty,
            state: Mutex::new(State::Waiting { spent: false }),
            changed: Condvar::new(),
            kicked: AtomicBool::new(false),
        }
    }

    /// Has its thread look again.
    pub(crate) fn kick(&self) {
        // Noted, and under the mutex: a thread that has looked and not yet gone to sleep must not
        // miss it.
        let state = self.state.lock();
        self.kicked.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_one();
    }

    /// What it has come to; what can be taken is taken.
    pub(super) fn find(&self) -> Found<H> {
        let mut state = self.state.lock();
        match mem::replace(&mut *state, State::Left) {
            State::Turn(start) => Found::Turn(start),
            State::Handed(handed) => Found::Handed(handed),
            State::Away(cause) => Found::Away(cause),
            State::Promised => {
                *state = State::Promised;
                Found::Promised
            }
            other => {
                *state = other;
                Found::Waiting
            }
        }
    }

    /// Waits until `until` while nothing has changed.
    pub(super) fn park(&self, clock: &Clock, until: Time) {
        let mut state = self.state.lock();
        let was_kicked = self.kicked.swap(false, Ordering::Relaxed);
        if !was_kicked && matches!(*state, State::Waiting { .. } | State::Promised) {
            clock.park(&self.changed, &mut state, until);
        }
    }

    /// Whether a lock can be handed to it: then it is promised.
    pub(super) fn promise(&self) -> bool {
        let mut state = self.state.lock();
        let is_free = matches!(*state, State::Waiting { spent: false });
        if is_free {
            *state = State::Promised;
        }
        is_free
    }

    /// Takes a promise back. `false` if its thread has gone.
    pub(super) fn disappoint(&self) -> bool {
        let mut state = self.state.lock();
        let is_there = matches!(*state, State::Promised);
        if is_there {
            *state = State::Waiting { spent: true };
            drop(state);
            // It has gone to sleep as one to whom something is promised.
            self.changed.notify_one();
        }
        is_there
    }

    /// Keeps a promise. `Err` if its thread has gone.
    pub(super) fn hand(&self, handed: H) -> Result<(), H> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Promised) {
            return Err(handed);
        }
        *state = State::Handed(handed);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Gives it its turn. `false` if its thread has gone.
    pub(super) fn grant(&self, mut start: Start) -> bool {
        let mut state = self.state.lock();
        let State::Waiting { spent } = *state else {
            return false;
        };
        start.fresh = spent;
        *state = State::Turn(start);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Sends it away.
    pub(super) fn turn_away(&self, cause: &Cause) {
        let mut state = self.state.lock();
        if matches!(*state, State::Waiting { .. }) {
            *state = State::Away(cause.clone());
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Its thread goes, unless it has come to something else in this very moment. One to whom a lock
    /// is promised stays, unless it goes `even_so`.
    pub(super) fn leave(&self, even_so: bool) -> Found<H> {
        let mut state = self.state.lock();
        if !even_so && matches!(*state, State::Promised) {
            return Found::Promised;
        }
        match mem::replace(&mut *state, State::Left) {
            State::Turn(start) => Found::Turn(start),
            State::Handed(handed) => Found::Handed(handed),
            State::Away(cause) => Found::Away(cause),
            State::Promised => Found::Promised,
            State::Waiting { .. } | State::Left => Found::Waiting,
        }
    }
}
