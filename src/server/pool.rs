//! The few links that all threads of a client share.
//!
//! A caller takes an idle link; if there is none and fewer than the most are open, it opens
//! one; else it waits its turn. A link that comes back is handed to the next in line and cannot
//! be snatched by a newcomer. There are two lines, each in the order of arrival: one for what is
//! urgent, giving locks back above all, and one for all else; neither has two turns in a row
//! while somebody stands in the other.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::address::Address;
use super::fault::{Class, Fault};
use super::handshake;
use super::link::{Link, MOST_IDLE, Timeouts};
use super::verbs::Bound;
use crate::clock::Clock;
use crate::error::Cause;
use crate::stats::Counters;

/// A link that lay idle for longer is looked at before it is used. The shortest `timeout`
/// a server can be set to is one second, so that the hot path never pays for the look.
const TRUSTED_IDLE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Pool {
    address: Arc<Address>,
    server: Arc<str>,
    clock: Clock,
    timeouts: Timeouts,
    max_links: usize,
    counters: Arc<Counters>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
#[allow(
    clippy::vec_box,
    reason = "a link changes hands with every command; its box is one word to move"
)]
struct State {
    /// The link used last is on top: it is warm, and the others may go idle.
    idle: Vec<Box<Link>>,
    /// Links that exist or are being opened, idle ones included.
    open: usize,
    /// Those of them that are being opened.
    opening: usize,
    /// Links that broke and have not been replaced yet.
    broken: usize,
    waiting: Queue,
}

/// Those who wait for a turn, each line in the order of arrival.
#[derive(Debug, Default)]
struct Queue {
    front: VecDeque<Arc<Turn>>,
    back: VecDeque<Arc<Turn>>,
    /// Whether the last turn went to the front line: then the next goes to the back one, if
    /// anybody stands there, since those in front may never end.
    front_had_it: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.front.is_empty() && self.back.is_empty()
    }

    fn enter(&mut self, turn: Arc<Turn>, urgent: bool) {
        if urgent {
            self.front.push_back(turn);
        } else {
            self.back.push_back(turn);
        }
    }

    fn leave(&mut self, turn: &Arc<Turn>) {
        for line in [&mut self.front, &mut self.back] {
            line.retain(|other| !Arc::ptr_eq(other, turn));
        }
    }

    fn next(&mut self) -> Option<Arc<Turn>> {
        self.front_had_it = self.back.is_empty() || (!self.front_had_it && !self.front.is_empty());
        if self.front_had_it {
            self.front.pop_front()
        } else {
            self.back.pop_front()
        }
    }
}

/// The place of one caller in the queue. It is only looked at with the pool's mutex held;
/// its own mutex is there because a shared place cannot be written to without one.
#[derive(Debug, Default)]
struct Turn {
    granted: Mutex<Option<Grant>>,
    came: Condvar,
}

#[derive(Debug)]
enum Grant {
    Link(Box<Link>),
    /// The right to open a link, already counted as open.
    Slot,
    /// Somebody has just failed to open one: who waits would fail as well, one after the
    /// other.
    Away,
}

