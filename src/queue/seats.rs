//! The places of all keys, and what is done with them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::place::{LOOK_EVERY, Place, Tenant};
use super::seat::{Found, Seat};
use super::words::{Start, Tenancy, Word};
use crate::clock::{Clock, Time};
use crate::error::Cause;

/// How long this client owes others the first try after a release that woke one of them.
const OWED: Duration = Duration::from_secs(1);

/// How many such debts are kept: what is forgotten costs another process one round trip.
const MOST_OWED: usize = 64;

/// How many places there may be room for without need.
const MOST_ROOM: usize = 4096;

/// What a waiter's time in memory has come to.
pub(crate) enum Came<H> {
    /// It is its turn to go to the server, until it [lets go](Queue::let_go).
    Turn(Start),
    /// A neighbour's release has brought it this. It is not at the server.
    Handed(H),
    /// No server is in reach.
    Away(Cause),
    /// Its time is up, and it has left while a lock was promised to it.
    LeftInDoubt,
    /// Its time is up, with what stood in the way.
    Over(Word),
}

pub(crate) struct Queue<C, H> {
    clock: Clock,
    state: Mutex<State<C, H>>,
}

struct State<C, H> {
    places: HashMap<Arc<str>, Place<C, H>>,
    /// Keys that others are to have first, and until when.
    owed: VecDeque<(Arc<str>, Time)>,
}

impl<C, H> Queue<C, H> {
    pub(crate) fn new(clock: Clock) -> Self {
        let (places, owed) = (HashMap::new(), VecDeque::new());
        let state = Mutex::new(State { places, owed });
        Self { clock, state }
    }

    /// Whether a newcomer can go to the server at once, and how. `None` if it has to wait.
    pub(crate) fn pass(&self, key: &str, hasty: bool) -> Option<Start> {
        let mut state = self.state.lock();
        let place = state.places.get(key);
        if place.is_none() && state.owed.is_empty() {
            // As nearly always: not even the clock is looked at.
            return Some(Start::default());
        }
        let now = self.clock.now();
        if let Some(place) = place
            && !(hasty && matches!(place.word, Word::Away(_)))
            && !(place.seats.is_empty() && place.busy_until() <= now)
        {
            return None;
        }
        Some(Start {
            behind: state.is_owed(key, now),
            ..Start::default()
        })
    }

    /// Sits down at the end, or has the turn at once if the key is nobody's here: `behind` others
    /// then, if they are to go first.
    pub(crate) fn sit(
        &self,
        key: &Arc<str>,
        claim: C,
        hasty: bool,
        behind: bool,
    ) -> Arc<Seat<C, H>> {
        let seat = Arc::new(Seat::new(claim, hasty));
        let mut state = self.state.lock();
        let now = self.clock.now();
        let place = state.place(key, now);
        place.enter(Arc::clone(&seat), now);
        place.serve(behind, now);
        seat
    }

    /// Waits in memory until `until`, and where a lock is being handed over for up to `grace`
    /// more: what is on its way must not get lost. `is_cancelled` is asked whenever the seat was
    /// [kicked](Seat::kick).
    pub(crate) fn wait(
        &self,
        key: &Arc<str>,
        seat: &Arc<Seat<C, H>>,
        (until, grace): (Time, Duration),
        is_cancelled: impl Fn() -> bool,
    ) -> Came<H> {
        // When to go although something is promised.
        let mut leave_at = None;
        loop {
            let now = self.clock.now();
            let is_over = until <= now || is_cancelled();
            match seat.find() {
                Found::Turn(start) => return Came::Turn(start),
                Found::Handed(handed) => return Came::Handed(handed),
                Found::Away(cause) => return Came::Away(cause),
                Found::Promised if is_over => {
                    let at = *leave_at.get_or_insert(until.min(now).plus(grace));
                    if at <= now
                        && let Some(came) = self.leave(key, seat, true)
                    {
                        return came;
                    }
                    seat.park(&self.clock, at);
                }
                Found::Promised => {
                    let look = now.plus(LOOK_EVERY);
                    seat.park(&self.clock, until.min(look));
                }
                Found::Waiting if is_over => {
                    if let Some(came) = self.leave(key, seat, false) {
                        return came;
                    }
                }
                Found::Waiting => {
                    let look = self.look(key, seat);
                    let look = look.min(now.plus(LOOK_EVERY));
                    seat.park(&self.clock, until.min(look));
                }
            }
        }
    }

