//! The guard of a held lock, and its view for other threads.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Action, Config, Error, Kind};
use crate::keep::{self, Record, Standing, Watched};
use crate::token::Token;

/// Where a lease stands, by its own clock and deadline. These four are all there will be: match
/// on them without a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// It holds, and there is time left before its danger zone.
    Held,
    /// It still holds, but no new side effect should start.
    Danger,
    /// It does not hold any more, and never will again.
    Lost,
    /// It has been given back, or its token given away.
    Released,
}

/// One acquisition of a lock: a guard that gives the lock back when it is dropped.
///
/// It is renewed in the background until it is released or dropped, unless its lock was built
/// [without](crate::LockBuilder::without_renewal) that. A lease that is leaked
/// ([`std::mem::forget`]) is renewed for as long as the process lives.
///
/// The lease is valid until its own deadline, which is earlier than the server's expiry:
/// it counts from before the command was sent, less 1 % and 2 ms for clocks that run at
/// different rates. Ask [`check`](Self::check) before each side effect; it costs one clock
/// reading and no I/O.
///
/// # The early drop
///
/// `let _ = lock.acquire()?;` drops the lease at once, and the work behind it runs without
/// a lock. Bind it to a name: `let lease = …` or `let _lease = …`.
/// `#![deny(let_underscore_drop)]` makes the compiler refuse it.
///
/// # Dropping
///
/// Drop does what [`release`](Self::release) does and logs what it cannot return. It does
/// not panic, also while a panic unwinds, and returns within the bound of `release`.
/// [`std::process::exit`] and a kill run no destructors: the record then stands until its
/// expiry.
///
/// # Fork
///
/// In a forked child an inherited lease is inert: it is not held, and neither releases nor
/// renews. The parent's lease is not touched.
#[must_use = "a lease that is not bound to a name is released at once"]
pub struct Lease {
    record: Arc<Record>,
    /// Told of its danger and loss, while this handle is there.
    announced: Option<Arc<dyn Watched>>,
    released: bool,
}

impl Lease {
    /// The guard of a lease that the background sees to from here on. Where a thread for that
    /// cannot be started, the lock is given back.
    pub(crate) fn begin(
        record: Arc<Record>,
        announced: Option<Arc<dyn Watched>>,
    ) -> Result<Self, Error> {
        if let Err(cause) = keep::keep(&record, announced.as_ref()) {
            let site = &record.site;
            let error = site.unavailable(Action::Acquire, cause);
            if let Err(error) = keep::give_back(&record, Duration::MAX) {
                say!(
                    warn,
                    target: "leasehold::acquire",
                    "giving back what cannot be kept: {}",
                    error.chain()
                );
            }
            return Err(error);
        }
        record.site.counters.acquired.add_one();
        Ok(Self {
            record,
            announced,
            released: false,
        })
    }

    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> &str {
        self.record.site.key()
    }

