//! The one error type, its kinds, and what each of them answers.

mod cause;
mod config;

use std::error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use cause::Cause;
use cause::readable;
pub(crate) use config::Config;

/// What went wrong, told apart by predicates.
///
/// The four answers that a lock must not mix up are four predicates: held by others for
/// the whole wait ([`is_timeout`](Self::is_timeout); for a single try it is no error but
/// `None`), no server in reach ([`is_unavailable`](Self::is_unavailable)), a server that
/// says no for good ([`is_refused`](Self::is_refused)), and a command that was sent whole
/// and never answered ([`is_unknown`](Self::is_unknown)).
///
/// `Display` says what happened and to which key; the cause is in
/// [`source`](error::Error::source) and is not repeated. Neither ever shows a token or a
/// password. The causes' types are private: introspection ends at the predicates.
///
/// # Example: one error, and what to do
///
/// ```
/// fn advice(error: &leasehold::Error) -> &'static str {
///     if error.is_timeout() {
///         "somebody else is at work, come back later"
///     } else if error.is_unavailable() {
///         "Redis is away, try again"
///     } else if error.is_refused() || error.is_config() || error.is_wrong_type() {
///         "somebody has to change the set-up"
///     } else if error.is_unknown() {
///         "sent, but not answered: nobody can say"
///     } else if error.is_endangered() {
///         "still ours, but start nothing new"
///     } else {
///         "the lease is no longer ours: stop"
///     }
/// }
/// # let error = "x".parse::<leasehold::Token>().unwrap_err();
/// # assert_eq!(advice(&error), "somebody has to change the set-up");
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: Kind,
    cause: Option<Cause>,
}

/// Private on purpose: a new kind must not be a breaking change.
#[derive(Debug)]
pub(crate) enum Kind {
    Config(Config),
    Forked {
        key: Option<Arc<str>>,
    },
    Timeout {
        key: Arc<str>,
        waited: Duration,
    },
    Unavailable {
        action: Action,
        key: Option<Arc<str>>,
    },
    Refused {
        command: &'static str,
        key: Option<Arc<str>>,
    },
    Unknown {
        action: Action,
        key: Arc<str>,
        until: Option<Instant>,
    },
    Endangered {
        key: Arc<str>,
        remaining: Duration,
    },
    TooLittleLeft {
        key: Arc<str>,
        span: Duration,
        remaining: Duration,
    },
    Lost {
        key: Arc<str>,
        why: LostBy,
    },
    WrongType {
        key: Arc<str>,
    },
}

/// What was being done, in the words of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Acquire,
    Adopt,
    Renew,
    Release,
    Read,
    Ping,
}

/// How a lease came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostBy {
    Expired,
    TakenOver,
    Vanished,
    MaxHold,
    /// Held when its release began, and over before that got through.
    DuringRelease,
    /// Not a loss in the holder's eyes, but one in those of whoever still watches.
    Released,
    GivenAway,
}

