//! A lock, and the family of calls that take it.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::acquire::{self, Canceller, Patience};
use crate::error::{Error, Kind};
use crate::keep::{self, Record, Site};
use crate::lease::Lease;
use crate::notice::{Hooks, announced};
use crate::token::Token;

/// A name on a server plus options. It holds nothing by itself: the `acquire` family gives
/// a [`Lease`]. Clones share everything and are cheap.
///
/// **It is not reentrant.** A thread that holds the lock and acquires it again waits for
/// itself, until its lease is over; there is no owner but the token.
///
/// | method | while others hold the lock | while no server is in reach |
/// |---|---|---|
/// | [`try_acquire`](Self::try_acquire) | `None` at once | error at once |
/// | [`acquire`](Self::acquire) | waits without limit | error as soon as one reconnect has failed |
/// | [`acquire_timeout`](Self::acquire_timeout), [`acquire_deadline`](Self::acquire_deadline) | waits until its budget ends | waits until its budget ends |
/// | [`acquire_cancellable`](Self::acquire_cancellable) | as `acquire` or `acquire_deadline`, until cancelled | the same |
///
/// # Example
///
/// ```no_run
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::open("redis://127.0.0.1:6379")?;
/// let lock = client.lock("report:2026-12-01").build()?;
/// if let Some(lease) = lock.try_acquire()? {
///     // … nobody else makes this report now …
///     lease.release()?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// Threads of one client wait in the order in which they came, whichever of its `Lock`s for the key
/// they use; among processes one who came later may be served first, after a second. See
/// [Waiting](crate#waiting). `try_acquire` does not wait in line, and may be served before those who
/// do.
#[derive(Clone)]
pub struct Lock {
    site: Arc<Site>,
    hooks: Option<Arc<Hooks>>,
}

impl Lock {
    pub(super) fn new(site: Site, hooks: Hooks) -> Self {
        Self {
            site: Arc::new(site),
            hooks: (!hooks.is_empty()).then(|| Arc::new(hooks)),
        }
    }

    /// The key, exactly as it stands on the server.
    #[must_use]
    pub fn key(&self) -> &str {
        self.site.key()
    }

