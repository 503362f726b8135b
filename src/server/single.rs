//! The verbs on one server.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::address::Address;
use super::broken::{Broken, Fence};
use super::call::{Alone, Call, Carrier, fence_off};
use super::command::Decimal;
use super::courier::SingleCourier;
use super::errand::{Courier, Wake};
use super::fault::{Class, Fault};
use super::keys::{FENCE_TTL, Keys};
use super::link::Timeouts;
use super::plain::{Hello, SET, Take};
use super::pool::Pool;
use super::request::{Replies, Request};
use super::route::Route;
use super::scripts;
use super::siblings::{Siblings, WAKE_TTL};
use super::target::{Owner, Target};
use super::verbs::{Acquired, Answer, Blocking, Bound, Entry, Seen, Verbs, WaitEnd, Waited};
use super::waiting;
use crate::clock::Clock;
use crate::error::Cause;
use crate::stats::Counters;
use crate::token::Token;

/// Links kept when nobody waits on them any more. Those of the others are closed.
const MOST_IDLE_WAITING: usize = 4;

/// One server, reached over a few links.
pub(crate) struct SingleServer {
    route: Route,
    links: Pool,
    /// For those who block until they are woken, each on a link of its own for that time.
    waiting_links: Pool,
}

impl SingleServer {
    pub(crate) fn new(
        address: Address,
        clock: Clock,
        timeouts: Timeouts,
        (max_links, max_waiting_links): (usize, usize),
        counters: Arc<Counters>,
    ) -> Self {
        // Their digests are made once in a process. Now, and not at the first call: a fork in
        // the middle of it would leave the child waiting for it for ever.
        scripts::all();
        let route = Route {
            server: address.to_string().into(),
            address: Arc::new(address),
            siblings: Arc::new(Siblings::new(clock.clone())),
            clock,
            timeouts,
            counters,
        };
        Self {
            links: Pool::new(route.clone(), max_links, max_links),
            waiting_links: Pool::new(route.clone(), max_waiting_links, MOST_IDLE_WAITING),
            route,
        }
    }

    fn shared(&self, bound: Bound) -> Shared<'_> {
        Shared {
            links: &self.links,
            server: &self.route.server,
            bound,
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
            let answer = call.run(false, None, &mut self.shared(bound))?;
            if answer.owner == Owner::Ours {
                return Ok(answer);
            }
            // Asked before the script is run again, not after: a replica that is made
            // a primary in between must not have its zero believed.
            return call
                .run(true, None, &mut self.shared(bound))
                .map_err(|mut fault| {
                    fault.told_not_ours = true;
                    fault
                });
        };
        match broken.fence(&self.route.clock, bound.begin) {
            Fence::Yours(fencer) => {
                // The impatience of one says nothing to the others.
                let half = self.route.timeouts.connect / 2;
                let is_patient = self.route.clock.now().plus(half) <= bound.end;
                let mut is_over = false;
                self.links
                    .with_fresh(bound, |link| {
                        fence_off(&fencer, link, bound.end)?;
                        is_over = true;
                        let end = bound.end;
                        call.run(true, after, &mut Alone { link, end })
                    })
                    .inspect_err(|fault| {
                        let is_general = fault.class == Class::NotRun
                            || (fault.class == Class::NoLink && is_patient);
                        if !is_over && is_general {
                            fencer.failed(fault.class, self.route.clock.now());
                        }
                    })
            }
            Fence::Over => call.run(true, after, &mut self.shared(bound)),
            Fence::TooLate => Err(self.route.away(Class::NoTurn)),
            Fence::Failed(class) => Err(self.route.away(class)),
        }
    }

    /// Runs a call with its sibling keys, and without them where the user has no rights to those.
    fn with_siblings<T>(&self, run: impl Fn(bool) -> Result<T, Fault>) -> Result<T, Fault> {
        if !self.route.siblings.may_wake() {
            return run(false);
        }
        match run(true) {
            Err(fault) if fault.class == Class::Refused => {
                let answer = run(false)?;
                self.route.siblings.refused_to_wake(&fault);
                Ok(answer)
            }
            Ok(answer) => {
                self.route.siblings.granted();
                Ok(answer)
            }
            Err(fault) => Err(fault),
        }
    }
}

/// Asks a question, and once more on a new link where the first turned out to be dead: it changes
/// nothing, so that asking twice harms nobody.
fn ask<T>(question: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
    match question() {
        Err(fault) if fault.is_of_a_dead_link() => question(),
        other => other,
    }
}

/// The links that all callers share.
struct Shared<'a> {
    links: &'a Pool,
    server: &'a str,
    bound: Bound,
}

impl Carrier for Shared<'_> {
    fn carry(&mut self, request: &dyn Request) -> Result<Replies, Fault> {
        self.links.run(self.bound, request)
    }

    fn server(&self) -> &str {
        self.server
    }
}

impl Verbs for SingleServer {
    fn acquire(&self, target: Target<'_>, bound: Bound) -> Result<Acquired, Fault> {
        if target.fenced {
            self.acquire_fenced(target, bound)
        } else {
            self.acquire_plain(target, bound)
        }
    }

