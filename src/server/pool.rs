//! The few links that all threads of a client share.
//!
//! A caller takes an idle link; if there is none and fewer than the most are open, it opens
//! one; else it waits in line with its request packed. Whoever is given a link then leads: it
//! takes all along who wait at that moment, and their requests go out in one piece. So nobody's
//! request is tied to a link that may turn out to be a slow one before it is sent, and a request
//! that its caller gives up before that has not been sent. A caller that finds an idle link
//! writes and reads by itself, with nothing in between.

mod guards;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use guards::{Counted, Slot};

use super::broken::Broken;
use super::convoy::{Aboard, Convoy, Lead, Progress, Room, Turn};
use super::fault::{Class, Fault};
use super::handshake;
use super::link::{Link, MOST_IDLE, WAITING};
use super::request::{Replies, Request, subject};
use super::route::Route;
use super::spare::{keep, turn_for};
use super::turn::{Grant, Turns};
use super::verbs::Bound;
use crate::clock::Time;
use crate::error::Cause;

/// A link that lay idle for longer is looked at before it is used. The shortest `timeout`
/// a server can be set to is one second, so that the hot path never pays for the look.
const TRUSTED_IDLE: Duration = Duration::from_millis(500);

/// The most requests of one convoy. The last of them waits for the replies to all the others.
const MOST_ABOARD: usize = 64;

/// And their size: what a socket takes at once, so that no leader is held up by the writing of what
/// is not its own.
const MOST_BYTES: usize = 16 * 1024;

/// How long a leader that has its own reply reads on for the others before it hands the lead on.
const LINGER: Duration = Duration::from_millis(2);

pub(super) struct Pool {
    route: Route,
    max_links: usize,
    max_idle: usize,
    state: Mutex<State>,
}

#[allow(
    clippy::vec_box,
    reason = "a link changes hands with every command; its box is one word to move"
)]
struct State {
    /// The link used last is on top: it is warm, and the others may go idle.
    idle: Vec<Box<Link>>,
    /// Links that exist or are being opened, idle ones included.
    open: usize,
    /// Those of them that are there to fence off broken ones, beyond the most.
    extra: usize,
    /// Those of them that are being opened.
    opening: usize,
    /// Links that broke and have not been replaced yet.
    broken: usize,
    waiting: Turns<Lead>,
    /// Room for those aboard a convoy, kept so that one allocates nothing.
    rooms: Vec<Room>,
}

impl Pool {
    /// Of at most `max_links`, of which `max_idle` are kept while nobody uses them.
    pub(super) fn new(route: Route, max_links: usize, max_idle: usize) -> Self {
        Self {
            route,
            max_links,
            max_idle,
            state: Mutex::new(State {
                idle: Vec::new(),
                open: 0,
                extra: 0,
                opening: 0,
                broken: 0,
                waiting: Turns::new(),
                rooms: Vec::new(),
            }),
        }
    }

