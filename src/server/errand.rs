//! What is done with records in the background: many at a time, and nobody waits for the
//! reply.

use std::sync::Arc;
use std::time::Duration;

use super::fault::Fault;
use super::target::{Owner, Target};
use crate::clock::Time;

/// What is to be done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    /// Compare and extend.
    Renew,
    /// Compare and delete.
    Release,
}

/// One record with which something is to be done.
pub(crate) trait Errand: Send + Sync {
    fn verb(&self) -> Verb;

    fn target(&self) -> Target<'_>;

    /// The longest that one attempt waits for its answer, counted from its first send.
    fn patience(&self) -> Duration;

    /// Asked right before anything is sent.
    fn is_wanted(&self) -> bool;
}

/// What came of an attempt.
#[derive(Debug)]
pub(crate) struct Landed {
    /// Whose attempt it was.
    pub(crate) number: u64,
    /// The clock before the attempt was first sent.
    pub(crate) sent: Time,
    /// Whose the record is. "Gone" and "another's" come from a primary, or from a server that
    /// does not tell its role.
    pub(crate) outcome: Result<Owner, Fault>,
    /// The attempt has landed before, as one that went unanswered in time: this is its answer.
    pub(crate) late: bool,
}

/// Carries errands over links of its own. No call blocks but [`wait`](Self::wait): not for a
/// reply, not for a connection, not for a name lookup.
pub(crate) trait Courier: Send {
    /// How many errands can go out now.
    fn room(&mut self) -> usize;

    /// Begins to open a link, where there is none that takes errands or those that do are full
    /// and do not answer in time. `least` is the shortest patience among those who wait.
    fn make_room(&mut self, least: Duration);

    /// Takes an errand along, under a number that [`Landed`] repeats.
    fn take(&mut self, number: u64, errand: &Arc<dyn Errand>);

    /// Sends what there is to send, and nothing of what is not wanted any more. The only call
    /// that sends, so that a caller can hold a lock around the last look and the write.
    fn send(&mut self);

    /// Whether there is something to send although nothing new was taken along: what has to be
    /// asked once more, or what a socket did not take at first.
    fn has_more_to_send(&self) -> bool;

    /// Waits until something has come in or `until`, and at most for as long as the next
    /// attempt has.
    fn wait(&mut self, until: Time);

    /// Takes in all that has arrived, and only then judges what is overdue.
    fn collect(&mut self, landed: &mut Vec<Landed>);

    /// Why no link could be opened, once for each try.
    fn refusal(&mut self) -> Option<Fault>;

    /// Gives up all links, and with them all that is on its way: it lands as unknown.
    fn give_all_up(&mut self);

    /// Whether any reply is still expected, a late one included.
    fn is_busy(&self) -> bool;

    /// When there may be room, or [`make_room`](Self::make_room) should be called again.
    fn next_try(&self) -> Time;
}

/// Called from another thread when a link has been opened, or has not.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;
