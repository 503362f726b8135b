//! The verbs that every topology answers, and their answers.

use std::time::Duration;

use super::broken::Broken;
use super::errand::{Courier, Wake};
use super::fault::Fault;
use super::keys::Keys;
use super::target::{Owner, Target};
use crate::clock::Time;
use crate::error::Cause;
use crate::token::Token;

/// How long a verb may take.
///
/// For an acquisition `end` lies one command timeout behind the caller's budget: a definite
/// answer a little late is worth more than an unknown on time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// How long to wait for a turn at the links.
    pub(crate) begin: Time,
    /// How long to open a link, if none is there, and to wait for a reply.
    pub(crate) end: Time,
    /// Whether it goes before others at the links: to give a lock back, for which somebody may
    /// be waiting, or after a wait that came to no turn.
    pub(crate) urgent: bool,
}

impl Bound {
    /// One absolute end for everything, `last` of it kept for the command itself: a turn that
    /// came at the last moment would break a healthy link for a reply that is not waited for.
    pub(crate) fn within(now: Time, span: Duration, last: Duration) -> Self {
        Self {
            begin: now.plus(span.saturating_sub(last)),
            end: now.plus(span),
            urgent: false,
        }
    }

    /// The same, before others.
    pub(crate) const fn urgent(self) -> Self {
        Self {
            urgent: true,
            ..self
        }
    }

    /// No end but that of the links' own timeouts.
    pub(crate) const NONE: Self = Self {
        begin: Time::MAX,
        end: Time::MAX,
        urgent: false,
    };
}

/// The answer to an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Ours, with validity counted from `sent`.
    Taken {
        sent: Time,
        fence: Option<u64>,
    },
    Held,
}

/// The answer of a compare script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) owner: Owner,
    /// Whether the server is known to be a primary. Only then "gone" and "another's" count;
    /// a server that says it is a replica is a [`Fault`] instead.
    pub(crate) proven: bool,
    /// Whether an earlier command on a broken link is proven never to run any more.
    pub(crate) barrier: bool,
    /// Whether it is known that the server has lost no data since the broken link was opened:
    /// only then was what is gone removed by a command.
    pub(crate) shares_history: bool,
    /// The clock before the script was sent.
    pub(crate) sent: Time,
    /// The fence counter, where the target is fenced and the record ours.
    pub(crate) fence: Option<u64>,
    /// Whether somebody waits for what was released.
    pub(crate) others_wait: bool,
}

/// How a waiter goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Takes the lock if it is free.
    Try,
    /// Lets others go first: waits to be woken before it tries.
    Behind,
    /// The same once more, whoever else was to be woken.
    Quietly,
}

/// How long a waiter may block at the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking {
    /// When its budget ends: it is to be back in time.
    pub(crate) until: Time,
    /// The longest at a stretch, since nothing else can end it.
    pub(crate) longest: Duration,
    /// When every reply has to be in.
    pub(crate) end: Time,
}

/// What came of waiting.
#[derive(Clone, Debug)]
pub(crate) enum Waited {
    /// Ours, with validity counted from `sent`.
    Taken { sent: Time, fence: Option<u64> },
    /// Held so far.
    Held(WaitEnd),
}

/// Why a lock that is held was not waited for any longer.
#[derive(Clone, Debug)]
pub(crate) enum WaitEnd {
    /// It was not waited for at all.
    NoWait,
    /// Its turn has come to try again.
    Again {
        /// Whether its waiter was woken; else it has waited for as long as it was to.
        woken: bool,
        /// Whether the record has no expiry.
        for_ever: bool,
    },
    /// Nobody will wake the waiter: it has to look for itself.
    Unannounced {
        /// The time to live left, as far as it is known.
        remaining: Option<Duration>,
        /// Whether the record has no expiry.
        for_ever: bool,
        /// Why the wait broke off, if it did.
        cause: Option<Cause>,
    },
    /// A wake-up lies there that another has not taken yet: it is his.
    AnothersTurn,
    /// Nothing was sent: there is no waiting here, for want of rights or of links.
    Untried,
}

/// What stands at a key.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Its beginning, as long as was asked for.
    pub(crate) record: Vec<u8>,
    /// `None` if the record has no expiry.
    pub(crate) remaining: Option<Duration>,
    /// Whether somebody waits for it; `None` where that is not to be learned.
    pub(crate) others_wait: Option<bool>,
}

/// A topology: one server now, several behind one face later.
pub(crate) trait Verbs: Send + Sync {
    /// One attempt to take the lock. A token may be sent here again only after a fault that
    /// is *not sent* or *not run*, or after [`Acquired::Held`].
    fn acquire(&self, target: Target<'_>, bound: Bound) -> Result<Acquired, Fault>;

    /// Waits for a lock that was found held: tries once more, and then blocks until the lock is
    /// released, but not beyond its `limits`, the holder's expiry, or a second. As an attempt it is
    /// like [`acquire`](Self::acquire), also in what its faults mean for the token.
    fn wait(
        &self,
        target: Target<'_>,
        entry: Entry,
        limits: Blocking,
        bound: Bound,
    ) -> Result<Waited, Fault>;

    /// One attempt to take over the lock that `given` stands for: compare, then set with the
    /// target's token. [`Acquired::Held`] means that it does not stand any more.
    fn adopt(&self, target: Target<'_>, given: &Token, bound: Bound) -> Result<Acquired, Fault>;

    /// Compare and extend. `after` is a broken link that is fenced off first, so that
    /// nothing sent on it can run any more; only then a fenced target learns its fence.
    fn renew(
        &self,
        target: Target<'_>,
        after: Option<&Broken>,
        bound: Bound,
    ) -> Result<Answer, Fault>;

    /// Compare and delete, behind a barrier where `after` is given.
    fn release(
        &self,
        target: Target<'_>,
        after: Option<&Broken>,
        bound: Bound,
    ) -> Result<Answer, Fault>;

    /// What stands at the key, cut off behind `most` bytes. A server that says it is a replica
    /// is a [`Fault`].
    fn read(&self, keys: &Keys, most: u64, bound: Bound) -> Result<Option<Seen>, Fault>;

    /// Somebody who does errands in the background, over links of its own. `wake` is called
    /// when a link has come up.
    fn courier(&self, wake: Wake) -> Box<dyn Courier>;

    /// One round trip with a command that every user may send.
    fn ping(&self, bound: Bound) -> Result<Duration, Fault>;
}
