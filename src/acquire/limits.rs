//! How long a call that takes a lock may go on, and through what.

use std::time::Duration;

use super::canceller::Canceller;
use crate::backoff::pause;
use crate::clock::Time;
use crate::keep::Base;
use crate::server::{Blocking, Bound};

/// What a caller waits through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// One attempt.
    Once,
    /// As long as others hold the lock, but not for a server that is away.
    WhileHeld,
    /// For others and for outages alike, until then.
    Until(Time),
}

/// The limits of one call.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    pub(super) base: &'a Base,
    pub(super) patience: Patience,
    pub(super) canceller: Option<&'a Canceller>,
    pub(super) begun: Time,
    /// When the attempt that is under way began.
    pub(super) attempt_begun: Time,
    /// The last attempt came to no turn at the links: the next goes before others, so that a
    /// wait that has to look at its canceller now and then does not starve.
    had_no_turn: bool,
}

impl<'a> Limits<'a> {
    pub(super) fn new(
        base: &'a Base,
        patience: Patience,
        canceller: Option<&'a Canceller>,
    ) -> Self {
        let begun = base.clock.now();
        Self {
            base,
            patience,
            canceller,
            begun,
            attempt_begun: begun,
            had_no_turn: false,
        }
    }

    pub(super) fn next_attempt(&mut self, had_turn: bool) {
        self.attempt_begun = self.base.clock.now();
        self.had_no_turn = !had_turn;
    }

    /// The bound of the next step: one command, with the link it needs.
    pub(super) fn step(&self) -> Bound {
        let command = self.base.timeouts.command;
        if self.canceller.is_some() {
            // A step cannot be cancelled, only what comes after it; so that a cancelled
            // wait ends within one command timeout, no step takes longer.
            // A quarter of it may go into waiting for a turn, so that what is sent has its time.
            let now = self.base.clock.now();
            let end = now.plus(command).min(self.end()).max(now);
            return Bound {
                begin: now.plus(command / 4).min(end),
                end,
                urgent: self.had_no_turn,
            };
        }
        match self.patience {
            // A turn at the links may take its time; link and command have their timeouts.
            Patience::WhileHeld => Bound::NONE,
            Patience::Once | Patience::Until(_) => Bound {
                begin: self.begin(),
                end: self.end(),
                urgent: self.had_no_turn,
            },
        }
    }

    /// When the last step of this attempt may begin.
    fn begin(&self) -> Time {
        match self.patience {
            Patience::Until(budget) => budget.max(self.attempt_begun),
            Patience::Once => self.attempt_begun.plus(self.base.attempt_span()),
            Patience::WhileHeld => Time::MAX,
        }
    }

    /// When the last reply has to be in.
    fn end(&self) -> Time {
        self.begin().plus(self.base.timeouts.command)
    }

    /// How long a lost reply that is found at `now` may be settled for.
    pub(super) fn settle_until(&self, now: Time) -> Time {
        match self.patience {
            Patience::WhileHeld => now.plus(self.base.attempt_span()),
            Patience::Until(_) | Patience::Once => self.begin(),
        }
    }

    /// What is left for giving back a lock that cannot be used.
    pub(super) fn left(&self) -> Duration {
        let left = match self.patience {
            Patience::WhileHeld => Duration::MAX,
            Patience::Until(_) | Patience::Once => self.end().since(self.base.clock.now()),
        };
        if self.canceller.is_some() {
            return left.min(self.base.timeouts.command);
        }
        left
    }

    /// Whether this call goes on while no server is in reach.
    pub(super) const fn outlasts_outages(&self) -> bool {
        matches!(self.patience, Patience::Until(_))
    }

    pub(super) const fn is_once(&self) -> bool {
        matches!(self.patience, Patience::Once)
    }

    /// When the caller stops waiting.
    pub(super) const fn budget(&self) -> Time {
        match self.patience {
            Patience::Until(budget) => budget,
            Patience::Once | Patience::WhileHeld => Time::MAX,
        }
    }

    /// How long a wait at the server may block: it cannot be cancelled in the middle.
    pub(super) fn blocking(&self) -> Blocking {
        let half = self.base.timeouts.command / 2;
        Blocking {
            until: self.budget(),
            longest: self.canceller.map_or(Duration::MAX, |_| half),
            end: self.step().end,
        }
    }

    /// Whether the budget is over.
    pub(super) fn is_over(&self) -> bool {
        match self.patience {
            Patience::Until(budget) => budget <= self.base.clock.now(),
            Patience::Once | Patience::WhileHeld => false,
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.canceller.is_some_and(Canceller::is_cancelled)
    }

    /// Waits until `until`, or less if the budget ends or the call is cancelled.
    pub(super) fn rest(&self, until: Time) {
        let until = match self.patience {
            Patience::Until(budget) => until.min(budget),
            Patience::Once | Patience::WhileHeld => until,
        };
        match self.canceller {
            Some(canceller) => canceller.pause(&self.base.clock, until),
            None => pause(&self.base.clock, until),
        }
    }
}
