//! How long a call that takes a lock may go on, and through what.

use super::canceller::Canceller;
use crate::backoff::pause;
use crate::clock::Time;
use crate::keep::Base;
use crate::server::Bound;

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
    attempt_begun: Time,
    is_first: bool,
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
            is_first: true,
        }
    }

    pub(super) fn next_attempt(&mut self) {
        self.attempt_begun = self.base.clock.now();
        self.is_first = false;
    }

    /// The bound of the next step: one command, with the link it needs.
    pub(super) fn step(&self) -> Bound {
        let command = self.base.timeouts.command;
        if self.canceller.is_some() {
            // A step cannot be cancelled, only what comes after it; so that a cancelled
            // wait ends within one command timeout, no step takes longer.
            let now = self.base.clock.now();
            return Bound::by(now.plus(command).min(self.begin().plus(command)).max(now));
        }
        let begin = self.begin();
        let end = begin.plus(command);
        // The first attempt is made in any case, with whatever link it can get by the time
        // that the last reply would have to be in.
        let begin = if self.is_first { end } else { begin };
        Bound { begin, end }
    }

    /// When the last step of this attempt may begin.
    fn begin(&self) -> Time {
        match self.patience {
            Patience::Until(budget) => budget.max(self.attempt_begun),
            Patience::Once | Patience::WhileHeld => {
                self.attempt_begun.plus(self.base.attempt_span())
            }
        }
    }

    /// Whether a lost reply may be settled further: a step that begins at `next` fits.
    pub(super) fn allows(&self, next: Time) -> bool {
        next < self.begin() && !self.is_cancelled()
    }

    /// Whether this call goes on while no server is in reach.
    pub(super) const fn outlasts_outages(&self) -> bool {
        matches!(self.patience, Patience::Until(_))
    }

    pub(super) const fn is_once(&self) -> bool {
        matches!(self.patience, Patience::Once)
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
