//! What is known of one key: who holds it here, who is at the server for it, and who waits.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::seat::Seat;
use super::words::{Start, Tenancy, Word};
use crate::clock::Time;

/// How often in a row a lock is handed on inside this process.
const MOST_HANDED: u32 = 16;

/// For how long it is, counted from when this client took it from the server.
const LONGEST_CHAIN: Duration = Duration::from_millis(10);

/// How often this client leaves a pause for clients that poll, while its own threads wait.
const PAUSE_EVERY: Duration = Duration::from_secs(1);

/// Nobody waits longer for one look at the key, whatever was missed.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Place<C, H> {
    pub(super) tenant: Option<Tenant>,
    /// Whether somebody from here is at the server, or about to get the lock from a neighbour.
    pub(super) ahead: bool,
    pub(super) seats: VecDeque<Arc<Seat<C, H>>>,
    /// When this client took the lock from the server, and how often it was handed on since.
    pub(super) taken: Time,
    pub(super) handed: u32,
    /// When the last pause was, or when the present crowd began to wait.
    paused: Time,
    /// When somebody last came to wait.
    came: Time,
    /// What the last who went to the server has heard there.
    pub(super) word: Word,
}

/// Whoever holds the key here.
pub(super) struct Tenant {
    pub(super) number: u64,
    pub(super) tenancy: Weak<dyn Tenancy>,
    /// It is giving the lock back, and that takes until then at most.
    pub(super) leaves_by: Option<Time>,
}

impl Tenant {
    /// When whoever waits need not wait for it any more, as it looks now.
    fn ends(&self) -> Time {
        self.leaves_by.unwrap_or_else(|| {
            let tenancy = self.tenancy.upgrade();
            tenancy.map_or(Time::from_nanos(0), |tenancy| tenancy.ends())
        })
    }
}

impl<C, H> Place<C, H> {
    pub(super) const fn new(now: Time) -> Self {
        Self {
            tenant: None,
            ahead: false,
            seats: VecDeque::new(),
            taken: now,
            handed: 0,
            paused: now,
            came: now,
            word: Word::Unheard,
        }
    }

    /// What to tell those whose time is up.
    pub(super) fn word(&self) -> Word {
        if self.tenant.is_some() {
            return Word::Held;
        }
        self.word.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tenant.is_none() && !self.ahead && self.seats.is_empty()
    }

    pub(super) fn is_of(&self, number: u64) -> bool {
        let tenant = self.tenant.as_ref();
        tenant.is_some_and(|tenant| tenant.number == number)
    }

    pub(super) fn is_first(&self, seat: &Arc<Seat<C, H>>) -> bool {
        let first = self.seats.front();
        first.is_some_and(|first| Arc::ptr_eq(first, seat))
    }

    /// Until when there is nothing to do for whoever is in front.
    pub(super) fn busy_until(&self) -> Time {
        if self.ahead {
            return Time::MAX;
        }
        self.tenant
            .as_ref()
            .map_or(Time::from_nanos(0), Tenant::ends)
    }

    /// Somebody sits down at the end.
    pub(super) fn enter(&mut self, seat: Arc<Seat<C, H>>, now: Time) {
        if self.came.plus(PAUSE_EVERY) <= now {
            self.paused = now;
        }
        self.came = now;
        self.seats.push_back(seat);
    }

    /// Has whoever is in front look at a new holder's time, if that is short: he may have taken
    /// his last look when he was not in front.
    pub(super) fn tell_first(&self, now: Time) {
        if let Some(first) = self.seats.front()
            && self.busy_until() < now.plus(LOOK_EVERY)
        {
            first.kick();
        }
    }

    /// Whether the lock may be handed on here once more: it must not be at the price of others.
    pub(super) fn may_hand_on(&self, now: Time) -> bool {
        !self.ahead && self.handed < MOST_HANDED && now < self.taken.plus(LONGEST_CHAIN)
    }

    /// Gives the next his turn, if the key is nobody's here.
    pub(super) fn serve(&mut self, behind: bool, now: Time) {
        if now < self.busy_until() {
            return;
        }
        let had_it = self.tenant.take().is_some() || behind;
        while let Some(seat) = self.seats.pop_front() {
            let pause = had_it && self.paused.plus(PAUSE_EVERY) <= now;
            let start = Start {
                behind,
                pause,
                fresh: false,
            };
            if seat.grant(start) {
                self.ahead = true;
                if pause {
                    self.paused = now;
                }
                return;
            }
        }
    }
}
