//! One attempt to take a lock, its unknown outcome settled.

use std::sync::Arc;

use super::limits::Limits;
use crate::backoff::Backoff;
use crate::clock::Time;
use crate::error::{Cause, chain};
use crate::keep::{Record, Site, give_back, reap};
use crate::server::{Acquired, Bound, Broken, Class, Entry, Fault, Owner, WaitEnd, Waited};
use crate::token::Token;

/// What came of an attempt. A token that is given back may be sent again; one that is not
/// never is.
pub(super) enum Attempt {
    Taken(Arc<Record>),
    Held {
        token: Option<Token>,
        end: WaitEnd,
    },
    /// It has not been taken, and another try may help.
    NotNow {
        cause: Cause,
        token: Option<Token>,
        /// Whether no server is in reach, for anybody and not just for one who has little time.
        is_away: bool,
    },
    /// A command that was not answered is proven not to have taken the lock, and never to: on
    /// a new link, with a new token.
    Settled {
        cause: Cause,
    },
    /// There was no turn at the links: nothing has been sent, and nothing is wrong.
    NoTurn {
        token: Token,
        cause: Cause,
    },
    /// It has not been taken, and another try will not help.
    Never(Fault),
    /// The command may have run, may still run, or neither: the token is tainted.
    Unknown {
        cause: Cause,
        /// Whether a server was reached while it was being settled.
        reached: bool,
    },
}

/// How the lock is to be had.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// From nobody.
    Free,
    /// The same, waiting at the server for it.
    Waiting(Entry),
    /// From the holder who gave this token away.
    From(&'a Token),
}

/// Sends the lock's command once, and on a new link once more where the first link turned
/// out to be dead before the command had left.
pub(super) fn attempt(
    site: &Arc<Site>,
    token: Token,
    way: Way<'_>,
    limits: &Limits<'_>,
) -> Attempt {
    let mut reconnected = false;
    loop {
        let (target, bound) = (site.target(&token), limits.step());
        let half = site.timeouts.connect / 2;
        let whole = limits.attempt_begun.plus(half) <= bound.end;
        let answer = match way {
            Way::Free => site.server.acquire(target, bound),
            Way::From(given) => site.server.adopt(target, given, bound),
            Way::Waiting(entry) => {
                match site.server.wait(target, entry, limits.blocking(), bound) {
                    Ok(Waited::Taken { sent, fence }) => Ok(Acquired::Taken { sent, fence }),
                    Ok(Waited::Held(end)) => {
                        let token = Some(token);
                        return Attempt::Held { token, end };
                    }
                    Err(fault) => Err(fault),
                }
            }
        };
        let fault = match answer {
            Ok(Acquired::Taken { sent, fence }) => {
                let confirmed = Confirmed {
                    token,
                    fence,
                    taken: sent,
                    sent,
                    unanswered: 0,
                };
                return accept(site, confirmed, limits);
            }
            Ok(Acquired::Held) => {
                let (token, end) = (Some(token), WaitEnd::NoWait);
                return Attempt::Held { token, end };
            }
            Err(fault) => fault,
        };
        match fault.class {
            Class::NoTurn => {
                let cause = fault.cause;
                return Attempt::NoTurn { token, cause };
            }
            Class::NotSent if !reconnected && !limits.is_cancelled() => reconnected = true,
            Class::NotSent | Class::NoLink | Class::NotRun => {
                let is_away = fault.class == Class::NoLink
                    && (whole || !matches!(fault.cause, Cause::TimedOut { .. }));
                return Attempt::NotNow {
                    cause: fault.cause,
                    token: Some(token),
                    is_away,
                };
            }
            Class::Refused | Class::WrongType => return Attempt::Never(fault),
            Class::Unknown => return settle(site, token, way, fault, limits),
        }
    }
}