    /// The token of this acquisition: all that is needed to release the lock, so keep it to
    /// yourself.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.record.token
    }

    /// The fence of this acquisition, if the lock was built with
    /// [`fenced`](crate::LockBuilder::fenced): a number that is larger for each later holder of
    /// the key. Give it to the resource with every write, so that the resource can refuse an
    /// older one.
    ///
    /// It is in the order of 10^15, since it starts from the server's time in microseconds, and
    /// below 2^53: a column for it is a `BIGINT`, and JSON and JavaScript keep it exact.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.record.fence
    }

    /// How long the holder may still rely on the lease; zero once it is lost or inherited
    /// through a fork.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        remaining(&self.record)
    }

    /// Where the lease stands right now. No I/O.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        state(&self.record)
    }

    /// Whether the lease still holds: [`LeaseState::Held`] or [`LeaseState::Danger`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state(), LeaseState::Held | LeaseState::Danger)
    }

    /// `Ok` while the lease is held and out of its danger zone. To be asked before each
    /// side effect; no I/O.
    ///
    /// It computes from the clock. That somebody has deleted the record (`DEL`, `FLUSHALL`,
    /// eviction) is found out at the next renewal; [`verify`](Self::verify) asks.
    ///
    /// # Errors
    ///
    /// [`is_endangered`](Error::is_endangered) in the danger zone,
    /// [`is_lost`](Error::is_lost) after the deadline or when the server has proven the
    /// loss, and in a forked child (where [`is_config`](Error::is_config) holds as well).
    pub fn check(&self) -> Result<(), Error> {
        self.record.check()
    }

    /// Makes sure that at least `span` is left, renewing now if need be.
    ///
    /// # Example: enough time for each step
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), leasehold::Error> {
    /// # let lock = leasehold::Client::open("redis://127.0.0.1:6379")?.lock("job").build()?;
    /// let lease = lock.acquire()?;
    /// for step in 1..=10 {
    ///     lease.ensure(Duration::from_secs(15))?;      // asks the server only if need be
    ///     println!("step {step}, which takes 10 s");
    /// }
    /// # lease.release()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) if no lease of this ttl is ever valid for that long;
    /// [`is_endangered`](Error::is_endangered) if less is left although the renewal was
    /// confirmed (`max_hold` caps it); otherwise as [`renew`](Self::renew).
    pub fn ensure(&self, span: Duration) -> Result<(), Error> {
        let terms = &self.record.site.terms;
        if terms.validity() <= span {
            return Err(Error::config(Config::EnsureTooLong {
                span,
                validity: terms.validity(),
                ttl: terms.ttl(),
            }));
        }
        let left = || match self.record.standing(self.record.site.clock.now()) {
            Standing::Held { remaining } => remaining,
            _ => Duration::ZERO,
        };
        if self.record.check().is_ok() && span <= left() {
            return Ok(());
        }
        self.renew()?;
        self.record.check()?;
        let remaining = left();
        if remaining < span {
            let key = Arc::clone(self.record.site.key());
            let kind = Kind::TooLittleLeft {
                key,
                span,
                remaining,
            };
            return Err(Error::new(kind, None));
        }
        Ok(())
    }

    /// Renews the lease now: compare-and-extend on the server, never shorter than what is
    /// left there. The deadline moves only if the confirmation comes before it.
    ///
    /// It makes one attempt and, where that was not confirmed, a second one; each takes at
    /// most the shorter of the command timeout and a tenth of the ttl.
    ///
    /// # Errors
    ///
    /// [`is_lost`](Error::is_lost) if the lease is over, or if the server says that the
    /// record is not ours (the lease is lost from then on);
    /// [`is_unknown`](Error::is_unknown) if an attempt was sent and not answered,
    /// [`is_unavailable`](Error::is_unavailable) if none was run,
    /// [`is_refused`](Error::is_refused) if the server will not: the lease stands as it was.
    pub fn renew(&self) -> Result<(), Error> {
        keep::renew(&self.record)
    }

    /// Asks the server whether the record is still ours. One round trip; it lengthens
    /// nothing.
    ///
    /// It takes at most the connect timeout and the command timeout.
    ///
    /// For where no clock of one's own can be trusted: after a restored virtual machine, or
    /// a sleep outside Linux. An answer counts only from a primary. Where the user has no
    /// right to `ROLE`, "not ours" counts all the same.
    ///
    /// # Errors
    ///
    /// [`is_lost`](Error::is_lost) if the lease is over or the record is not ours;
    /// [`is_unavailable`](Error::is_unavailable) or [`is_refused`](Error::is_refused) if the
    /// server could not be asked: the lease stands as it was.
    pub fn verify(&self) -> Result<(), Error> {
        keep::verify(&self.record)
    }

    /// A view of the lease for other threads, without the right to release it.
    #[must_use]
    pub fn watch(&self) -> LeaseWatch {
        LeaseWatch::new(Arc::clone(&self.record))
    }

    /// Gives the token away and does not release: the record stands until its ttl is over, or
    /// until somebody [adopts](crate::Lock::adopt) it. It sends nothing; a renewal that is on its
    /// way is waited for, at most the shorter of the command timeout and a tenth of the ttl.
    ///
    /// For this lease's watches it is over: their [`check`](LeaseWatch::check) is an error from
    /// here on. Stop the workers before you detach. In a forked child it returns the token and
    /// leaves the parent's lease as it is.
    #[must_use = "without its token nobody can release the lock"]
    pub fn detach(mut self) -> Token {
        self.released = true;
        self.announced = None;
        // In a forked child the parent's lease is not ended: that takes a mutex which may be
        // held there for ever. The token is a copy like any other.
        if !self.record.site.origin.is_elsewhere() {
            keep::give_away(&self.record);
        }
        self.record.token.clone()
    }

    /// Gives the lock back: compare the token and delete, in one step on the server. As
    /// drop, but it reports what came of it.
    ///
    /// A renewal that is on its way is waited for first; once this has returned, no renewal of
    /// the token is sent and no callback starts. What could not be settled in the time given is
    /// gone on with in the background, as long as the client is there.
    ///
    /// It returns within a tenth of the ttl (at most the command timeout), one connect
    /// timeout and two command timeouts, lost replies and reconnects included. For a lease that
    /// is lost it asks once all the same, since its record may stand on a server whose clock is
    /// slow.
    ///
    /// Where the reply was lost and a second look finds the record gone while the deadline
    /// has not passed, that was our own deletion: the record could not expire yet. This
    /// conclusion is drawn only if `INFO` shows that the server was neither started anew nor
    /// promoted meanwhile; it rests on clocks within the allowance, and on nobody but clients
    /// of the documented pattern writing the key.
    ///
    /// # Errors
    ///
    /// [`is_lost`](Error::is_lost) if the record was not ours any more; it is not touched. That
    /// includes a record which ran out while its release could not be delivered: ask
    /// [`check`](Self::check) before the release to know whether the work was covered.
    /// [`is_unknown`](Error::is_unknown) if it could not be settled within the bound;
    /// [`may_hold_until`](Error::may_hold_until) then tells the last instant at which the
    /// record can stand. [`is_refused`](Error::is_refused) if the user lacks a right, and
    /// [`is_config`](Error::is_config) in a forked child.
    pub fn release(mut self) -> Result<(), Error> {
        self.release_inner()
    }

    fn release_inner(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        // Nobody is told any more, whatever is queued by now.
        self.announced = None;
        if self.record.site.origin.is_elsewhere() {
            return Err(Error::forked(Some(self.record.site.key())));
        }
        keep::release(&self.record)
    }
}

