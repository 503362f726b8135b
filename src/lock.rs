//! A lock: a name on a server plus options. It holds nothing by itself.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::acquire::{self, Canceller, Patience};
use crate::error::{Config, Error, Kind};
use crate::keep::{Base, Options, Record, Renewal, Site, Terms};
use crate::lease::Lease;
use crate::notice::{Danger, Hooks, Loss, announced};
use crate::server::Keys;
use crate::token::{self, Token};

/// The options of a lock, from [`Client::lock`](crate::Client::lock).
///
/// Setters only remember; [`build`](Self::build) is the one place that checks, and its
/// error names the values that disagree.
///
/// # Example: options that do not go together
///
/// ```
/// use std::time::Duration;
///
/// let client = leasehold::Client::open("redis://127.0.0.1:6379")?;
/// let error = client
///     .lock("order:123")
///     .ttl(Duration::from_secs(3))
///     .danger(Duration::from_secs(4))
///     .build()
///     .unwrap_err();
/// assert!(error.is_config());
/// assert!(error.to_string().contains("danger 4s"));
/// assert!(error.to_string().contains("ttl 3s"));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "options do nothing before `build`"]
pub struct LockBuilder {
    base: Arc<Base>,
    key: String,
    options: Options,
    label: Option<String>,
    fenced: bool,
    hooks: Hooks,
}

impl LockBuilder {
    pub(crate) fn new(base: Arc<Base>, key: String) -> Self {
        Self {
            base,
            key,
            options: Options::default(),
            label: None,
            fenced: false,
            hooks: Hooks::default(),
        }
    }

    /// Time to live of the record on the server, counted from each acquisition and renewal.
    ///
    /// Longer: a pause or an outage of that length is survived, and a crashed holder blocks
    /// the others for that long. Shorter: the reverse. Whole milliseconds count, the rest is
    /// cut off. With renewal at least 150 ms, without at least 10 ms; at most 292 years, half of
    /// what the clock can count.
    ///
    /// Defaults to 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How often the lease is to be renewed.
    ///
    /// More often: more load, and more attempts before the danger zone. At least the time of
    /// one attempt (τ, the shorter of the command timeout and ttl/10) and 10 ms; at most
    /// what leaves room for two attempts before the danger zone:
    /// `renew_every + 2 (τ + 8 ms) ≤ V − danger`, where V = ttl − ttl/100 − 2 ms.
    ///
    /// Renewals of all leases of a client go out together, from one thread over a link of its
    /// own, whatever the callers do. Where one fails, it is tried again at once and then after
    /// pauses from 10 ms up to τ, until the deadline.
    ///
    /// Defaults to ttl/3, or less where the rule asks for it. The last call of this and
    /// [`without_renewal`](Self::without_renewal) counts.
    pub fn renew_every(mut self, renew_every: Duration) -> Self {
        self.options.renewal = Renewal::Every(renew_every);
        self
    }

    /// No renewal in the background: the lease ends with its first ttl (danger and loss are told
    /// all the same, so that [`Lease::check`] says stop after two thirds of the ttl, with the
    /// default [`danger`](Self::danger)), unless
    /// [`Lease::renew`] or [`Lease::ensure`] is called. This allows a ttl from 10 ms.
    pub fn without_renewal(mut self) -> Self {
        self.options.renewal = Renewal::Off;
        self
    }

    /// The margin before the deadline in which no new side effect should start.
    ///
    /// Longer: more time to stop in, and less to work in. Shorter than the validity of the
    /// lease, ttl − ttl/100 − 2 ms. A lock that is confirmed when no more than this is left
    /// is given back at once.
    ///
    /// Defaults to ttl/3.
    pub fn danger(mut self, danger: Duration) -> Self {
        self.options.danger = Some(danger);
        self
    }

