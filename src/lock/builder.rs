//! The options of a lock, and the one place that checks them.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use super::family::Lock;
use crate::error::{Config, Error};
use crate::keep::{Base, Options, Renewal, Site, Terms};
use crate::notice::{Danger, Hooks, Loss};
use crate::server::Keys;
use crate::token;

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
    /// all the same, so that [`Lease::check`](crate::Lease::check) says stop after two thirds of the ttl, with the
    /// default [`danger`](Self::danger)), unless
    /// [`Lease::renew`](crate::Lease::renew) or [`Lease::ensure`](crate::Lease::ensure) is called. This allows a ttl from 10 ms.
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
    /// [`Lease::check`](crate::Lease::check) says stop at `max_hold` − danger: plan `max_hold` as the longest work and
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

    /// Draws a fence with each acquisition, see [`Lease::fence`](crate::Lease::fence). The acquisition is then a
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
    /// [`Lease::release`](crate::Lease::release) or drop has returned; one that has begun may still be running then. A
    /// holder that wakes up past its deadline is told of the loss alone.
    ///
    /// A holder that is woken by [`LeaseWatch::wait_danger`](crate::LeaseWatch::wait_danger), or
    /// stopped by [`Lease::check`](crate::Lease::check), and releases before a thread has begun the callback, is not
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
    /// [`is_config`](Error::is_config) for an empty key, one that ends in `:leasehold:fence`,
    /// `:leasehold:waiting` or `:leasehold:wake` (the locks of another name keep their own things
    /// there), a label that is empty, too long or has a control character, and options that break a
    /// rule stated at their setters.
    pub fn build(self) -> Result<Lock, Error> {
        if self.key.is_empty() {
            return Err(Error::config(Config::EmptyKey));
        }
        if Keys::is_sibling(&self.key) {
            return Err(Error::config(Config::SiblingKey { key: self.key }));
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
        Ok(Lock::new(site, self.hooks))
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