impl Pool {
    pub(super) fn new(
        address: Arc<Address>,
        server: Arc<str>,
        clock: Clock,
        timeouts: Timeouts,
        max_links: usize,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            server,
            address,
            clock,
            timeouts,
            max_links,
            counters,
            state: Mutex::default(),
        }
    }

    pub(super) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Runs `exchange` on a link that works as far as anyone can tell, the caller's alone
    /// for that time. A link that breaks with a command unanswered comes back in the fault.
    pub(super) fn with<T>(
        &self,
        bound: Bound,
        exchange: impl FnOnce(&mut Link) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let link = self.take(bound)?;
        self.lend(link, exchange)
    }

    /// The same on a link that is opened for it, beside the ones that exist: fencing off a
    /// broken link must not wait for a turn behind the commands of others.
    pub(super) fn with_fresh<T>(
        &self,
        bound: Bound,
        exchange: impl FnOnce(&mut Link) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.state.lock().open += 1;
        let link = self.open(bound)?;
        self.lend(link, exchange)
    }

    fn lend<T>(
        &self,
        mut link: Box<Link>,
        exchange: impl FnOnce(&mut Link) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let slot = Slot { pool: self };
        let mut result = exchange(&mut link);
        mem::forget(slot);
        link.settle();
        if !link.is_broken() {
            self.put_back(link);
            return result;
        }
        self.free_slot();
        self.state.lock().broken += 1;
        if result
            .as_ref()
            .err()
            .is_none_or(|fault| self.is_contagious(fault))
        {
            self.distrust_idle();
        }
        if let Err(fault) = &mut result
            && fault.class == Class::Unknown
        {
            say!(
                debug,
                target: "leasehold::link",
                "a link broke with {} unanswered: {}", fault.command, fault.cause
            );
            fault.broken = Some(Box::new(link.into_broken()));
        }
        result
    }

    fn take(&self, bound: Bound) -> Result<Box<Link>, Fault> {
        loop {
            match self.grant(bound)? {
                Grant::Link(link) => {
                    let idle = self.clock.now().since(link.last_used());
                    if idle <= TRUSTED_IDLE || (idle <= MOST_IDLE && !link.is_stale()) {
                        return Ok(link);
                    }
                    self.state.lock().broken += 1;
                    self.free_slot();
                }
                Grant::Slot => return self.open(bound),
                Grant::Away => {
                    let server = self.server.to_string();
                    let cause = Cause::Away { server };
                    return Err(Fault::new(Class::NoLink, "connect", cause));
                }
            }
        }
    }

    fn grant(&self, bound: Bound) -> Result<Grant, Fault> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            if let Some(link) = state.idle.pop() {
                return Ok(Grant::Link(link));
            }
            if state.open < self.max_links {
                state.open += 1;
                return Ok(Grant::Slot);
            }
        }
        self.wait_for_turn(state, bound)
    }

    fn wait_for_turn(
        &self,
        mut state: MutexGuard<'_, State>,
        bound: Bound,
    ) -> Result<Grant, Fault> {
        let turn = Arc::new(Turn::default());
        state.waiting.enter(Arc::clone(&turn), bound.urgent);
        let begun = self.clock.now();
        loop {
            if let Some(grant) = turn.granted.lock().take() {
                return Ok(grant);
            }
            if bound.begin <= self.clock.now() {
                state.waiting.leave(&turn);
                let cause = Cause::TimedOut {
                    doing: "waiting for a free link to",
                    server: self.server.to_string(),
                    after: self.clock.now().since(begun),
                };
                return Err(Fault::new(Class::NoTurn, "connect", cause));
            }
            self.clock.park(&turn.came, &mut state, bound.begin);
        }
    }

    /// Opens a link in a slot that is already counted.
    fn open(&self, bound: Bound) -> Result<Box<Link>, Fault> {
        // The slot goes back on every way out but the last.
        let slot = Slot { pool: self };
        let opening = Opening::begun(self);
        let until = self.clock.now().plus(self.timeouts.connect);
        let whole = until <= bound.end;
        let link = handshake::open(
            &self.address,
            &self.server,
            &self.clock,
            self.timeouts.command,
            until.min(bound.end),
        )
        .inspect_err(|fault| {
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
            self.counters.reconnects.add_one();
            say!(debug, target: "leasehold::link", "connected to `{}` again", self.server);
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
            hand_over(&turn, Grant::Away);
        }
    }

    fn put_back(&self, link: Box<Link>) {
        let mut state = self.state.lock();
        if self.max_links < state.open {
            // One of those opened to fence off a broken link; the broken one has gone.
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
            Some(turn) => hand_over(&turn, Grant::Link(link)),
            None => state.idle.push(link),
        }
        // Sockets are closed outside the mutex.
        drop(state);
        drop(oldest);
    }

    fn free_slot(&self) {
        let mut state = self.state.lock();
        state.open -= 1;
        if state.open < self.max_links
            && let Some(turn) = state.waiting.next()
        {
            state.open += 1;
            hand_over(&turn, Grant::Slot);
        }
    }

    /// Whether what ended a link may have ended the others too: not the mere impatience of a
    /// caller whose time was shorter than the command timeout.
    fn is_contagious(&self, fault: &Fault) -> bool {
        match fault.cause {
            Cause::TimedOut { after, .. } => self.timeouts.command <= after,
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

/// Called with the pool's mutex held.
fn hand_over(turn: &Turn, grant: Grant) {
    *turn.granted.lock() = Some(grant);
    turn.came.notify_one();
}

/// A slot that goes back to the pool unless it is forgotten, also when a caller unwinds.
struct Slot<'a> {
    pool: &'a Pool,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.pool.free_slot();
    }
}

/// Counts a link as being opened, also when opening it unwinds.
struct Opening<'a> {
    pool: &'a Pool,
}

impl<'a> Opening<'a> {
    fn begun(pool: &'a Pool) -> Self {
        pool.state.lock().opening += 1;
        Self { pool }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.pool.state.lock().opening -= 1;
    }
}