    /// Whoever was at the server has come back from it, with the lock or without.
    pub(crate) fn let_go(&self, key: &str) {
        self.with(key, |place, now| {
            place.ahead = false;
            place.serve(false, now);
            place.tell_first(now);
        });
    }

    /// What whoever is at the server has heard there.
    pub(crate) fn note(&self, key: &str, word: Word) {
        self.with(key, |place, _| place.word = word);
    }

    /// No server is in reach, for anybody: those who do not wait for one are sent away.
    pub(crate) fn turn_away(&self, key: &str, cause: &Cause) {
        self.with(key, |place, _| {
            place.seats.retain(|seat| {
                if seat.hasty {
                    seat.turn_away(cause);
                }
                !seat.hasty
            });
            place.word = Word::Away(cause.clone());
        });
    }

    /// What the last who went to the server has heard there.
    pub(crate) fn word(&self, key: &str) -> Word {
        let state = self.state.lock();
        let place = state.places.get(key);
        place.map_or(Word::Unheard, Place::word)
    }

    /// A lock was taken, from the server or from a neighbour who has made that known already.
    pub(crate) fn occupy(&self, key: &Arc<str>, number: u64, tenancy: Weak<dyn Tenancy>) {
        let mut state = self.state.lock();
        let now = self.clock.now();
        let place = state.place(key, now);
        if place.is_of(number) {
            return;
        }
        place.word = Word::Held;
        place.taken = now;
        place.handed = 0;
        place.tenant = Some(Tenant {
            number,
            tenancy,
            leaves_by: None,
        });
        place.tell_first(now);
    }

    /// The same for a holder behind whom nobody is: it is over here at once, and whoever comes in the
    /// meantime goes to the server. `false` if somebody is there.
    pub(crate) fn depart_alone(&self, key: &str, number: u64) -> bool {
        let mut state = self.state.lock();
        let is_alone = state
            .places
            .get(key)
            .is_none_or(|place| place.is_of(number) && !place.ahead && place.seats.is_empty());
        if is_alone {
            state.places.remove(key);
            state.shrink();
        }
        is_alone
    }

    /// A holder begins to give the lock back, which takes until `leaves_by` at most. If `to_heir`
    /// and somebody waits to whom it can be handed, it is promised to him.
    pub(crate) fn depart(
        &self,
        key: &str,
        number: u64,
        leaves_by: Time,
        to_heir: bool,
    ) -> Option<Arc<Seat<C, H>>> {
        let mut state = self.state.lock();
        let place = state.places.get_mut(key)?;
        if !place.is_of(number) {
            return None;
        }
        if let Some(tenant) = &mut place.tenant {
            tenant.leaves_by = Some(leaves_by);
        }
        let first = place.seats.front()?;
        if !to_heir || !place.may_hand_on(self.clock.now()) || !first.promise() {
            return None;
        }
        place.ahead = true;
        place.handed += 1;
        place.seats.pop_front()
    }

    /// Keeps a promise. `Err` if its owner has gone: then the lock is the giver's to give back.
    pub(crate) fn hand(
        &self,
        key: &str,
        heir: &Seat<C, H>,
        (number, tenancy): (u64, Weak<dyn Tenancy>),
        handed: H,
    ) -> Result<(), H> {
        self.with(key, |place, now| {
            place.ahead = false;
            place.word = Word::Held;
            place.tenant = None;
            let outcome = heir.hand(handed);
            if outcome.is_ok() {
                place.tenant = Some(Tenant {
                    number,
                    tenancy,
                    leaves_by: None,
                });
                place.tell_first(now);
            } else {
                place.serve(false, now);
            }
            outcome
        })
    }

    /// What was promised is not known to be given. The heir goes to the server with that.
    pub(crate) fn leave_in_doubt(&self, key: &str, heir: &Seat<C, H>, doubt: H) {
        self.with(key, |place, now| {
            place.tenant = None;
            if heir.hand(doubt).is_err() {
                place.ahead = false;
                place.serve(false, now);
            }
        });
    }

    /// Takes a promise back: its owner is in front again.
    pub(crate) fn disappoint(&self, key: &str, heir: Arc<Seat<C, H>>) {
        self.with(key, |place, _| {
            place.ahead = false;
            if heir.disappoint() {
                place.seats.push_front(heir);
            }
        });
    }

