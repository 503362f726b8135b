//! Handing a lock on to a neighbour: a release that sets the next local waiter's record in the same
//! step.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::claim::{Claim, Handed, HeirSeat, Heirs, Proof};
use super::reaper::reap;
use super::record::Record;
use super::site::Site;
use crate::backoff::{Backoff, pause};
use crate::clock::Time;
use crate::error::Cause;
use crate::queue::Tenancy;
use crate::server::{Acquired, Bound, Class, Fault, Owner, Target};
use crate::token::Token;

/// A claim to a place on a server, and the record that it may be given.
pub(crate) struct Bid {
    site: Arc<Site>,
    token: Token,
    record: Mutex<Option<Arc<Record>>>,
}

impl Bid {
    /// `token` must be fresh, and sent nowhere so far.
    pub(crate) fn new(site: &Arc<Site>, token: Token) -> Self {
        Self {
            site: Arc::clone(site),
            token,
            record: Mutex::new(None),
        }
    }

    pub(crate) const fn token(&self) -> &Token {
        &self.token
    }

    /// The record, once it was handed over.
    pub(crate) fn take(&self) -> Option<Arc<Record>> {
        self.record.lock().take()
    }
}

impl Claim for Bid {
    fn target(&self) -> Target<'_> {
        self.site.target(&self.token)
    }

    fn longest_standing(&self) -> Duration {
        self.site.terms.longest_standing()
    }

    fn install(&self, fence: Option<u64>, proof: Proof) -> Option<(u64, Weak<dyn Tenancy>)> {
        // A lease without its fence is not handed out: its counter was gone when it was asked for.
        if self.site.fenced && fence.is_none() {
            return None;
        }
        let Proof {
            taken,
            sent,
            unanswered,
        } = proof;
        let now = self.site.clock.now();
        let record = Record::new(&self.site, self.token.clone(), fence, taken, sent, now);
        record.note_unanswered(unanswered);
        let record = Arc::new(record);
        let tenancy = tenancy(&record);
        *self.record.lock() = Some(record);
        Some(tenancy)
    }

    fn give_up(&self) {
        self.record.lock().take();
        reap(&self.site, &self.token);
    }
}

impl Tenancy for Record {
    fn ends(&self) -> Time {
        self.deadline()
    }
}

/// Makes known in this process that its key is held here.
pub(crate) fn occupy(record: &Arc<Record>) {
    let (number, tenancy) = tenancy(record);
    let site = &record.site;
    site.heirs.occupy(site.key(), number, tenancy);
}

fn tenancy(record: &Arc<Record>) -> (u64, Weak<dyn Tenancy>) {
    let weak: Weak<Record> = Arc::downgrade(record);
    (record.number(), weak)
}

/// What came of it.
pub(super) enum Passed {
    /// The record is the heir's, or was his: it is not ours any more, by our own doing.
    On,
    /// It was not handed on: an ordinary release is due. With what befell the command that was to do
    /// it where that went unanswered: nothing of it can run any more, but it may have run.
    Not(Option<Fault>),
    /// Nobody knows: the heir's token is the reaper's, and so must ours be. His record can stand for
    /// `longer`, once ours has stood to its end.
    InDoubt { cause: Cause, longer: Duration },
}

/// A lock that was promised to a neighbour. He waits for what comes of it, and for nothing else.
struct Promise<'a> {
    record: &'a Record,
    heir: Option<Arc<HeirSeat>>,
}

impl Promise<'_> {
    fn heirs(&self) -> (&Heirs, &str) {
        let site = &self.record.site;
        (&site.heirs, site.key())
    }

    /// It was not to be: he is in front again.
    fn take_back(mut self) {
        if let Some(heir) = self.heir.take() {
            let (heirs, key) = self.heirs();
            heirs.disappoint(key, heir);
        }
    }

    /// The record is his.
    fn keep(mut self, fence: Option<u64>, proof: Proof) {
        let Some(heir) = self.heir.take() else {
            return;
        };
        let Some(tenancy) = heir.claim.install(fence, proof) else {
            self.doubt(&heir, Cause::FenceGone);
            return;
        };
        let (heirs, key) = self.heirs();
        if heirs.hand(key, &heir, tenancy, Handed::Yours).is_err() {
            // His time was over long ago, and so he has gone: nobody else may hold it for him.
            heir.claim.give_up();
        }
    }

    /// Nobody knows whether it is his.
    fn leave_in_doubt(mut self, cause: Cause) {
        if let Some(heir) = self.heir.take() {
            self.doubt(&heir, cause);
        }
    }

    fn doubt(&self, heir: &HeirSeat, cause: Cause) {
        heir.claim.give_up();
        let (heirs, key) = self.heirs();
        heirs.leave_in_doubt(key, heir, Handed::InDoubt(cause));
    }
}

impl Drop for Promise<'_> {
    /// It was kept or taken back, unless its giver unwinds.
    fn drop(&mut self) {
        if let Some(heir) = self.heir.take() {
            reap(&self.record.site, &self.record.token);
            self.doubt(&heir, Cause::HandOver);
        }
    }
}

/// Hands the lock to `heir`, to whom it was promised, in one step on the server: compare with our
/// token, then set his. Whatever comes of it, he knows.
pub(super) fn hand_on(record: &Record, heir: &Arc<HeirSeat>, bound: Bound) -> Passed {
    let promise = Promise {
        record,
        heir: Some(Arc::clone(heir)),
    };
    let claim = &heir.claim;
    let server = &record.site.server;
    let taken = record.site.clock.now();
    let fault = match server.adopt(claim.target(), &record.token, bound) {
        Ok(Acquired::Taken { sent, fence }) => {
            let unanswered = 0;
            promise.keep(
                fence,
                Proof {
                    taken,
                    sent,
                    unanswered,
                },
            );
            return Passed::On;
        }
        Err(fault) if fault.class == Class::Unknown => fault,
        // Nothing has been set: not ours any more, not run, or not sent.
        Ok(Acquired::Held) | Err(_) => {
            promise.take_back();
            return Passed::Not(None);
        }
    };
    // The command may have run, or may yet. Behind a barrier the record tells which: only the
    // heir's token is asked for, since ours alone would leave a hand-over that lands late.
    let mut pauses = Backoff::OUTAGE.pauses();
    let mut unanswered = 0;
    while let Some(broken) = &fault.broken {
        match server.renew(claim.target(), Some(broken), bound) {
            Ok(answer) if answer.owner == Owner::Ours => {
                record.site.counters.unknown_resolved.add_one();
                let proof = Proof {
                    taken,
                    sent: answer.sent,
                    unanswered,
                };
                promise.keep(answer.fence, proof);
                return Passed::On;
            }
            Ok(answer) if answer.barrier && answer.proven => {
                promise.take_back();
                return Passed::Not(Some(fault));
            }
            Ok(_) => break,
            Err(later) => {
                unanswered += u32::from(later.class == Class::Unknown);
                let next = record.site.clock.now().plus(pauses.next_pause());
                if later.class == Class::Refused || bound.end <= next {
                    break;
                }
                pause(&record.site.clock, next);
            }
        }
    }
    promise.leave_in_doubt(fault.cause.clone());
    // What may still run finds our record until its end, and sets his for a ttl; and each renewal of
    // his that went unanswered may lengthen that by another.
    let longer = claim.longest_standing().saturating_mul(unanswered + 1);
    Passed::InDoubt {
        cause: fault.cause,
        longer,
    }
}