/// Settles a command that was sent whole and not answered: fence its link off, then ask
/// with the token. "Renewed" means that it ran and the lock is ours; anything else, behind
/// the barrier and from a primary, means that it did not take the lock and never will.
///
/// A settling that breaks off in its turn begins anew with the *same* broken link: the one
/// that carried the command is the one to fence off.
fn settle(
    site: &Arc<Site>,
    token: Token,
    way: Way<'_>,
    fault: Fault,
    limits: &Limits<'_>,
) -> Attempt {
    let mut reached = false;
    let Some(broken) = fault.broken else {
        return tainted(site, &token, fault.cause, reached);
    };
    let mut pauses = Backoff::OUTAGE.pauses();
    let mut next = site.clock.now();
    let until = limits.settle_until(next);
    // Renewals of this settling that went unanswered themselves. They need no barrier, since
    // a late one creates nothing, but they may lengthen the record.
    let mut unanswered = 0;
    while next < until && !limits.is_cancelled() {
        limits.rest(next);
        match resolve(site, &token, &broken, limits.step()) {
            Ok(Resolved::Ours { sent, fence }) => {
                site.counters.unknown_resolved.add_one();
                let confirmed = Confirmed {
                    token,
                    fence,
                    taken: limits.attempt_begun,
                    sent,
                    unanswered,
                };
                return accept(site, confirmed, limits);
            }
            Ok(Resolved::NotOurs { owner }) => {
                site.counters.unknown_resolved.add_one();
                return match (owner, way) {
                    // For an adopter the other one may be the holder who gave the lock away.
                    (Owner::Another, Way::Free | Way::Waiting(_)) => {
                        let (token, end) = (None, WaitEnd::NoWait);
                        Attempt::Held { token, end }
                    }
                    _ => Attempt::Settled { cause: fault.cause },
                };
            }
            Ok(Resolved::NoBarrier) => return tainted(site, &token, fault.cause, true),
            Err(later) => {
                let away = matches!(later.class, Class::NoLink | Class::NotSent);
                unanswered += u32::from(later.class == Class::Unknown);
                reached |= !away;
                // Whoever does not wait for a server that is away does not do so here.
                if later.class == Class::Refused || (away && !limits.outlasts_outages()) {
                    return tainted(site, &token, fault.cause, reached);
                }
                next = site.clock.now().plus(pauses.next_pause());
            }
        }
    }
    tainted(site, &token, fault.cause, reached)
}

enum Resolved {
    Ours { sent: Time, fence: Option<u64> },
    NotOurs { owner: Owner },
    NoBarrier,
}

fn resolve(site: &Site, token: &Token, broken: &Broken, bound: Bound) -> Result<Resolved, Fault> {
    let answer = site.server.renew(site.target(token), Some(broken), bound)?;
    Ok(match answer.owner {
        Owner::Ours => Resolved::Ours {
            sent: answer.sent,
            fence: answer.fence,
        },
        owner if answer.barrier && answer.proven => Resolved::NotOurs { owner },
        _ => Resolved::NoBarrier,
    })
}

/// The reaper owns the token from here on.
fn tainted(site: &Arc<Site>, token: &Token, cause: Cause, reached: bool) -> Attempt {
    site.counters.unknown_unresolved.add_one();
    say!(
        warn,
        target: "leasehold::acquire",
        "a command to acquire `{}` was sent and its outcome is not known: {}",
        site.key().escape_debug(),
        chain(&cause)
    );
    reap(site, token);
    Attempt::Unknown { cause, reached }
}

/// A lock that was confirmed.
struct Confirmed {
    token: Token,
    fence: Option<u64>,
    /// When the command that took it was sent, or earlier: `max_hold` counts from here.
    taken: Time,
    /// When the command that confirmed it was sent: validity counts from here.
    sent: Time,
    /// Renewals sent since then and not answered.
    unanswered: u32,
}

/// A lock that is confirmed when hardly anything of it is left is given back: its holder
/// would start in the danger zone.
fn accept(site: &Arc<Site>, confirmed: Confirmed, limits: &Limits<'_>) -> Attempt {
    let now = site.clock.now();
    let Confirmed {
        token,
        fence,
        taken,
        sent,
        unanswered,
    } = confirmed;
    let record = Record::new(site, token, fence, taken, sent, now);
    record.note_unanswered(unanswered);
    fit(Arc::new(record), limits)
}

/// The same for a record that may have been handed over.
pub(super) fn fit(record: Arc<Record>, limits: &Limits<'_>) -> Attempt {
    let site = &record.site;
    let left = record.deadline().since(site.clock.now());
    let danger = site.terms.danger();
    let cause = if left <= danger {
        Cause::TooLate { left, danger }
    } else if site.fenced && record.fence.is_none() {
        Cause::FenceGone
    } else {
        return Attempt::Taken(record);
    };
    match give_back(&record, limits.left()) {
        Err(error) if !error.is_lost() => {
            say!(warn, target: "leasehold::acquire", "giving back what came too late: {}", error.chain());
            // The record may stand, and whoever waits on would wait for it.
            Attempt::Unknown {
                cause,
                reached: true,
            }
        }
        // It came from a settling, so that the link is new: worth another try at once.
        _ if matches!(cause, Cause::FenceGone) => Attempt::Settled { cause },
        _ => Attempt::NotNow {
            cause,
            token: None,
            is_away: false,
        },
    }
}
