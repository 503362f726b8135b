//! Tokens that nobody holds and whose record may stand, or come to stand, all the same: they are
//! deleted by comparison until it is certain that they need not be.
//!
//! An orphan costs others a wait and never their lock: nothing here is sent but compare and
//! delete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::site::Site;
use super::task::{Due, Next, Task};
use crate::clock::{Clock, Time};
use crate::error::chain;
use crate::server::{Class, Errand, Fault, Keys, Landed, Owner, Target, Verb};
use crate::token::Token;

const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// A patient client reaps no more slowly than others once its server is back.
const LONGEST_PATIENCE: Duration = Duration::from_secs(1);

/// A token without a holder. It holds nothing of its client, which can end while it is reaped.
struct Orphan {
    keys: Keys,
    token: Token,
    ttl: u64,
    /// How long a record of it stands, from when a command lands.
    stands: Duration,
    patience: Duration,
    clock: Clock,
    /// When it was first answered with anything but "released"; 0 before that.
    answered: AtomicU64,
}

/// Hands a token to the reaper. It must never be sent in an acquisition again.
pub(crate) fn reap(site: &Arc<Site>, token: &Token) {
    let orphan: Arc<dyn Task> = Arc::new(Orphan {
        keys: Keys::new(Arc::clone(site.key())),
        token: token.clone(),
        ttl: site.terms.ttl_millis(),
        stands: site.terms.longest_standing(),
        patience: site.timeouts.command.min(LONGEST_PATIENCE),
        clock: site.clock.clone(),
        answered: AtomicU64::new(0),
    });
    let key = site.key().escape_debug();
    let number = site.next_number();
    match site.keeper.reap(number, &orphan, &*site.server) {
        Ok(None) => say!(
            debug,
            target: "leasehold::reaper",
            "reaping a record of `{key}` (fingerprint {})", token.fingerprint()
        ),
        Ok(Some(forgotten)) => {
            let target = forgotten.target();
            say!(
                warn,
                target: "leasehold::reaper",
                "too many tokens to reap: the oldest, a record of `{}` (fingerprint {}), is \
                 left to its expiry",
                target.keys.record().escape_debug(),
                target.token.fingerprint()
            );
        }
        Err(cause) => say!(
            warn,
            target: "leasehold::reaper",
            "a record of `{key}` (fingerprint {}) is left to its expiry: {}",
            token.fingerprint(),
            chain(&cause)
        ),
    }
}

impl Errand for Orphan {
    fn verb(&self) -> Verb {
        Verb::Release
    }

    fn target(&self) -> Target<'_> {
        Target {
            keys: &self.keys,
            token: &self.token,
            ttl: self.ttl,
            fenced: false,
        }
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

impl Task for Orphan {
    fn due(&self) -> Time {
        self.clock.now()
    }

    /// Whoever waits for it waits; a lease does not.
    fn urgency(&self) -> Time {
        Time::MAX
    }

    fn fell_due(&self, _now: Time) -> Due {
        Due::Send
    }

    /// Until it was released, or until one ttl after the first other answer: what had landed by
    /// that answer has run out by then. What lands later still (a network that held a command for
    /// that long) nobody can wait for; it costs others one ttl. A server that cannot be reached
    /// does not end it. One that refuses has answered.
    fn landed(&self, landed: Landed) -> Next {
        let key = self.keys.record().escape_debug();
        match &landed.outcome {
            Ok(Owner::Ours) => {
                say!(
                    debug,
                    target: "leasehold::reaper",
                    "a record of `{key}` (fingerprint {}) was deleted", self.token.fingerprint()
                );
                return Next::Over;
            }
            Ok(Owner::Gone | Owner::Another) => {}
            Err(fault) => {
                say!(
                    debug,
                    target: "leasehold::reaper",
                    "deleting a record of `{key}` (fingerprint {}): {}",
                    self.token.fingerprint(),
                    chain(&fault.cause)
                );
                if fault.class != Class::Refused {
                    return Next::Again;
                }
            }
        }
        let now = self.clock.now();
        let first = self
            .answered
            .compare_exchange(0, now.as_nanos(), Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|first| first);
        if first == 0 {
            return Next::Again;
        }
        let since = now.since(Time::from_nanos(first));
        if self.stands <= since {
            return Next::Over;
        }
        // Asked again after as long as it has been since, so that the pauses double; a ttl of a
        // day needs no question every second.
        let most = self.patience.max(self.stands / 100);
        Next::At(now.plus(since.min(most).max(LEAST_PAUSE)))
    }

    fn missed(&self, _fault: &Fault) {}
}
