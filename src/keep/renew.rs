//! Lengthening a lease, and asking the server whose it is, at the caller's request.

use super::record::Record;
use crate::clock::Time;
use crate::error::{Action, Error, LostBy};
use crate::server::{Bound, Class, Fault, Owner};

/// Renews now: one attempt of at most τ and, where that was not confirmed, a second one on
/// a link of its own.
pub(crate) fn renew(record: &Record) -> Result<(), Error> {
    let site = &record.site;
    let mut first: Option<Fault> = None;
    loop {
        record.held()?;
        let attempt = site.terms.attempt();
        let bound = Bound::within(site.clock.now(), attempt, attempt / 2);
        let target = site.target(&record.token);
        let fault = match site.server.renew(target, None, bound) {
            Ok(answer) => return judge(record, answer.owner, answer.sent),
            Err(fault) => fault,
        };
        site.counters.renewals_failed.add_one();
        if fault.class == Class::Unknown {
            // It needs no barrier: landing late, a renewal finds our record and lengthens
            // it, or finds none and does nothing.
            record.note_unanswered(1);
        }
        // What an earlier try may have done is said even if the later one was not sent.
        match first.take() {
            None if matches!(fault.class, Class::Refused | Class::WrongType) => {
                return Err(site.error(Action::Renew, fault));
            }
            None => first = Some(fault),
            Some(earlier) if earlier.class == Class::Unknown => {
                return Err(site.error(Action::Renew, earlier));
            }
            Some(_) => return Err(site.error(Action::Renew, fault)),
        }
    }
}

fn judge(record: &Record, owner: Owner, sent: Time) -> Result<(), Error> {
    let site = &record.site;
    let answer = answered(record, owner, sent, site.clock.now());
    site.counters.renewal(answer.is_ok());
    answer.map_err(|by| Error::lost(site.key(), by))
}

/// What the answer to a renewal does to a lease.
pub(super) fn answered(record: &Record, owner: Owner, sent: Time, now: Time) -> Result<(), LostBy> {
    match owner {
        Owner::Ours => record.confirm(sent, now),
        // Where the server does not tell its role, an answer of zero counts here: the
        // holder who stops for nothing has lost less than the one who goes on for nothing.
        Owner::Gone => Err(record.lose(LostBy::Vanished)),
        Owner::Another => Err(record.lose(LostBy::TakenOver)),
    }
}

/// Asks the server whether the record is still ours, and ends the lease if it is not.
pub(crate) fn verify(record: &Record) -> Result<(), Error> {
    let site = &record.site;
    record.held()?;
    let span = site.timeouts.connect.saturating_add(site.timeouts.command);
    let bound = Bound::within(site.clock.now(), span, site.timeouts.command);
    let ours = record.token.expose().as_bytes();
    // One byte more than ours tells a longer record from it.
    let most = ours.len() as u64 + 1;
    let by = match site.server.read(&site.keys, most, bound) {
        Ok(Some(seen)) if seen.record == ours => {
            return record.held().map(drop);
        }
        Ok(Some(_)) => LostBy::TakenOver,
        Ok(None) => LostBy::Vanished,
        Err(fault) if fault.class == Class::WrongType => LostBy::TakenOver,
        Err(fault) => return Err(site.error(Action::Read, fault)),
    };
    Err(Error::lost(site.key(), record.lose(by)))
}
