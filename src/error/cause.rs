//! Causes: what an [`Error`](crate::Error) has as its `source()`.

use std::error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// One failure may have met many, so that a cause can be cloned.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// The socket or the name lookup failed.
    Io {
        doing: &'static str,
        server: String,
        source: Arc<io::Error>,
    },
    /// Another thread of this client has just failed to open a link.
    Away { server: String },
    /// The server closed the connection.
    Closed { server: String },
    /// No reply, no accepted byte, or no link in time.
    TimedOut {
        doing: &'static str,
        server: String,
        after: Duration,
    },
    /// The server answered with an error.
    Reply {
        command: &'static str,
        server: String,
        text: String,
    },
    /// Bytes that are no reply, or a reply of a kind that the command cannot have.
    Garbage {
        command: &'static str,
        server: String,
    },
    /// The server is a replica: what it says of a lock proves nothing.
    Replica { server: String },
    /// The role of the server could not be learned, so that its answer proves nothing.
    RoleUntold,
    /// The server cannot tell its role at the moment.
    RoleNotNow { server: String },
    /// The fence counter of a fenced lock cannot be drawn from.
    Counter { counter: String, exhausted: bool },
    /// The fence counter of a fenced lock was gone when it was asked for.
    FenceGone,
    /// The lock was confirmed when no more than the danger margin was left.
    TooLate { left: Duration, danger: Duration },
    /// A thread of this process was handing the lock over, and was not done with it.
    HandOver,
    /// The operating system started no thread.
    Thread {
        name: &'static str,
        source: Arc<io::Error>,
    },
    /// The operating system gave no randomness.
    Randomness(getrandom::Error),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, server, .. } => write!(f, "failed to {doing} `{server}`"),
            Self::Away { server } => write!(f, "no link to `{server}` could be opened"),
            Self::Closed { server } => write!(f, "`{server}` closed the connection"),
            Self::TimedOut {
                doing,
                server,
                after,
            } => write!(
                f,
                "timed out after {:?} {doing} `{server}`",
                readable(*after)
            ),
            Self::Reply {
                command,
                server,
                text,
            } => write!(f, "`{server}` answered {command} with `{text}`"),
            Self::Garbage { command, server } => write!(
                f,
                "`{server}` answered {command} with something that is no Redis reply"
            ),
            Self::Replica { server } => write!(f, "`{server}` is a replica"),
            Self::RoleUntold => f.write_str(
                "the server does not tell whether it is a primary; the right `+role` is missing",
            ),
            Self::RoleNotNow { server } => {
                write!(
                    f,
                    "`{server}` cannot tell at the moment whether it is a primary"
                )
            }
            Self::Counter {
                counter,
                exhausted: true,
            } => write!(
                f,
                "the fence counter `{}` has reached 2^53 and can grow no more",
                counter.escape_debug()
            ),
            Self::Counter { counter, .. } => write!(
                f,
                "the fence counter `{}` holds something that is not a number",
                counter.escape_debug()
            ),
            Self::HandOver => {
                f.write_str("another thread was handing the lock over, and is not done with it")
            }
            Self::FenceGone => f.write_str("the fence counter is gone from the server"),
            Self::TooLate { left, danger } => write!(
                f,
                "confirmed with {:?} of validity left, no more than the danger margin of {danger:?}",
                readable(*left)
            ),
            Self::Thread { name, .. } => write!(f, "failed to start the thread `{name}`"),
            Self::Randomness(_) => f.write_str("the operating system gave no randomness"),
        }
    }
}

/// Without what lies below a millisecond, which tells nobody anything, unless that is all there
/// is.
pub(super) fn readable(span: Duration) -> Duration {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        span
    } else {
        Duration::from_millis(millis)
    }
}

impl error::Error for Cause {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::Thread { source, .. } => Some(&**source),
            Self::Randomness(source) => Some(source),
            _ => None,
        }
    }
}