/// Its state is one atomic word: a panic leaves nothing half done.
impl UnwindSafe for Lease {}
impl RefUnwindSafe for Lease {}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Err(error) = self.release_inner() {
            // A loss has been logged where it was found, and the child of a fork has
            // nothing to report.
            if !error.is_lost() {
                say!(warn, target: "leasehold::release", "dropping a lease: {}", error.chain());
            }
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("Lease", &self.record, f)
    }
}

/// A view of a lease for worker threads: its state and its time left, without the right to
/// release it.
///
/// # Example: workers that stop in time
///
/// ```no_run
/// # fn main() -> Result<(), leasehold::Error> {
/// let lock = leasehold::Client::open("redis://127.0.0.1:6379")?.lock("job").build()?;
/// let lease = lock.acquire()?;
/// let watch = lease.watch();
/// std::thread::spawn(move || {
///     while watch.check().is_ok() {
///         // … one more piece of work …
///     }
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaseWatch {
    record: Arc<Record>,
}

impl LeaseWatch {
    pub(crate) const fn new(record: Arc<Record>) -> Self {
        Self { record }
    }

    /// As [`Lease::key`].
    #[must_use]
    pub fn key(&self) -> &str {
        self.record.site.key()
    }

    /// As [`Lease::fence`].
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.record.fence
    }

    /// As [`Lease::state`].
    #[must_use]
    pub fn state(&self) -> LeaseState {
        state(&self.record)
    }

    /// As [`Lease::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        remaining(&self.record)
    }

    /// Waits for at most `timeout` while the lease is held and out of its danger zone, and
    /// returns where it stands then. It returns at once when the lease is lost or released,
    /// and on time for the danger zone, whatever the network does: it watches the clock and
    /// asks nobody.
    ///
    /// # Example: a worker that hears in time that it has to stop
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::LeaseState;
    ///
    /// # fn main() -> Result<(), leasehold::Error> {
    /// # let lock = leasehold::Client::open("redis://127.0.0.1:6379")?.lock("job").build()?;
    /// # let lease = lock.acquire()?;
    /// let watch = lease.watch();
    /// std::thread::spawn(move || {
    ///     if watch.wait_danger(Duration::MAX) == LeaseState::Danger {
    ///         // … tell the work to stop …
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_danger(&self, timeout: Duration) -> LeaseState {
        if !self.record.site.origin.is_elsewhere() {
            self.record.wait_danger(timeout);
        }
        self.state()
    }

    /// As [`Lease::check`].
    ///
    /// # Errors
    ///
    /// As [`Lease::check`]; [`is_lost`](Error::is_lost) too once the lease is released or its
    /// token given away, and the message says so.
    pub fn check(&self) -> Result<(), Error> {
        self.record.check()
    }
}

/// As for [`Lease`].
impl UnwindSafe for LeaseWatch {}
impl RefUnwindSafe for LeaseWatch {}

impl fmt::Debug for LeaseWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("LeaseWatch", &self.record, f)
    }
}

fn state(record: &Record) -> LeaseState {
    if record.site.origin.is_elsewhere() {
        return LeaseState::Lost;
    }
    match record.standing(record.site.clock.now()) {
        Standing::Held { .. } => LeaseState::Held,
        Standing::Danger { .. } => LeaseState::Danger,
        Standing::Lost(_) => LeaseState::Lost,
        Standing::Released(_) => LeaseState::Released,
    }
}

fn remaining(record: &Record) -> Duration {
    if record.site.origin.is_elsewhere() {
        return Duration::ZERO;
    }
    match record.standing(record.site.clock.now()) {
        Standing::Held { remaining } | Standing::Danger { remaining } => remaining,
        Standing::Lost(_) | Standing::Released(_) => Duration::ZERO,
    }
}

fn debug(name: &str, record: &Record, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct(name)
        .field("key", record.site.key())
        .field("token", &record.token)
        .field("fence", &record.fence)
        .field("state", &state(record))
        .field("remaining", &remaining(record))
        .finish()
}