impl Error {
    /// The lock was held by others for the whole wait.
    /// [`Client::inspect`](crate::Client::inspect) tells by whom, if they have given a label.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.inner.kind, Kind::Timeout { .. })
    }

    /// No server answered, or it could not run the command now (it is loading, out of
    /// memory, a replica, busy with a script). Another try may help.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self.inner.kind, Kind::Unavailable { .. })
    }

    /// The server refuses for good: password, rights, a command it does not know. Another
    /// try will not help, so that a wait ends at once.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.inner.kind, Kind::Refused { .. })
    }

    /// The outcome is not known: a command was sent whole and not answered, or a release could
    /// not be delivered, and it could not be settled in the time given.
    ///
    /// After an acquisition: treat the lock as not yours. A record may stand for a ttl from
    /// when the command lands, which nobody can bound; whoever then waits, waits for it like
    /// for any other holder. After a
    /// release: your work is done, and the lock comes free by itself at
    /// [`may_hold_until`](Self::may_hold_until) at the latest.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self.inner.kind, Kind::Unknown { .. })
    }

    /// The lease is in its danger zone: it still holds, but no new side effect should
    /// start.
    #[must_use]
    pub fn is_endangered(&self) -> bool {
        matches!(
            self.inner.kind,
            Kind::Endangered { .. } | Kind::TooLittleLeft { .. }
        )
    }

    /// The lease is over: its deadline has passed, the server proved that the record is no
    /// longer ours, or the lease was inherited through a fork. For a
    /// [`LeaseWatch`](crate::LeaseWatch) also if the lease was released or its token given
    /// away; the message tells which.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(
            self.inner.kind,
            Kind::Lost { .. } | Kind::Forked { key: Some(_) }
        )
    }

    /// An option, a key, a URL or a token that cannot be used as it is, or a handle that
    /// was opened before a fork and used after it.
    #[must_use]
    pub fn is_config(&self) -> bool {
        matches!(self.inner.kind, Kind::Config(_) | Kind::Forked { .. })
    }

    /// The key holds something that is not a lock, a list for example. Found while waiting
    /// for the lock and by [`Client::inspect`](crate::Client::inspect).
    #[must_use]
    pub fn is_wrong_type(&self) -> bool {
        matches!(self.inner.kind, Kind::WrongType { .. })
    }

    /// The key of the lock that the error is about, if it is about one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match &self.inner.kind {
            Kind::Config(_) => None,
            Kind::Forked { key } | Kind::Unavailable { key, .. } | Kind::Refused { key, .. } => {
                key.as_deref()
            }
            Kind::Timeout { key, .. }
            | Kind::Unknown { key, .. }
            | Kind::Endangered { key, .. }
            | Kind::TooLittleLeft { key, .. }
            | Kind::Lost { key, .. }
            | Kind::WrongType { key } => Some(key),
        }
    }

    /// For a release that [`is_unknown`](Self::is_unknown): the last instant at which the
    /// record can still stand on the server.
    ///
    /// `None` for everything else, and for an acquisition that is unknown in particular: a
    /// command still on its way has no bound, because its time to live counts from its
    /// arrival.
    #[must_use]
    pub fn may_hold_until(&self) -> Option<Instant> {
        match self.inner.kind {
            Kind::Unknown { until, .. } => until,
            _ => None,
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn new(kind: Kind, cause: Option<Cause>) -> Self {
        Self {
            inner: Box::new(Inner { kind, cause }),
        }
    }

    /// The error and its causes in one line, for the log: there is no `source()` to ask there.
    pub(crate) fn chain(&self) -> impl fmt::Display + '_ {
        chain(self)
    }

    pub(crate) fn config(config: Config) -> Self {
        Self::new(Kind::Config(config), None)
    }

    pub(crate) fn forked(key: Option<&Arc<str>>) -> Self {
        Self::new(Kind::Forked { key: key.cloned() }, None)
    }

    pub(crate) fn lost(key: &Arc<str>, why: LostBy) -> Self {
        let key = Arc::clone(key);
        Self::new(Kind::Lost { key, why }, None)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("cause", &self.inner.cause)
            .finish()
    }
}

