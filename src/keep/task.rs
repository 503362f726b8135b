//! What is done with a record in the background, as the thread that does it sees it.

use crate::clock::Time;
use crate::server::{Errand, Fault, Landed};

/// Something that is done with one record again and again, until it says that it is over.
pub(crate) trait Task: Errand {
    /// When it is due next.
    fn due(&self) -> Time;

    /// The time by which it should have been done: of what is due, the earliest goes first.
    fn urgency(&self) -> Time;

    /// What to do now that it is due.
    fn fell_due(&self, now: Time) -> Due;

    /// Takes what came of an attempt.
    fn landed(&self, landed: Landed) -> Next;

    /// There is no link to send on.
    fn missed(&self, fault: &Fault);
}

/// What to do with a task that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Send,
    /// It has been seen to meanwhile.
    Later(Time),
    Over,
}

/// When to do it next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    At(Time),
    /// At once, if it is the first time in a row, else after a pause that doubles.
    Again,
    Over,
}
