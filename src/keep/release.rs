//! Giving a lock back, with every outcome accounted for.

use std::sync::Arc;
use std::time::Duration;

use super::heirs::{Passed, hand_on};
use super::kept::let_go;
use super::reaper::reap;
use super::record::{Before, Record};
use super::site::Site;
use crate::backoff::{Backoff, pause};
use crate::error::{Action, Cause, Error, Kind, LostBy};
use crate::server::{Answer, Bound, Broken, Class, Owner, Timeouts};
use crate::token::Token;

/// Releases within τ + connect timeout + 2 × command timeout.
///
/// `Ok` only if the record was deleted by us. Never an unconditional delete.
pub(crate) fn release(record: &Record) -> Result<(), Error> {
    let (result, before) = delete(record, Duration::MAX, true);
    match &result {
        Ok(()) => record.site.counters.released.add_one(),
        // A loss that somebody has seen before is counted and logged already.
        Err(error) if error.is_lost() && before.deadline.is_some() => {
            record.site.counters.lost.add_one();
            say!(
                warn,
                target: "leasehold::release",
                "{error} (fingerprint {}); its record was not touched",
                record.token.fingerprint()
            );
        }
        Err(_) => {}
    }
    result
}

/// Gives back, within `most` and never longer than [`release`] takes, what was never handed
/// out: it is neither a lease released nor one lost.
pub(crate) fn give_back(record: &Record, most: Duration) -> Result<(), Error> {
    delete(record, most, false).0
}

/// Releases, by its token alone, what another handle or another process has taken.
pub(crate) fn release_given(site: &Arc<Site>, token: Token) -> Result<(), Error> {
    let now = site.clock.now();
    let Timeouts { connect, command } = site.timeouts;
    let span = connect.saturating_add(command.saturating_mul(2));
    Release {
        record: &Record::new(site, token, None, now, now, now),
        before: Before {
            deadline: None,
            lost: None,
        },
        unanswered: None,
        told_not_ours: false,
        is_given: true,
    }
    .settle(Bound::within(now, span, command).urgent())
    .map(drop)
}

/// Ends the lease without a release: its token is given away.
pub(crate) fn give_away(record: &Record) {
    let site = &record.site;
    let now = site.clock.now();
    record.give_away(now);
    let_go(record, now.plus(site.terms.attempt()));
    site.heirs.vacate(site.key(), record.number(), false);
}

fn delete(record: &Record, most: Duration, to_heir: bool) -> (Result<(), Error>, Before) {
    let site = &record.site;
    let span = site
        .terms
        .attempt()
        .saturating_add(site.timeouts.connect)
        .saturating_add(site.timeouts.command.saturating_mul(2))
        .min(most);
    let now = site.clock.now();
    // Before anything is sent: from here on nobody relies on the lease, so that a reply
    // lost on the way cannot leave a holder behind.
    let before = record.begin_release(now);
    let (key, number) = (site.key(), record.number());
    let to_heir = to_heir && before.lost.is_none();
    let is_alone = site.heirs.depart_alone(key, number);
    let heir = if is_alone {
        None
    } else {
        let leaves_by = now.plus(span).min(record.stands_until());
        site.heirs.depart(key, number, leaves_by, to_heir)
    };
    // A renewal that came after the deletion would find nothing; one that is sent after this
    // call has returned would be a surprise.
    let_go(record, now.plus(site.terms.attempt().min(span)));
    let bound = Bound::within(now, span, site.timeouts.command).urgent();
    let mut release = Release {
        record,
        before,
        unanswered: None,
        told_not_ours: false,
        is_given: false,
    };
    let passed = heir.map_or(Passed::Not(None), |heir| hand_on(record, &heir, bound));
    let result = match passed {
        Passed::On => return (Ok(()), before),
        Passed::InDoubt { cause, longer } => {
            return (Err(release.unknown(cause, longer)), before);
        }
        Passed::Not(unanswered) => {
            // What was to hand it on is as good as a release: if it ran, ours has gone by it.
            if let Some(fault) = unanswered {
                release.told_not_ours = fault.told_not_ours;
                release.unanswered = Some((fault.cause, fault.broken));
            }
            release.settle(bound)
        }
    };
    let others_wait = matches!(result, Ok(OthersWait(true)));
    if !is_alone || others_wait {
        site.heirs.vacate(key, number, others_wait);
    }
    (result.map(drop), before)
}

/// Whether another process waits for what was released.
struct OthersWait(bool);

struct Release<'a> {
    record: &'a Record,
    before: Before,
    /// A release of this very call that was sent whole and not answered.
    unanswered: Option<(Cause, Option<Broken>)>,
    /// The server has said "not yours" before a reply was lost: then our own deletion is not
    /// what a later look finds.
    told_not_ours: bool,
    /// All that is known of the lease is its token: neither its deadline nor its ttl.
    is_given: bool,
}