/// What an error holds does not change any more: nobody can see it half done.
impl UnwindSafe for Error {}
impl RefUnwindSafe for Error {}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.inner
            .cause
            .as_ref()
            .map(|cause| cause as &(dyn error::Error + 'static))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner.kind {
            Kind::Config(config) => config.fmt(f),
            Kind::Forked { key: None } => {
                f.write_str("the client was opened before a fork; open it in the child")
            }
            Kind::Forked { key: Some(key) } => write!(
                f,
                "the lease of `{}` was taken before a fork and is the parent's; \
                 open a client in the child",
                key.escape_debug()
            ),
            Kind::Timeout { key, waited } => write!(
                f,
                "lock `{}` was held by others for all of {:?}",
                key.escape_debug(),
                readable(*waited)
            ),
            Kind::Unavailable { action, key } => {
                write!(f, "no server was able to {action}{}", Named(key.as_ref()))
            }
            Kind::Refused { command, key } => {
                write!(f, "the server refuses {command}{}", For(key.as_ref()))
            }
            Kind::Unknown {
                action: Action::Release,
                key,
                ..
            } => write!(
                f,
                "it is not known whether lock `{}` has been released",
                key.escape_debug()
            ),
            Kind::Unknown { action, key, .. } => write!(
                f,
                "a command to {action} lock `{}` was sent and its outcome is not known",
                key.escape_debug()
            ),
            Kind::Endangered { key, remaining } => write!(
                f,
                "the lease of `{}` is in its danger zone with {:?} left",
                key.escape_debug(),
                readable(*remaining)
            ),
            Kind::TooLittleLeft {
                key,
                span,
                remaining,
            } => write!(
                f,
                "{span:?} cannot be ensured for the lease of `{}`: {:?} is all that is left to it",
                key.escape_debug(),
                readable(*remaining)
            ),
            Kind::Lost { key, why } => {
                let is = match why {
                    LostBy::Released | LostBy::GivenAway => "over",
                    _ => "lost",
                };
                write!(f, "the lease of `{}` is {is}: {why}", key.escape_debug())
            }
            Kind::WrongType { key } => write!(
                f,
                "key `{}` holds something that is not a lock; use another key, or delete it",
                key.escape_debug()
            ),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire => "acquire",
            Self::Adopt => "adopt",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Read => "read",
            Self::Ping => "answer",
        })
    }
}

impl fmt::Display for LostBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline has passed",
            Self::TakenOver => "another acquisition holds the lock",
            Self::Vanished => "its record is gone from the server",
            Self::DuringRelease => "its time ran out while it was being released",
            Self::MaxHold => "it was held for as long as `max_hold` allows",
            Self::Released => "it has been released",
            Self::GivenAway => "its token was given away",
        })
    }
}

/// An error and its causes in one line.
pub(crate) fn chain<'a>(error: &'a (dyn error::Error + 'static)) -> impl fmt::Display + 'a {
    struct Chain<'a>(&'a (dyn error::Error + 'static));

    impl fmt::Display for Chain<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.0)?;
            let mut next = self.0.source();
            while let Some(cause) = next {
                write!(f, ": {cause}")?;
                next = cause.source();
            }
            Ok(())
        }
    }

    Chain(error)
}

/// " lock `key`", or nothing.
struct Named<'a>(Option<&'a Arc<str>>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, " lock `{}`", key.escape_debug()),
            None => Ok(()),
        }
    }
}

/// " for lock `key`", or nothing.
struct For<'a>(Option<&'a Arc<str>>);

impl fmt::Display for For<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, " for lock `{}`", key.escape_debug()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    fn key() -> Arc<str> {
        Arc::from("order:1")
    }

    #[test]
    fn a_chain_of_sources_says_nothing_twice() {
        let error = Error::new(
            Kind::Unavailable {
                action: Action::Acquire,
                key: Some(key()),
            },
            Some(Cause::Io {
                doing: "connect to",
                server: "127.0.0.1:1".into(),
                source: Arc::new(io::ErrorKind::ConnectionRefused.into()),
            }),
        );
        let mut chain = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            chain.push(cause.to_string());
            next = cause.source();
        }
        assert_eq!(chain.len(), 3, "{chain:?}");
        for (index, text) in chain.iter().enumerate() {
            assert!(
                chain[index + 1..].iter().all(|later| !text.contains(later)),
                "{chain:?}"
            );
            assert!(!text.ends_with('.'));
        }
    }

    #[test]
    fn an_error_is_one_pointer_and_crosses_threads() {
        fn crosses<T: Send + Sync + 'static>() {}
        crosses::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn a_lease_from_before_a_fork_is_lost_and_a_client_is_not() {
        assert!(Error::forked(Some(&key())).is_lost());
        assert!(Error::forked(Some(&key())).is_config());
        assert!(!Error::forked(None).is_lost());
        assert!(Error::forked(None).is_config());
    }
}
