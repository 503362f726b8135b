//! Waiting for a lock on a link of one's own, until its holder gives it back.
//!
//! A wake-up is a hint and nothing more: whoever has one tries to take the lock like anybody
//! else. So one that is lost costs time, which is why nobody blocks for longer than a second, and
//! one too many costs a round trip.

use std::time::Duration;

use redis::Value;

use super::call::{Alone, Call};
use super::command::{Batch, Decimal};
use super::fault::{Class, Fault};
use super::keys::{FENCE_TTL, Keys};
use super::link::Link;
use super::request::Request;
use super::scripts;
use super::siblings::Siblings;
use super::target::Target;
use super::verbs::{Blocking, WaitEnd, Waited};
use crate::clock::Time;
use crate::error::Cause;

/// How long a waiter is known to wait, in milliseconds. It makes itself known anew at least once
/// a second.
const WAITING_TTL: u64 = 2000;

/// Servers look at blocked clients ten times a second, so that an answer comes up to so much
/// late (measured: 69 ms for 50). What has to be on time is polled at its end.
const LATE: Duration = Duration::from_millis(100);

/// With what it can be late, a second.
const LONGEST: Duration = Duration::from_millis(900);

/// `BLPOP` with 0 blocks for ever, and 7.0 takes what rounds to it for the same.
const SHORTEST: Duration = Duration::from_millis(10);

/// A connection that ends sooner than that was ended because of the command.
const AT_ONCE: Duration = Duration::from_millis(10);

const BLPOP: &str = "BLPOP";

/// How long one who was woken and has not come is waited for.
const COURTESY: Duration = Duration::from_millis(200);

/// Tries, or makes itself known under its client's name, and blocks. The inner error is a server's
/// refusal to let this user wait, which says nothing about the lock.
pub(super) fn wait(
    link: &mut Link,
    target: Target<'_>,
    siblings: &Siblings,
    limits: Blocking,
) -> Result<Result<Waited, Fault>, Fault> {
    let (left, announced) = match enter(link, target, siblings.name(), limits.end)? {
        Ok(Entered::Taken { sent, fence }) => return Ok(Ok(Waited::Taken { sent, fence })),
        Ok(Entered::Held { left, announced }) => (left, announced),
        Err(refusal) => return Ok(Err(refusal)),
    };
    // -1 stands for "no expiry".
    let remaining = u64::try_from(left).ok().map(Duration::from_millis);
    let for_ever = remaining.is_none();
    if !announced {
        return Ok(Ok(Waited::Held(WaitEnd::Unannounced {
            remaining,
            for_ever,
            cause: None,
        })));
    }
    let span = span(link, limits, remaining);
    let blocked = block(link, target.keys, siblings, (span, limits.end));
    Ok(blocked.map(|blocked| blocked.into_waited(remaining, for_ever)))
}

/// Lets others go first: makes itself known, and blocks, without a try of its own. Plain commands:
/// whoever has just been woken is not to be held up by it.
///
/// A wake-up that lies in the list is for one who has made himself known and does not block yet, being
/// further away: whoever has caused it must not take it (measured: a client 2 ms away had 24
/// acquisitions beside 153,511).
pub(super) fn wait_behind(
    link: &mut Link,
    target: Target<'_>,
    siblings: &Siblings,
    limits: Blocking,
) -> Result<Result<Waited, Fault>, Fault> {
    let announce = Announce {
        keys: target.keys,
        name: siblings.name(),
    };
    let mut replies = link.exchange(&announce, limits.end)?;
    for (index, command) in announce.commands().iter().enumerate() {
        match replies.take(index) {
            Value::ServerError(error) => {
                let fault = replies.refused(command, link.server(), &error);
                if fault.class == Class::Refused {
                    return Ok(Err(fault));
                }
                return Ok(Ok(Waited::Held(WaitEnd::Unannounced {
                    remaining: None,
                    for_ever: false,
                    cause: None,
                })));
            }
            Value::Int(1..) => return Ok(Ok(Waited::Held(WaitEnd::AnothersTurn))),
            _ => {}
        }
    }
    // The place in the server's queue is worth more than a look in between.
    let span = span(link, limits, None);
    Ok(nap(link, target, siblings, (span, limits.end)))
}

/// Blocks after a wake-up has lain there that another did not take at once, to look for itself soon:
/// he may be dead.
pub(super) fn wait_quietly(
    link: &mut Link,
    target: Target<'_>,
    siblings: &Siblings,
    limits: Blocking,
) -> Result<Waited, Fault> {
    let span = span(link, limits, None).min(COURTESY);
    nap(link, target, siblings, (span, limits.end))
}

/// Blocks, whatever the holder's time is.
fn nap(
    link: &mut Link,
    target: Target<'_>,
    siblings: &Siblings,
    times: (Duration, Time),
) -> Result<Waited, Fault> {
    let blocked = block(link, target.keys, siblings, times)?;
    Ok(blocked.into_waited(None, false))
}

/// How long to block, so that whoever does is back in time.
fn span(link: &Link, limits: Blocking, remaining: Option<Duration>) -> Duration {
    let budget = limits.until.since(link.now());
    let most = remaining.map_or(budget, |remaining| budget.min(remaining));
    let answered = limits.end.since(link.now()).saturating_sub(SHORTEST);
    most.min(answered)
        .saturating_sub(LATE)
        .min(LONGEST)
        .min(limits.longest)
}