    /// Sends a request over whichever link is free first, alone or together with others, and
    /// waits for its replies.
    pub(super) fn run(&self, bound: Bound, request: &dyn Request) -> Result<Replies, Fault> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            let idle = state.idle.pop();
            if idle.is_some() || !self.is_full(&state) {
                state.open += usize::from(idle.is_none());
                drop(state);
                let link = self.usable(idle, bound)?;
                return self.lend(link, |link| link.exchange(request, bound.end));
            }
        }
        let turn = turn_for(request, bound.end);
        state.waiting.enter(Arc::clone(&turn), bound.urgent);
        drop(state);
        let outcome = self.stand_in_line(&turn, bound);
        keep(turn);
        outcome
    }

    /// Runs `exchange` on a link that is opened for it, beside the ones that exist: fencing off a
    /// broken link must not wait for a turn behind the commands of others.
    pub(super) fn with_fresh<T>(
        &self,
        bound: Bound,
        exchange: impl FnOnce(&mut Link) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.state.lock().open += 1;
        let extra = Counted::begun(self, |state| &mut state.extra);
        let link = self.open(bound)?;
        self.lend(link, |link| {
            let result = exchange(link);
            // From here on it is one of the others, if there is room for it.
            drop(extra);
            result
        })
    }

    /// Runs `exchange` on a link that is the caller's alone for that time; `None` if all are in
    /// use.
    pub(super) fn with_spare<T>(
        &self,
        bound: Bound,
        exchange: impl FnOnce(&mut Link) -> Result<T, Fault>,
    ) -> Option<Result<T, Fault>> {
        let mut state = self.state.lock();
        let idle = state.idle.pop();
        if idle.is_none() && self.is_full(&state) {
            return None;
        }
        state.open += usize::from(idle.is_none());
        drop(state);
        let link = self.usable(idle, bound);
        Some(link.and_then(|link| self.lend(link, exchange)))
    }

    /// The link, if it can be trusted, or a new one in its place, which is counted as open
    /// already.
    fn usable(&self, link: Option<Box<Link>>, bound: Bound) -> Result<Box<Link>, Fault> {
        let Some(link) = link else {
            return self.open(bound);
        };
        let idle = self.route.clock.now().since(link.last_used());
        let is_good = idle <= TRUSTED_IDLE || (idle <= MOST_IDLE && !link.is_stale());
        if is_good && !link.is_broken() {
            return Ok(link);
        }
        self.state.lock().broken += 1;
        if link.is_broken() {
            // Its last user found out that it leads to the wrong place: so may the others.
            self.distrust_idle();
        }
        drop(link);
        self.open(bound)
    }

    fn lend<T>(
        &self,
        mut link: Box<Link>,
        exchange: impl FnOnce(&mut Link) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let slot = Slot { pool: self };
        let mut result = exchange(&mut link);
        mem::forget(slot);
        if let Err(fault) = &mut result
            && fault.class == Class::Unknown
            && fault.broken.is_none()
        {
            fault.broken = Some(Broken::ended(link.wire()));
        }
        self.take_back(link, result.as_ref().err());
        result
    }

    /// Waits in line, until somebody has taken the request along or its owner is to lead.
    fn stand_in_line(&self, turn: &Arc<Turn>, bound: Bound) -> Result<Replies, Fault> {
        let begun = self.route.clock.now();
        let grant = match turn.wait(&self.route.clock, bound.begin) {
            Some(grant) => grant,
            None if self.state.lock().waiting.leave(turn) => {
                return Err(self.no_turn(begun));
            }
            // It has been taken along, or is about to lead.
            None => match turn.wait_or_leave(&self.route.clock, bound.end) {
                Ok(grant) => grant,
                Err(Some(broken)) => return Err(self.unanswered(turn, broken, begun)),
                // Whoever has taken it along finds its owner gone, and leaves it out.
                Err(None) => return Err(self.no_turn(begun)),
            },
        };
        match grant {
            Grant::Answer(answer) => answer,
            Grant::Lead(Lead::Convoy(convoy)) => self.lead(*convoy, turn, bound),
            Grant::Lead(Lead::Link(link)) => {
                self.depart(self.usable(Some(link), bound)?, turn, bound)
            }
            Grant::Away => Err(self.route.away(Class::NoLink)),
            Grant::Slot => self.depart(self.usable(None, bound)?, turn, bound),
        }
    }

    fn timed_out(&self, doing: &'static str, since: Time) -> Cause {
        Cause::TimedOut {
            doing,
            server: self.route.server.to_string(),
            after: self.route.clock.now().since(since),
        }
    }

    /// Sends what `turn` has to say, and all who wait along with it.
    fn depart(&self, link: Box<Link>, turn: &Arc<Turn>, bound: Bound) -> Result<Replies, Fault> {
        let slot = Slot { pool: self };
        let aboard = {
            let mut state = self.state.lock();
            let mut aboard = Aboard::of(&link, state.rooms.pop().unwrap_or_default());
            aboard.push(Arc::clone(turn));
            while aboard.len() < MOST_ABOARD
                && aboard.bytes() < MOST_BYTES
                && let Some(next) = state.waiting.next()
            {
                aboard.push(next);
            }
            aboard
        };
        let convoy = Convoy::depart(link, aboard);
        mem::forget(slot);
        self.lead(convoy, turn, bound)
    }

    /// Reads replies for everybody aboard until all have theirs, or until the leader's own time
    /// is up.
    fn lead(&self, mut convoy: Convoy, turn: &Arc<Turn>, bound: Bound) -> Result<Replies, Fault> {
        let slot = Slot { pool: self };
        let begun = self.route.clock.now();
        let mut until = bound.end;
        let mut own = None;
        loop {
            match convoy.advance(until) {
                Progress::Landed(other, outcome) if Arc::ptr_eq(&other, turn) => {
                    own = Some(outcome);
                    turn.clear();
                    // The other replies are nearly always there as well. Where they are not, the
                    // leader has its own business to go about.
                    until = until.min(self.route.clock.now().plus(LINGER));
                }
                Progress::Landed(other, outcome) => convoy.serve(other, outcome),
                Progress::Over => break,
                Progress::Paused => {
                    let outcome = own.take().unwrap_or_else(|| {
                        turn.abandon();
                        Err(self.unanswered(turn, convoy.broken(), begun))
                    });
                    match convoy.hand_on(turn) {
                        None => {
                            mem::forget(slot);
                            return outcome;
                        }
                        Some(mut deserted) => {
                            deserted.give_up(self.timed_out(WAITING, begun));
                            convoy = deserted;
                            own = Some(outcome);
                        }
                    }
                }
            }
        }
        mem::forget(slot);
        let (link, ended, served) = convoy.arrive();
        self.take_back(link, ended.as_ref());
        let room = served.disband();
        self.state.lock().rooms.push(room);
        // A leader is aboard its own convoy, and so has landed with it.
        own.unwrap_or_else(|| Err(self.no_turn(begun)))
    }

    fn no_turn(&self, since: Time) -> Fault {
        let cause = self.timed_out("waiting for a free link to", since);
        Fault::new(Class::NoTurn, "connect", cause)
    }

    /// What an owner is told who goes before the reply to its request has come.
    fn unanswered(&self, turn: &Turn, broken: Broken, since: Time) -> Fault {
        let cause = self.timed_out(WAITING, since);
        let mut fault = Fault::new(Class::Unknown, subject(turn.commands), cause);
        fault.broken = Some(broken);
        fault
    }

    /// Takes a link back after its use, `fault` being what its last user met.
    fn take_back(&self, link: Box<Link>, fault: Option<&Fault>) {
        if !link.is_broken() {
            self.put_back(link);
            return;
        }
        self.free_slot();
        self.state.lock().broken += 1;
        if fault.is_none_or(|fault| self.is_contagious(fault)) {
            self.distrust_idle();
        }
        if let Some(fault) = fault
            && fault.class == Class::Unknown
        {
            say!(
                debug,
                target: "leasehold::link",
                "a link broke with {} unanswered: {}", fault.command, fault.cause
            );
        }
    }

    /// Opens a link in a slot that is already counted.
    fn open(&self, bound: Bound) -> Result<Box<Link>, Fault> {
        // The slot goes back on every way out but the last.
        let slot = Slot { pool: self };
        let opening = Counted::begun(self, |state| &mut state.opening);
        let (now, connect) = (self.route.clock.now(), self.route.timeouts.connect);
        let until = now.plus(connect);
        // Who had most of the time that anybody has speaks for all.
        let whole = now.plus(connect / 2) <= bound.end;
        let link = handshake::open(&self.route, until.min(bound.end)).inspect_err(|fault| {
            // A refusal is each caller's own to hear, and the impatience of one says nothing
            // to the others.
            let impatient = !whole && matches!(fault.cause, Cause::TimedOut { .. });
            if fault.class == Class::NoLink && !impatient {
                self.answer_all_with_away();
            }
        });
        drop(opening);
        let link = link?;
        let replaces = {
            let mut state = self.state.lock();
            let replaces = state.broken != 0;
            state.broken = state.broken.saturating_sub(1);
            replaces
        };
        if replaces {
            self.route.counters.reconnects.add_one();
            say!(debug, target: "leasehold::link", "connected to `{}` again", self.route.server);
        }
        mem::forget(slot);
        Ok(Box::new(link))
    }

    /// Where no link works and one cannot be opened, those who wait are told so at once.
    fn answer_all_with_away(&self) {
        let mut state = self.state.lock();
        if state.opening < state.open {
            return;
        }
        while let Some(turn) = state.waiting.next() {
            // Nothing comes back from one that has just left its line: its owner is there.
            let _ = turn.grant(Grant::Away);
        }
    }

    fn put_back(&self, link: Box<Link>) {
        let mut state = self.state.lock();
        if self.max_links + state.extra < state.open || self.max_idle <= state.idle.len() {
            // One of those opened to fence off a broken link, which has gone; or after a rush.
            state.open -= 1;
            drop(state);
            drop(link);
            return;
        }
        // The oldest idle link is at the bottom; one goes with each that comes back, so that
        // a burst of callers does not leave its links behind for ever.
        let now = link.last_used();
        let outlived = state
            .idle
            .first()
            .is_some_and(|oldest| MOST_IDLE < now.since(oldest.last_used()));
        let oldest = outlived.then(|| state.idle.remove(0));
        state.open -= usize::from(outlived);
        match state.waiting.next() {
            Some(turn) => drop(turn.grant(Grant::Lead(Lead::Link(link)))),
            None => state.idle.push(link),
        }
        // Sockets are closed outside the mutex.
        drop(state);
        drop(oldest);
    }

    const fn is_full(&self, state: &State) -> bool {
        self.max_links + state.extra <= state.open
    }

    fn free_slot(&self) {
        let mut state = self.state.lock();
        state.open -= 1;
        if !self.is_full(&state)
            && let Some(turn) = state.waiting.next()
        {
            state.open += 1;
            let _ = turn.grant(Grant::Slot);
        }
    }

    /// Whether what ended a link may have ended the others too: not the mere impatience of a
    /// caller whose time was shorter than the command timeout.
    fn is_contagious(&self, fault: &Fault) -> bool {
        match fault.cause {
            Cause::TimedOut { after, .. } => self.route.timeouts.command <= after,
            _ => true,
        }
    }

    /// Drops the idle links: one has just failed, and what took it may have taken them.
    fn distrust_idle(&self) {
        let idle = {
            let mut state = self.state.lock();
            let idle = mem::take(&mut state.idle);
            state.open -= idle.len();
            state.broken += idle.len();
            idle
        };
        // Sockets are closed outside the mutex.
        drop(idle);
    }
}

#[cfg(test)]
mod tests;
