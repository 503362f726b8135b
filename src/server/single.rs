//! The verbs on one server.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::address::Address;
use super::broken::Broken;
use super::call::{Call, Preface, server_error, unexpected};
use super::command::Decimal;
use super::courier::SingleCourier;
use super::errand::{Courier, Wake};
use super::fault::{Class, Fault};
use super::keys::Keys;
use super::link::{Link, Timeouts};
use super::pool::Pool;
use super::scripts;
use super::target::{Owner, Target};
use super::verbs::{Acquired, Answer, Bound, Seen, Verbs};
use crate::clock::{Clock, Time};
use crate::error::Cause;
use crate::stats::Counters;
use crate::token::Token;

/// How long a fence counter outlives the last acquisition of its lock.
const FENCE_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// One server, reached over a few links.
#[derive(Debug)]
pub(crate) struct SingleServer {
    address: Arc<Address>,
    name: Arc<str>,
    timeouts: Timeouts,
    counters: Arc<Counters>,
    links: Pool,
}

impl SingleServer {
    pub(crate) fn new(
        address: Address,
        clock: Clock,
        timeouts: Timeouts,
        max_links: usize,
        counters: Arc<Counters>,
    ) -> Self {
        // Their digests are made once in a process. Now, and not at the first call: a fork in
        // the middle of it would leave the child waiting for it for ever.
        scripts::all();
        let address = Arc::new(address);
        let name: Arc<str> = address.to_string().into();
        Self {
            links: Pool::new(
                Arc::clone(&address),
                Arc::clone(&name),
                clock,
                timeouts,
                max_links,
                Arc::clone(&counters),
            ),
            address,
            name,
            timeouts,
            counters,
        }
    }

    /// Asks a question, and once more on a new link where the first turned out to be dead: it
    /// changes nothing, so that asking twice harms nobody.
    fn ask<T>(
        &self,
        bound: Bound,
        question: impl Fn(&mut Link) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match self.links.with(bound, &question) {
            Err(fault) if fault.is_of_a_dead_link() => self.links.with(bound, &question),
            other => other,
        }
    }

    /// Runs a compare script, and believes an answer other than "ours" only from a server
    /// that says it is a primary: a replica gives the same answers without an error.
    fn compare(
        &self,
        call: Call<'_>,
        after: Option<&Broken>,
        bound: Bound,
    ) -> Result<Answer, Fault> {
        let Some(broken) = after else {
            return self.links.with(bound, |link| {
                let answer = call.run(link, &Preface::default(), bound.end)?;
                if answer.owner == Owner::Ours {
                    return Ok(answer);
                }
                // Asked before the script is run again, not after: a replica that is made
                // a primary in between must not have its zero believed.
                call.run(link, &Preface::role(), bound.end)
                    .map_err(|mut fault| {
                        fault.told_not_ours = true;
                        fault
                    })
            });
        };
        let preface = Preface::fencing_off(broken);
        self.links
            .with_fresh(bound, |link| call.run(link, &preface, bound.end))
    }
}

impl Verbs for SingleServer {
    fn acquire(&self, target: Target<'_>, bound: Bound) -> Result<Acquired, Fault> {
        self.links.with(bound, |link| {
            if target.fenced {
                acquire_fenced(link, target, bound.end)
            } else {
                acquire_plain(link, target, bound.end)
            }
        })
    }

    fn adopt(&self, target: Target<'_>, given: &Token, bound: Bound) -> Result<Acquired, Fault> {
        let (ttl, fence_ttl) = (Decimal::of(target.ttl), Decimal::of(millis(FENCE_TTL)));
        let keys = [
            target.keys.record().as_bytes(),
            target.keys.fence().as_bytes(),
        ];
        let call = Call {
            script: &scripts::ADOPT,
            keys: if target.fenced { &keys } else { &keys[..1] },
            arguments: &[
                given.expose().as_bytes(),
                target.token.expose().as_bytes(),
                ttl.as_bytes(),
                fence_ttl.as_bytes(),
            ],
            compares: true,
            draws_fence: target.fenced,
        };
        let answer = self.compare(call, None, bound)?;
        match answer.owner {
            Owner::Ours => Ok(Acquired::Taken {
                sent: answer.sent,
                fence: answer.fence,
            }),
            Owner::Gone | Owner::Another if answer.proven => Ok(Acquired::Held),
            Owner::Gone | Owner::Another => {
                Err(Fault::new(Class::NotRun, call.command(), Cause::RoleUntold))
            }
        }
    }

    fn renew(
        &self,
        target: Target<'_>,
        after: Option<&Broken>,
        bound: Bound,
    ) -> Result<Answer, Fault> {
        let ttl = Decimal::of(target.ttl);
        let record = target.keys.record().as_bytes();
        let keys = [record, target.keys.fence().as_bytes()];
        // The counter is asked for only where the acquisition's own reply was lost.
        let asks_fence = target.fenced && after.is_some();
        let call = Call {
            script: &scripts::RENEW,
            keys: if asks_fence { &keys } else { &keys[..1] },
            arguments: &[target.token.expose().as_bytes(), ttl.as_bytes()],
            compares: true,
            draws_fence: false,
        };
        self.compare(call, after, bound)
    }