enum Entered {
    Taken { sent: Time, fence: Option<u64> },
    Held { left: i64, announced: bool },
}

fn enter(
    link: &mut Link,
    target: Target<'_>,
    name: &[u8],
    end: Time,
) -> Result<Result<Entered, Fault>, Fault> {
    let (ttl, waiting_ttl) = (Decimal::of(target.ttl), Decimal::of(WAITING_TTL));
    let fence_ttl = Decimal::of(FENCE_TTL);
    let keys = [
        target.keys.record(),
        target.keys.waiting(),
        target.keys.fence(),
    ]
    .map(str::as_bytes);
    let call = Call {
        script: &scripts::WAIT,
        keys: if target.fenced { &keys } else { &keys[..2] },
        arguments: &[
            target.token.expose().as_bytes(),
            ttl.as_bytes(),
            waiting_ttl.as_bytes(),
            name,
            fence_ttl.as_bytes(),
        ],
        compares: false,
        draws_fence: target.fenced,
    };
    let mut carrier = Alone { link, end };
    let outcome = call.evaluate(false, &mut carrier)?;
    let sent = outcome.sent();
    Ok(Ok(match &outcome.value {
        Value::Int(fence @ 1..) => Entered::Taken {
            sent,
            fence: target.fenced.then_some(fence.unsigned_abs()),
        },
        Value::Int(code @ (-2 | -3)) => return Err(call.counter_refused(*code)),
        Value::Array(items) => match &items[..] {
            [Value::Int(left), Value::Int(announced)] => Entered::Held {
                left: *left,
                announced: *announced == 1,
            },
            _ => return Err(outcome.unexpected(call.command())),
        },
        Value::ServerError(error) => {
            let fault = outcome.refused(call.command(), error);
            if fault.class == Class::Refused {
                return Ok(Err(fault));
            }
            return Err(fault);
        }
        _ => return Err(outcome.unexpected(call.command())),
    }))
}

/// What has come of it.
enum Blocked {
    Woken,
    /// Nobody has come for that long.
    Over,
    /// It was not for long enough, or the server does not block.
    Not,
    /// It broke off.
    Broken(Cause),
}

impl Blocked {
    fn into_waited(self, remaining: Option<Duration>, for_ever: bool) -> Waited {
        let cause = match self {
            Self::Woken | Self::Over => {
                let woken = matches!(self, Self::Woken);
                return Waited::Held(WaitEnd::Again { woken, for_ever });
            }
            Self::Not => None,
            Self::Broken(cause) => Some(cause),
        };
        Waited::Held(WaitEnd::Unannounced {
            remaining,
            for_ever,
            cause,
        })
    }
}

/// Blocks. An error is a server's refusal.
fn block(
    link: &mut Link,
    keys: &Keys,
    siblings: &Siblings,
    (span, end): (Duration, Time),
) -> Result<Blocked, Fault> {
    if span < SHORTEST {
        return Ok(Blocked::Not);
    }
    let wake = keys.wake();
    let begun = link.now();
    let mut replies = match link.exchange_within(&Block { wake, span }, span, end) {
        Ok(replies) => replies,
        Err(fault)
            if link.now().since(begun) < AT_ONCE
                && fault.is_of_a_dead_link()
                && siblings.is_cut_off() =>
        {
            return Err(fault);
        }
        // The next try will tell.
        Err(fault) => return Ok(Blocked::Broken(fault.cause)),
    };
    siblings.answered();
    let waited = link.now().since(replies.sent);
    match replies.take(0) {
        Value::ServerError(error) => {
            let fault = Fault::of_reply(BLPOP, link.server(), &error);
            // A primary that has become a replica sends its waiters away.
            if fault.is_of_a_replica() || error.code() == "UNBLOCKED" {
                link.give_up();
                return Ok(Blocked::Broken(fault.cause));
            }
            if fault.class == Class::NotRun {
                return Ok(Blocked::Not);
            }
            // A list of another type, or a server that takes whole seconds: the link is fine, and
            // it would be the same every time.
            Err(fault)
        }
        Value::Array(_) => Ok(Blocked::Woken),
        // A server that answers at once that nothing has come does not block, whatever it is.
        _ if waited < span / 2 => Ok(Blocked::Not),
        _ => Ok(Blocked::Over),
    }
}

/// The flag, and whether a wake-up lies there.
struct Announce<'a> {
    keys: &'a Keys,
    name: &'a [u8],
}

impl Request for Announce<'_> {
    fn pack(&self, batch: &mut Batch) {
        let (flag, ttl) = (self.keys.waiting().as_bytes(), Decimal::of(WAITING_TTL));
        batch.push(&[b"SET", flag, self.name, b"PX", ttl.as_bytes()]);
        batch.push(&[b"EXISTS", self.keys.wake().as_bytes()]);
    }

    fn commands(&self) -> &'static [&'static str] {
        &["SET", "EXISTS"]
    }
}

struct Block<'a> {
    wake: &'a str,
    span: Duration,
}

impl Request for Block<'_> {
    fn pack(&self, batch: &mut Batch) {
        let (seconds, millis) = (self.span.as_secs(), self.span.subsec_millis());
        let span = format!("{seconds}.{millis:03}");
        batch.push(&[b"BLPOP", self.wake.as_bytes(), span.as_bytes()]);
    }

    fn commands(&self) -> &'static [&'static str] {
        &[BLPOP]
    }
}