    fn wait(
        &self,
        target: Target<'_>,
        entry: Entry,
        limits: Blocking,
        bound: Bound,
    ) -> Result<Waited, Fault> {
        if !self.route.siblings.may_wait() {
            return Ok(Waited::Held(WaitEnd::Untried));
        }
        let siblings = &*self.route.siblings;
        let waited = self.waiting_links.with_spare(bound, |link| match entry {
            Entry::Try => waiting::wait(link, target, siblings, limits),
            Entry::Behind => waiting::wait_behind(link, target, siblings, limits),
            Entry::Quietly => Ok(waiting::wait_quietly(link, target, siblings, limits)),
        });
        match waited {
            // All waiting links are in use.
            None => Ok(Waited::Held(WaitEnd::Untried)),
            Some(Ok(Ok(waited))) => Ok(waited),
            Some(Ok(Err(refusal))) => {
                self.route.siblings.refused_to_wait(&refusal);
                Ok(Waited::Held(WaitEnd::Untried))
            }
            // Perhaps the server has just no room for one more. If it is away, whoever polls
            // over the other links will hear of it.
            Some(Err(fault)) if fault.class == Class::NoLink => {
                self.route.siblings.no_room();
                Ok(Waited::Held(WaitEnd::Untried))
            }
            Some(Err(fault)) => Err(fault),
        }
    }

    fn adopt(&self, target: Target<'_>, given: &Token, bound: Bound) -> Result<Acquired, Fault> {
        let (ttl, fence_ttl) = (Decimal::of(target.ttl), Decimal::of(FENCE_TTL));
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
        let (keys, token) = (target.keys, target.token.expose().as_bytes());
        let wake_ttl = Decimal::of(WAKE_TTL);
        let keys = keys.of_release();
        let arguments = [token, wake_ttl.as_bytes(), self.route.siblings.name()];
        self.with_siblings(|siblings| {
            let call = Call {
                script: &scripts::RELEASE,
                keys: if siblings { &keys } else { &keys[..1] },
                arguments: if siblings {
                    &arguments
                } else {
                    &arguments[..1]
                },
                compares: true,
                draws_fence: false,
            };
            self.compare(call, after, bound)
        })
    }

    fn read(&self, keys: &Keys, most: u64, bound: Bound) -> Result<Option<Seen>, Fault> {
        let most = Decimal::of(most);
        self.with_siblings(|siblings| {
            let keys = [keys.record(), keys.waiting()].map(str::as_bytes);
            let call = Call {
                script: &scripts::READ,
                keys: if siblings { &keys } else { &keys[..1] },
                arguments: &[most.as_bytes()],
                compares: false,
                draws_fence: false,
            };
            ask(|| self.see(&call, bound))
        })
    }

    fn courier(&self, wake: Wake) -> Box<dyn Courier> {
        Box::new(SingleCourier::new(self.route.clone(), wake))
    }

    fn ping(&self, bound: Bound) -> Result<Duration, Fault> {
        ask(|| {
            let mut replies = self.links.run(bound, &Hello)?;
            let took = self.route.clock.now().since(replies.sent);
            match replies.take(0) {
                // Whoever answers is there; only one who has not let us in is no use. A
                // server that does not know the command (a proxy) has answered as well.
                Value::ServerError(error) => {
                    let fault = Fault::of_reply("HELLO", &self.route.server, &error);
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

impl SingleServer {
    fn acquire_plain(&self, target: Target<'_>, bound: Bound) -> Result<Acquired, Fault> {
        let mut replies = self.links.run(bound, &Take(target))?;
        match replies.take(0) {
            Value::Okay => Ok(Acquired::Taken {
                sent: replies.sent,
                fence: None,
            }),
            Value::Nil => Ok(Acquired::Held),
            Value::ServerError(error) => Err(replies.refused(SET, &self.route.server, &error)),
            _ => Err(replies.unexpected(SET, &self.route.server)),
        }
    }

    fn acquire_fenced(&self, target: Target<'_>, bound: Bound) -> Result<Acquired, Fault> {
        let (ttl, fence_ttl) = (Decimal::of(target.ttl), Decimal::of(FENCE_TTL));
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
        let answer = call.run(false, None, &mut self.shared(bound))?;
        Ok(match answer.owner {
            Owner::Ours => Acquired::Taken {
                sent: answer.sent,
                fence: answer.fence,
            },
            Owner::Gone | Owner::Another => Acquired::Held,
        })
    }

    fn see(&self, call: &Call<'_>, bound: Bound) -> Result<Option<Seen>, Fault> {
        let mut carrier = self.shared(bound);
        let outcome = call.evaluate(true, &mut carrier)?;
        // For its error alone: what a replica says of a lock proves nothing.
        outcome.proven(call.command())?;
        let items = match &outcome.value {
            Value::ServerError(error) => return Err(outcome.refused(call.command(), error)),
            Value::Nil => return Ok(None),
            Value::Array(items) => &items[..],
            _ => &[],
        };
        let [
            Value::BulkString(record),
            Value::Int(left),
            Value::Int(waits),
        ] = items
        else {
            return Err(outcome.unexpected(call.command()));
        };
        Ok(Some(Seen {
            record: record.clone(),
            remaining: u64::try_from(*left).ok().map(Duration::from_millis),
            others_wait: (0 <= *waits).then_some(*waits != 0),
        }))
    }
}