impl Release<'_> {
    fn settle(mut self, bound: Bound) -> Result<OthersWait, Error> {
        let end = bound.end;
        let site = &self.record.site;
        let mut pauses = Backoff::OUTAGE.pauses();
        loop {
            let broken = self
                .unanswered
                .as_ref()
                .and_then(|(_, broken)| broken.as_ref());
            let target = site.target(&self.record.token);
            let fault = match site.server.release(target, broken, bound) {
                Ok(answer) => return self.judge(answer),
                Err(fault) => fault,
            };
            if let Some(by) = self.before.lost
                && self.record.stands_until() <= site.clock.now()
                && !matches!(fault.class, Class::Refused | Class::WrongType)
            {
                // It was over before this began, and its record cannot stand any more. One
                // try was made, for the sake of a server whose clock stands still.
                return Err(Error::lost(site.key(), by));
            }
            match fault.class {
                Class::Unknown => {
                    self.told_not_ours |= fault.told_not_ours;
                    let earlier = self.unanswered.take();
                    // The second try is made at once, on a new link; who fails that as well
                    // will not do better for being asked in a loop.
                    let now = site.clock.now();
                    let next = if earlier.is_some() {
                        now.plus(pauses.next_pause())
                    } else {
                        now
                    };
                    if end <= next {
                        return Err(self.unknown(fault.cause, Duration::ZERO));
                    }
                    // The first broken link is the one to fence off: it may carry the
                    // release that did the work. A second one carries the same script, which
                    // harms nobody.
                    let broken = earlier.and_then(|(_, broken)| broken).or(fault.broken);
                    self.unanswered = Some((fault.cause, broken));
                    pause(&site.clock, next);
                }
                Class::Refused | Class::WrongType => {
                    return Err(match self.unanswered.take() {
                        Some(_) => self.unknown(fault.cause, Duration::ZERO),
                        None => site.error(Action::Release, fault),
                    });
                }
                Class::NoTurn | Class::NoLink | Class::NotSent | Class::NotRun => {
                    let next = site.clock.now().plus(pauses.next_pause());
                    if end <= next {
                        return Err(self.unknown(fault.cause, Duration::ZERO));
                    }
                    pause(&site.clock, next);
                }
            }
        }
    }

    fn judge(mut self, answer: Answer) -> Result<OthersWait, Error> {
        let site = &self.record.site;
        let unanswered = self.unanswered.take();
        if answer.owner == Owner::Ours {
            if unanswered.is_some() {
                site.counters.unknown_resolved.add_one();
            }
            return Ok(OthersWait(answer.others_wait));
        }
        let in_time = self
            .before
            .deadline
            .is_some_and(|deadline| site.clock.now() < deadline);
        let Some((cause, _)) = unanswered else {
            if answer.proven || !(in_time || self.is_given) {
                return Err(Error::lost(site.key(), self.lost_by(answer.owner)));
            }
            // The record may stand on the primary that this server is perhaps a replica of.
            return Err(self.unknown(Cause::RoleUntold, Duration::ZERO));
        };
        if self.told_not_ours && answer.proven && answer.shares_history {
            return Err(Error::lost(site.key(), self.lost_by(answer.owner)));
        }
        if answer.proven && in_time && answer.shares_history {
            // Nothing but our own release can have removed it: it could not expire yet,
            // whoever holds the key now has found it free, and the server is not one that
            // was started anew or promoted, and came back without it.
            site.counters.unknown_resolved.add_one();
            return Ok(OthersWait(false));
        }
        Err(self.unknown(cause, Duration::ZERO))
    }

    fn lost_by(&self, owner: Owner) -> LostBy {
        let now = self.record.site.clock.now();
        match (self.before.lost, owner) {
            (Some(by), _) => by,
            // Nobody renews what is released.
            (None, _) if self.before.deadline.is_some_and(|deadline| deadline <= now) => {
                LostBy::DuringRelease
            }
            (None, Owner::Another) => LostBy::TakenOver,
            (None, _) => LostBy::Vanished,
        }
    }

    /// Not settled: our record may stand to its end, and what it was to make room for `longer`.
    fn unknown(&self, cause: Cause, longer: Duration) -> Error {
        let site = &self.record.site;
        site.counters.unknown_unresolved.add_one();
        // It goes on where nobody waits for it.
        reap(site, &self.record.token);
        let kind = Kind::Unknown {
            action: Action::Release,
            key: Arc::clone(site.key()),
            until: if self.is_given {
                None
            } else {
                site.clock
                    .instant_of(self.record.stands_until().plus(longer))
            },
        };
        Error::new(kind, Some(cause))
    }
}