    fn release(
        &self,
        target: Target<'_>,
        after: Option<&Broken>,
        bound: Bound,
    ) -> Result<Answer, Fault> {
        let call = Call {
            script: &scripts::RELEASE,
            keys: &[target.keys.record().as_bytes()],
            arguments: &[target.token.expose().as_bytes()],
            compares: true,
            draws_fence: false,
        };
        self.compare(call, after, bound)
    }

    fn read(&self, keys: &Keys, most: u64, bound: Bound) -> Result<Option<Seen>, Fault> {
        let most = Decimal::of(most);
        let call = Call {
            script: &scripts::READ,
            keys: &[keys.record().as_bytes()],
            arguments: &[most.as_bytes()],
            compares: false,
            draws_fence: false,
        };
        self.ask(bound, |link| {
            let outcome = call.evaluate(link, &Preface::role(), bound.end)?;
            // For its error alone: what a replica says of a lock proves nothing.
            outcome.proven(link, call.command())?;
            match outcome.value {
                Value::ServerError(error) => Err(server_error(link, call.command(), &error)),
                Value::Nil => Ok(None),
                Value::Array(items) => match <[Value; 2]>::try_from(items) {
                    Ok([Value::BulkString(record), Value::Int(left)]) => {
                        let remaining = u64::try_from(left).ok().map(Duration::from_millis);
                        Ok(Some(Seen { record, remaining }))
                    }
                    _ => Err(unexpected(link, call.command())),
                },
                _ => Err(unexpected(link, call.command())),
            }
        })
    }

    fn courier(&self, wake: Wake) -> Box<dyn Courier> {
        Box::new(SingleCourier::new(
            Arc::clone(&self.address),
            Arc::clone(&self.name),
            self.links.clock().clone(),
            self.timeouts,
            Arc::clone(&self.counters),
            wake,
        ))
    }

    fn ping(&self, bound: Bound) -> Result<Duration, Fault> {
        self.ask(bound, |link| {
            link.batch.clear();
            link.batch.push(&[b"HELLO"]);
            let sent = link.send("HELLO", bound.end)?;
            let reply = link.reply("HELLO")?;
            let took = self.links.clock().now().since(sent);
            match reply {
                // Whoever answers is there; only one who has not let us in is no use. A
                // server that does not know the command (a proxy) has answered as well.
                Value::ServerError(error) => {
                    let fault = Fault::of_reply("HELLO", link.server(), &error);
                    match error.code() {
                        "NOAUTH" | "WRONGPASS" => Err(fault),
                        _ if fault.class == Class::NotRun => Err(fault),
                        _ => Ok(took),
                    }
                }
                _ => Ok(took),
            }
        })
    }
}

/// `SET key token NX PX ttl`: one command takes the lock, so that no moment leaves it
/// without an expiry.
fn acquire_plain(link: &mut Link, target: Target<'_>, end: Time) -> Result<Acquired, Fault> {
    const COMMAND: &str = "SET";
    let ttl = Decimal::of(target.ttl);
    link.batch.clear();
    link.batch.push(&[
        b"SET",
        target.keys.record().as_bytes(),
        target.token.expose().as_bytes(),
        b"NX",
        b"PX",
        ttl.as_bytes(),
    ]);
    let sent = link.send(COMMAND, end)?;
    match link.reply(COMMAND)? {
        Value::Okay => Ok(Acquired::Taken { sent, fence: None }),
        Value::Nil => Ok(Acquired::Held),
        Value::ServerError(error) => Err(server_error(link, COMMAND, &error)),
        _ => Err(unexpected(link, COMMAND)),
    }
}

fn acquire_fenced(link: &mut Link, target: Target<'_>, end: Time) -> Result<Acquired, Fault> {
    let (ttl, fence_ttl) = (Decimal::of(target.ttl), Decimal::of(millis(FENCE_TTL)));
    let call = Call {
        script: &scripts::ACQUIRE_FENCED,
        keys: &[
            target.keys.record().as_bytes(),
            target.keys.fence().as_bytes(),
        ],
        arguments: &[
            target.token.expose().as_bytes(),
            ttl.as_bytes(),
            fence_ttl.as_bytes(),
        ],
        compares: false,
        draws_fence: true,
    };
    // A zero needs no proof of the role here: the script has written before it says so.
    let answer = call.run(link, &Preface::default(), end)?;
    Ok(match answer.owner {
        Owner::Ours => Acquired::Taken {
            sent: answer.sent,
            fence: answer.fence,
        },
        Owner::Gone | Owner::Another => Acquired::Held,
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