    /// Makes one attempt. `None` if another holds the lock: that is a value, not an error. A
    /// key that holds a list, say, is `None` too; [`Client::inspect`](crate::Client::inspect)
    /// tells.
    ///
    /// Bind the lease: `if let Some(_lease) = lock.try_acquire()?`. Both
    /// `if lock.try_acquire()?.is_some() { … }` and `let Some(_) = … else` give the lock back before
    /// the next line, and no lint says so.
    ///
    /// One command on an open link. Where its reply is lost, the outcome is settled: the old
    /// connection is fenced off and the server is asked with the token. All of that takes at
    /// most twice the connect timeout and twice the command timeout; it ends earlier, as
    /// unknown, if no server is in reach for it.
    ///
    /// # Errors
    ///
    /// [`is_unavailable`](Error::is_unavailable) if no server was able to run the command,
    /// also if the confirmation came when no more than the danger margin was left (the lock
    /// is then given back); [`is_refused`](Error::is_refused) if the server will not;
    /// [`is_unknown`](Error::is_unknown) if it was sent and could not be settled;
    /// [`is_config`](Error::is_config) in the child of a fork.
    pub fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        self.get(Patience::Once, None)
    }

    /// Waits without limit while others hold the lock.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and [`is_wrong_type`](Error::is_wrong_type) if
    /// the key holds something that is not a lock. A server that is away is an error as soon
    /// as one reconnect has failed.
    pub fn acquire(&self) -> Result<Lease, Error> {
        self.wait(Patience::WhileHeld)
    }

    /// Waits for at most `timeout`, through outages too. A `timeout` that no clock can count
    /// is no limit.
    ///
    /// It does not go past its budget by more than one command timeout: a command that is on
    /// its way is read on for, and so is a lock that a neighbour is handing over. With a `timeout`
    /// of zero it makes one attempt, unless all links are busy.
    ///
    /// # Errors
    ///
    /// When the budget is over, the error says which wait it was:
    /// [`is_timeout`](Error::is_timeout) if others held the lock,
    /// [`is_unavailable`](Error::is_unavailable) if no server was able to run the command,
    /// [`is_unknown`](Error::is_unknown) if an earlier attempt of this very call is
    /// unsettled. At once: [`is_refused`](Error::is_refused),
    /// [`is_wrong_type`](Error::is_wrong_type), and [`is_config`](Error::is_config) in the
    /// child of a fork.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Lease, Error> {
        self.wait(Patience::Until(self.site.clock.now().plus(timeout)))
    }

    /// Waits until `deadline`, as [`acquire_timeout`](Self::acquire_timeout) does.
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](Self::acquire_timeout).
    pub fn acquire_deadline(&self, deadline: Instant) -> Result<Lease, Error> {
        self.wait(Patience::Until(self.site.clock.time_of(deadline)))
    }

    /// Waits until `deadline`, or without limit if there is none, and ends as `None` when
    /// `canceller` is used.
    ///
    /// A cancelled wait ends within one command timeout, and at once where it waits for a neighbour:
    /// to that end every step of it, the opening of a link and being blocked until somebody is woken
    /// included, takes no longer. If its command had just taken the lock,
    /// the lock is given back first, which on a slow server takes a second one: leaving no
    /// record behind comes before the time.
    ///
    /// # Example: a service that shuts down
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// # let lock = leasehold::Client::open("redis://127.0.0.1:6379")?.lock("job").build()?;
    /// let canceller = leasehold::Canceller::new();      // a clone goes to the signal handler
    /// while let Some(lease) = lock.acquire_cancellable(None, &canceller)? {
    ///     // … one piece of work …
    ///     lease.release()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// With a deadline as [`acquire_deadline`](Self::acquire_deadline), without one as
    /// [`acquire`](Self::acquire). A cancelled wait is an error only if it cannot tell
    /// whether it leaves a record: [`is_unknown`](Error::is_unknown).
    pub fn acquire_cancellable(
        &self,
        deadline: Option<Instant>,
        canceller: &Canceller,
    ) -> Result<Option<Lease>, Error> {
        let patience = match deadline {
            Some(deadline) => Patience::Until(self.site.clock.time_of(deadline)),
            None => Patience::WhileHeld,
        };
        self.get(patience, Some(canceller))
    }

    /// Takes over the lock that `token` stands for, from a holder who gave it away with
    /// [`Lease::detach`], in this process or another. `None` if the lock is not that token's
    /// any more: it expired, was released, or another adopter was quicker.
    ///
    /// The token is replaced in one step on the server: compare, then set a fresh token (and
    /// draw a fresh fence, if the lock is fenced) with this lock's ttl and label. So of
    /// several adopters one wins, and a handle that still has the old token finds that the
    /// lock was taken over when it asks the server next; until then its own clock says that it
    /// is held, which is why [`Lease::detach`] ends the handle. It takes as long as
    /// [`try_acquire`](Self::try_acquire) at most.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire). Where the user has no right to `ROLE`, a lock
    /// that is not the token's any more is [`is_unavailable`](Error::is_unavailable): it
    /// cannot be told from a replica that has not heard of it.
    ///
    /// # Example: a lock goes from one process to the next
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// # let lock = leasehold::Client::open("redis://127.0.0.1:6379")?.lock("job").build()?;
    /// let token = lock.acquire()?.detach();            // here: stop, do not release
    /// let text = token.expose().to_owned();            // over a channel nobody else reads
    ///
    /// let lease = lock.adopt(text.parse()?)?;          // there
    /// assert!(lease.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn adopt(&self, token: Token) -> Result<Option<Lease>, Error> {
        // Taken by value, though a look at it would do: it is spent, and adopting it a second
        // time finds nothing.
        acquire::adopt(&self.site, &token)?
            .map(|record| self.lease(record))
            .transpose()
    }

    /// Releases the lock that `token` stands for, whoever took it: compare and delete, in one
    /// step on the server. For a token that was [given away](Lease::detach), or kept by somebody
    /// who has died. It takes at most one connect timeout and two command timeouts.
    ///
    /// # Errors
    ///
    /// [`is_lost`](Error::is_lost) if the lock is not that token's (any more): nothing is
    /// touched; [`is_unknown`](Error::is_unknown) if it could not be settled in that time;
    /// [`is_refused`](Error::is_refused), and [`is_config`](Error::is_config) in the child of a
    /// fork.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// # let lock = leasehold::Client::open("redis://127.0.0.1:6379")?.lock("job").build()?;
    /// let token = lock.acquire()?.detach();
    /// lock.release(token)
    /// # }
    /// ```
    pub fn release(&self, token: Token) -> Result<(), Error> {
        if self.site.origin.is_elsewhere() {
            return Err(Error::forked(None));
        }
        keep::release_given(&self.site, token)
    }

    fn wait(&self, patience: Patience) -> Result<Lease, Error> {
        match self.get(patience, None)? {
            Some(lease) => Ok(lease),
            // Only a single attempt and a cancelled wait end without a lease and without an
            // error, and this is neither. Should that ever change, "held" is what it means.
            None => {
                let key = Arc::clone(self.site.key());
                let waited = Duration::ZERO;
                Err(Error::new(Kind::Timeout { key, waited }, None))
            }
        }
    }

    fn get(
        &self,
        patience: Patience,
        canceller: Option<&Canceller>,
    ) -> Result<Option<Lease>, Error> {
        acquire::acquire(&self.site, patience, canceller)?
            .map(|record| self.lease(record))
            .transpose()
    }

    fn lease(&self, record: Arc<Record>) -> Result<Lease, Error> {
        let announced = self.hooks.as_ref().map(|hooks| announced(&record, hooks));
        Lease::begin(record, announced)
    }
}

/// A name and options, which do not change.
impl UnwindSafe for Lock {}
impl RefUnwindSafe for Lock {}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("key", self.site.key())
            .field("terms", &self.site.terms)
            .field("label", &self.site.label)
            .field("fenced", &self.site.fenced)
            .finish_non_exhaustive()
    }
}