    /// A holder has given the lock back, or has it no more. `others_wait` if another process waits
    /// for it.
    pub(crate) fn vacate(&self, key: &Arc<str>, number: u64, others_wait: bool) {
        let mut state = self.state.lock();
        let now = self.clock.now();
        let mut is_owed = others_wait;
        if let Some(place) = state.places.get_mut(&**key)
            && place.is_of(number)
        {
            if let Some(tenant) = &mut place.tenant {
                tenant.leaves_by = Some(now);
            }
            is_owed &= place.seats.is_empty();
            place.serve(others_wait, now);
            place.tenant = None;
            state.tidy(key);
        }
        if is_owed {
            state.owe(key, now);
        }
    }

    /// Has the one in front look again: a holder has lost the lock before its time.
    pub(crate) fn look_again(&self, key: &str) {
        self.with(key, |place, now| place.serve(false, now));
    }

    /// When to look again; it may be the turn of `seat` by then.
    fn look(&self, key: &str, seat: &Arc<Seat<C, H>>) -> Time {
        self.with(key, |place, now| {
            place.serve(false, now);
            if place.is_first(seat) {
                place.busy_until()
            } else {
                Time::MAX
            }
        })
    }

    /// Leaves a seat, unless it has come to something in this very moment. `None` if a lock has been
    /// promised to it, and it is not to leave `even_so`.
    pub(crate) fn leave(
        &self,
        key: &str,
        seat: &Arc<Seat<C, H>>,
        even_so: bool,
    ) -> Option<Came<H>> {
        self.with(key, |place, now| {
            let was_promised = match seat.leave(even_so) {
                Found::Turn(start) => return Some(Came::Turn(start)),
                Found::Handed(handed) => return Some(Came::Handed(handed)),
                Found::Away(cause) => return Some(Came::Away(cause)),
                Found::Promised if !even_so => return None,
                Found::Promised => true,
                Found::Waiting => false,
            };
            let was_first = place.is_first(seat);
            place.seats.retain(|other| !Arc::ptr_eq(other, seat));
            place.serve(false, now);
            if was_first && let Some(next) = place.seats.front() {
                // It has not looked at the time of the holder so far.
                next.kick();
            }
            Some(if was_promised {
                Came::LeftInDoubt
            } else {
                Came::Over(place.word())
            })
        })
    }

    /// Something for a key at which somebody waits or is at the server.
    fn with<T>(&self, key: &str, change: impl FnOnce(&mut Place<C, H>, Time) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.clock.now();
        state.change(key, now, change)
    }
}

impl<C, H> State<C, H> {
    fn place(&mut self, key: &Arc<str>, now: Time) -> &mut Place<C, H> {
        self.places
            .entry(Arc::clone(key))
            .or_insert_with(|| Place::new(now))
    }

    fn change<T>(
        &mut self,
        key: &str,
        now: Time,
        change: impl FnOnce(&mut Place<C, H>, Time) -> T,
    ) -> T {
        if let Some(place) = self.places.get_mut(key) {
            let value = change(place, now);
            self.tidy(key);
            return value;
        }
        // A place is there for as long as anybody has to do with it.
        let mut place = Place::new(now);
        change(&mut place, now)
    }

    /// Nothing is kept of a key that nobody here has to do with.
    fn tidy(&mut self, key: &str) {
        if self.places.get(key).is_some_and(Place::is_empty) {
            self.places.remove(key);
            self.shrink();
        }
    }

    /// One crowd is no reason to keep the room for it for ever.
    fn shrink(&mut self) {
        let (length, capacity) = (self.places.len(), self.places.capacity());
        if MOST_ROOM < capacity && length < capacity / 8 {
            self.places.shrink_to(capacity / 4);
        }
    }

    fn owe(&mut self, key: &Arc<str>, now: Time) {
        if self.owed.len() == MOST_OWED {
            self.owed.pop_front();
        }
        self.owed.push_back((Arc::clone(key), now.plus(OWED)));
    }

    /// Whether others are to go first; once.
    fn is_owed(&mut self, key: &str, now: Time) -> bool {
        self.owed.retain(|(_, until)| now < *until);
        let place = self.owed.iter().position(|(owed, _)| &**owed == key);
        place.is_some_and(|place| self.owed.remove(place).is_some())
    }
}

#[cfg(test)]
mod tests;