    /// The longest that one acquisition may be held: no deadline, the first one included,
    /// lies beyond acquisition + `max_hold`. It has to be longer than the danger margin. Danger
    /// and loss come as usual, with that as their cause, and the loss gives the lock back. So
    /// [`Lease::check`] says stop at `max_hold` − danger: plan `max_hold` as the longest work and
    /// the danger margin.
    ///
    /// Defaults to no limit.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// A line of text that stands behind the token in the record, for people who look at
    /// it: a host name, a job. It has 1 to 1024 bytes and no control characters.
    /// Whoever can read the key can read it.
    ///
    /// Defaults to none.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Draws a fence with each acquisition, see [`Lease::fence`]. The acquisition is then a
    /// script and not a plain `SET`, and needs rights to `TIME` and to the sibling key
    /// `KEY:leasehold:fence`, which lives for 30 days after the last acquisition.
    pub fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// What to do when a lease enters its danger zone: no renewal has been confirmed for so long
    /// that no more than the [`danger`](Self::danger) margin is left.
    ///
    /// It is called on time whatever the network does, on a thread of its own kind
    /// (`leasehold-call`, up to 64 a client), once for each stay in the danger zone: a renewal
    /// that is confirmed ends it, and a later one is told again. A callback that blocks delays no
    /// other while fewer than 64 do. One that panics is caught and logged. None starts after
    /// [`Lease::release`] or drop has returned; one that has begun may still be running then. A
    /// holder that wakes up past its deadline is told of the loss alone.
    ///
    /// A holder that is woken by [`LeaseWatch::wait_danger`](crate::LeaseWatch::wait_danger), or
    /// stopped by [`Lease::check`], and releases before a thread has begun the callback, is not
    /// told any more: use the callback to stop the work, not to count dangers, which
    /// [`Stats::danger`](crate::Stats::danger) does.
    ///
    /// It is told for every lease of this lock: a flag of your own has to be cleared before the
    /// next one. Nothing is called when a danger ends without a loss; [`Danger::watch`] tells.
    ///
    /// The last call of this setter counts.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let stop = Arc::new(AtomicBool::new(false));
    /// let seen = Arc::clone(&stop);
    /// let lock = leasehold::Client::open("redis://127.0.0.1:6379")?
    ///     .lock("report")
    ///     .on_danger(move |danger| {
    ///         eprintln!("{}: {}, {:?} left", danger.key(), danger.cause(), danger.remaining());
    ///         seen.store(true, Ordering::Relaxed);
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_danger(mut self, callback: impl Fn(&Danger) + Send + Sync + 'static) -> Self {
        self.hooks.danger = Some(Arc::new(callback));
        self
    }

    /// What to do when a lease is lost: its deadline has passed, or the server has proven that
    /// its record is no longer ours. Called once, as [`on_danger`](Self::on_danger) is, and not
    /// for a lease that was released or whose token was given away. A loss that the release
    /// itself finds is its error, or a line in the log where the lease was dropped.
    ///
    /// The last call of this setter counts.
    pub fn on_lost(mut self, callback: impl Fn(&Loss) + Send + Sync + 'static) -> Self {
        self.hooks.lost = Some(Arc::new(callback));
        self
    }

    /// Checks the options and makes the lock. No I/O.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for an empty key, a label that is empty, too long or has
    /// a control character, and options that break a rule stated at their setters.
    pub fn build(self) -> Result<Lock, Error> {
        if self.key.is_empty() {
            return Err(Error::config(Config::EmptyKey));
        }
        if let Some(label) = &self.label {
            token::check_label(label).map_err(Error::config)?;
        }
        let command_timeout = self.base.timeouts.command;
        let terms = Terms::new(&self.options, command_timeout).map_err(Error::config)?;
        let site = Site {
            base: self.base,
            keys: Keys::new(self.key.into()),
            terms,
            label: self.label.map(String::into_boxed_str),
            fenced: self.fenced,
        };
        Ok(Lock {
            site: Arc::new(site),
            hooks: (!self.hooks.is_empty()).then(|| Arc::new(self.hooks)),
        })
    }
}

/// As for [`Lock`].
impl UnwindSafe for LockBuilder {}
impl RefUnwindSafe for LockBuilder {}

impl fmt::Debug for LockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockBuilder")
            .field("server", &self.base.name)
            .field("key", &self.key)
            .field("options", &self.options)
            .field("label", &self.label)
            .field("fenced", &self.fenced)
            .finish()
    }
}

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
/// In this version a waiter polls with pauses that double from 2 ms up to 50 ms, each cut by up
/// to a half at random: no order among waiters is promised.
#[derive(Clone)]
pub struct Lock {
    site: Arc<Site>,
    hooks: Option<Arc<Hooks>>,
}

impl Lock {
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
    /// its way is read on for. With a `timeout` of zero it makes one attempt, unless all
    /// links are busy.
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
    /// A cancelled wait ends within one command timeout: to that end every step of it, the
    /// opening of a link included, takes no longer. If its command had just taken the lock,
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
