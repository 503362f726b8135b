//! Those who wait for a link, in the order in which they came, each with its request ready.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::broken::Broken;
use super::command::Batch;
use super::fault::Fault;
use super::request::{Replies, Request};
use crate::clock::{Clock, Time};

/// Room for a request of the hot path.
const REQUEST: usize = 256;

/// The place of one caller in the queue, and what has become of its request. `L` is what it takes
/// to lead.
pub(super) struct Turn<L> {
    /// The request, packed.
    pub(super) batch: Batch,
    pub(super) commands: &'static [&'static str],
    /// When its owner stops waiting for the replies.
    pub(super) end: Time,
    state: Mutex<State<L>>,
    changed: Condvar,
}

enum State<L> {
    Waiting,
    /// It goes out, or has gone out, in another's batch; with what its owner needs if he goes.
    Aboard(Broken),
    Granted(Grant<L>),
    /// The owner has gone: its reply is for nobody.
    Abandoned,
}

/// What a turn can come to.
pub(super) enum Grant<L> {
    /// Its owner leads.
    Lead(L),
    /// The right to open a link, already counted as open.
    Slot,
    /// Somebody has just failed to open one: who waits would fail as well, one after the
    /// other.
    Away,
    /// Another has led.
    Answer(Result<Replies, Fault>),
}

impl<L> Turn<L> {
    pub(super) fn new(request: &dyn Request, end: Time) -> Self {
        let mut turn = Self {
            batch: Batch::with_capacity(REQUEST),
            commands: &[],
            end,
            state: Mutex::new(State::Waiting),
            changed: Condvar::new(),
        };
        turn.renew(request, end);
        turn
    }

    /// Makes an old one serve again, which saves its allocations.
    pub(super) fn renew(&mut self, request: &dyn Request, end: Time) {
        self.batch.clear();
        request.pack(&mut self.batch);
        self.commands = request.commands();
        self.end = end;
        *self.state.get_mut() = State::Waiting;
    }

    /// Waits until `until` for what it comes to.
    pub(super) fn wait(&self, clock: &Clock, until: Time) -> Option<Grant<L>> {
        let mut state = self.state.lock();
        loop {
            if let State::Granted(_) = *state
                && let State::Granted(grant) = mem::replace(&mut *state, State::Waiting)
            {
                return Some(grant);
            }
            if until <= clock.now() {
                return None;
            }
            clock.park(&self.changed, &mut state, until);
        }
    }

    /// The same; if nothing has come by then, its owner goes, and nothing can be granted to it any
    /// more. `Err` is then the link on which its request is under way, if it is.
    pub(super) fn wait_or_leave(
        &self,
        clock: &Clock,
        until: Time,
    ) -> Result<Grant<L>, Option<Broken>> {
        if let Some(grant) = self.wait(clock, until) {
            return Ok(grant);
        }
        let mut state = self.state.lock();
        match mem::replace(&mut *state, State::Abandoned) {
            State::Granted(grant) => {
                *state = State::Waiting;
                Ok(grant)
            }
            State::Aboard(broken) => Err(Some(broken)),
            State::Waiting | State::Abandoned => Err(None),
        }
    }

    /// Its owner has gone.
    pub(super) fn abandon(&self) {
        *self.state.lock() = State::Abandoned;
    }

    /// Its owner has what it wanted.
    pub(super) fn clear(&self) {
        *self.state.lock() = State::Waiting;
    }

    /// Whether nothing is left in it of its last use.
    pub(super) fn is_clear(&self) -> bool {
        matches!(*self.state.lock(), State::Waiting)
    }

    /// Notes that its bytes go out, and on which link; `false` if its owner has gone.
    pub(super) fn board(&self, link: &Broken) -> bool {
        let mut state = self.state.lock();
        if matches!(*state, State::Abandoned) {
            return false;
        }
        *state = State::Aboard(link.clone());
        true
    }

    /// Grants something to its owner, who has to be [woken](Self::wake) for it; where that has gone,
    /// the grant comes back.
    fn settle(&self, grant: Grant<L>) -> Option<Grant<L>> {
        let mut state = self.state.lock();
        if matches!(*state, State::Abandoned) {
            return Some(grant);
        }
        *state = State::Granted(grant);
        None
    }

    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Grants something to its owner; where that has gone, the grant comes back.
    pub(super) fn grant(&self, grant: Grant<L>) -> Option<Grant<L>> {
        let returned = self.settle(grant);
        self.wake();
        returned
    }

    /// Gives its owner, who has to be woken, the outcome of its request.
    pub(super) fn answer(&self, answer: Result<Replies, Fault>) {
        // Where nobody is there to hear it, what the command has done is its owner's to find out,
        // and that is what the owner has gone to do.
        let _ = self.settle(Grant::Answer(answer));
    }
}

/// There are two lines, each in the order of arrival: one for what is urgent, giving locks back
/// above all, and one for all else; neither has two turns in a row while somebody stands in the
/// other.
pub(super) struct Turns<L> {
    front: VecDeque<Arc<Turn<L>>>,
    back: VecDeque<Arc<Turn<L>>>,
    /// Whether the last turn went to the front line: then the next goes to the back one, if
    /// anybody stands there, since those in front may never end.
    front_had_it: bool,
}

impl<L> Turns<L> {
    pub(super) const fn new() -> Self {
        Self {
            front: VecDeque::new(),
            back: VecDeque::new(),
            front_had_it: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty() && self.back.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    pub(super) fn enter(&mut self, turn: Arc<Turn<L>>, urgent: bool) {
        if urgent {
            self.front.push_back(turn);
        } else {
            self.back.push_back(turn);
        }
    }

    /// Whether it still stood there: if not, it has been granted something.
    pub(super) fn leave(&mut self, turn: &Arc<Turn<L>>) -> bool {
        for line in [&mut self.front, &mut self.back] {
            if let Some(place) = line.iter().position(|other| Arc::ptr_eq(other, turn)) {
                line.remove(place);
                return true;
            }
        }
        false
    }

    pub(super) fn next(&mut self) -> Option<Arc<Turn<L>>> {
        let from_front = self.back.is_empty() || (!self.front_had_it && !self.front.is_empty());
        let turn = if from_front {
            self.front.pop_front()
        } else {
            self.back.pop_front()
        };
        self.front_had_it = from_front && turn.is_some();
        turn
    }
}
