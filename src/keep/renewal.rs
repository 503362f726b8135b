//! What the background renews a lease by: when it is due, and what an answer means for it.

use std::sync::Arc;
use std::time::Duration;

use super::reaper;
use super::record::{Record, Standing};
use super::renew::answered;
use super::task::{Due, Next, Task};
use crate::clock::Time;
use crate::error::{Action, LostBy};
use crate::server::{Class, Errand, Fault, Landed, Owner, Target, Verb};

impl Errand for Record {
    fn verb(&self) -> Verb {
        Verb::Renew
    }

    fn target(&self) -> Target<'_> {
        self.site.target(&self.token)
    }

    fn patience(&self) -> Duration {
        self.site.terms.attempt()
    }

    fn is_wanted(&self) -> bool {
        !self.has_ended()
    }
}

impl Task for Record {
    /// A lease whose deadline stands at its cap can be renewed no further, and is seen to when it
    /// is over.
    fn due(&self) -> Time {
        let terms = &self.site.terms;
        let deadline = self.deadline();
        match terms.renew_every() {
            Some(renew_every) if deadline < self.cap() => {
                // When the last confirmation was sent for.
                let sent = deadline.minus(terms.validity());
                sent.plus(renew_every).min(self.cap())
            }
            _ => self.cap(),
        }
    }

    fn urgency(&self) -> Time {
        self.deadline()
    }

    fn fell_due(&self, now: Time) -> Due {
        match self.standing(now) {
            Standing::Held { .. } | Standing::Danger { .. } => {}
            Standing::Lost(LostBy::MaxHold) => {
                // Its time is over while the server may keep the record for another ttl.
                reaper::reap(&self.site, &self.token);
                return Due::Over;
            }
            Standing::Lost(_) | Standing::Released(_) => return Due::Over,
        }
        let due = self.due();
        if now < due {
            Due::Later(due)
        } else {
            Due::Send
        }
    }

    fn landed(&self, landed: Landed) -> Next {
        let now = self.site.clock.now();
        self.troubles.miss(false);
        let (late, sent) = (landed.late, landed.sent);
        let next = self.judge(landed.outcome, sent, late, now);
        if late {
            // It had been noted as unanswered. After the judgement, which notes when it was read:
            // the bound of the record's standing must not come out too early in between.
            self.note_answered();
        }
        next
    }

    /// Told and counted once until it can be sent again: a port that refuses is knocked at often.
    fn missed(&self, fault: &Fault) {
        if !self.troubles.is_missed() {
            let (class, cause) = (fault.class, fault.cause.clone());
            self.failed(Fault::new(class, fault.command, cause));
            self.troubles.miss(true);
        }
    }
}

impl Record {
    fn judge(&self, outcome: Result<Owner, Fault>, sent: Time, late: bool, now: Time) -> Next {
        let owner = match outcome {
            Ok(owner) => owner,
            Err(fault) => {
                if fault.class == Class::Unknown {
                    // It needs no barrier: landing late, a renewal finds our record and
                    // lengthens it, or finds none and does nothing.
                    self.note_unanswered(1);
                }
                // One that was not sent because the lease is over is no failure.
                if !self.has_ended() {
                    self.failed(fault);
                }
                return Next::Again;
            }
        };
        let is_ours = owner == Owner::Ours;
        let answer = answered(self, owner, sent, now);
        // A late one has been counted already, as one that failed; one that a release has
        // overtaken is neither.
        let parted = is_ours && matches!(answer, Err(LostBy::Released | LostBy::GivenAway));
        if !late && !parted {
            self.site.counters.renewal(answer.is_ok());
        }
        match answer {
            Ok(()) => Next::At(self.due()),
            // What has to be done about an end is done when it falls due.
            Err(_) if is_ours => Next::At(now),
            Err(_) => Next::Over,
        }
    }

    fn failed(&self, fault: Fault) {
        let site = &self.site;
        site.counters.renewal(false);
        // Seen here, so that it is counted where nobody asks.
        self.standing(site.clock.now());
        let refused = fault.class == Class::Refused;
        let error = Arc::new(site.error(Action::Renew, fault));
        let level = if refused && self.troubles.is_first_refusal() {
            log::Level::Warn
        } else {
            log::Level::Debug
        };
        say!(
            log,
            target: "leasehold::renew",
            level,
            "{} (fingerprint {})",
            error.chain(),
            self.token.fingerprint()
        );
        self.troubles.failed(error);
    }
}
