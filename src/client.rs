//! The client: a server, the links to it, and what they have in common.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Action, Config, Error};
use crate::keep::{Base, error_of};
use crate::lock::LockBuilder;
use crate::server::{Address, Bound, Keys, SingleServer, Timeouts};
use crate::stats::{Counters, Stats};
use crate::token::{self, Token};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_MAX_LINKS: usize = 8;
const DEFAULT_MAX_WAITING_LINKS: usize = 32;

/// Bytes of a record that are looked at: enough for a token and a label of any sense, and no
/// download of whatever somebody else keeps at the key.
const LONGEST_SEEN: u64 = 4096;

/// The shortest timeout that a socket can be given and keep.
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);

/// A server and the few links to it. Clones share everything and are cheap; a client is
/// meant to be made once and used from all threads.
///
/// # Links
///
/// Links are opened when they are needed, at most [`max_links`](ClientBuilder::max_links),
/// and a thread that finds none free waits its turn within the time that its call may take
/// ([`Lock::acquire`](crate::Lock::acquire): without limit).
/// Renewals in the background have a link of their own beside them, and deletions of what an
/// unknown outcome may have left behind take the same.
/// A link is dropped at its first failure, and is not used again after 30 s without use.
/// Nothing is sent over a link but what a caller asked for: there is no health check.
///
/// # Fork
///
/// In a forked child an inherited client answers every call with
/// [`is_config`](Error::is_config): the child shares its parent's sockets and may have
/// inherited a mutex that nobody will ever unlock. Open a client in the child. A fork into a
/// new pid namespace in which both are process 1 is not detected.
#[derive(Clone)]
pub struct Client {
    base: Arc<Base>,
}

impl Client {
    /// A client with default options for the server at `url`. No I/O: a server that is not
    /// there is found out at the first use.
    ///
    /// `redis://[[user]:password@]host[:port][/database]` for TCP, `unix:///path` or
    /// `redis+unix:///path`, with `?db=`, `?user=` and `?pass=` behind it, for a unix
    /// socket. Names, passwords and paths are percent-decoded. `valkey://` is the same as
    /// `redis://`. The protocol is RESP2, whatever `?protocol=` asks for.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for a URL that does not parse and for a scheme that
    /// this version does not speak (`rediss://` is one). The message does not repeat the
    /// URL, since there may be a password in it.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// The options of a client for the server at `url`.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder {
            url: url.to_owned(),
            connect_timeout: DEFAULT_TIMEOUT,
            command_timeout: DEFAULT_TIMEOUT,
            max_links: DEFAULT_MAX_LINKS,
            max_waiting_links: DEFAULT_MAX_WAITING_LINKS,
        }
    }

    /// The options of a lock named `key`. The key on the server is exactly this text, so
    /// that any client that follows the documented pattern shares the lock.
    pub fn lock(&self, key: impl Into<String>) -> LockBuilder {
        LockBuilder::new(Arc::clone(&self.base), key.into())
    }

    /// What stands at `key` right now: who holds the lock and for how long, or `None` if it
    /// is free. One round trip, within the connect timeout and the command timeout. An answer
    /// counts only from a primary, unless the user has no right to `ROLE`.
    ///
    /// # Example: who is it?
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::open("redis://127.0.0.1:6379")?;
    /// match client.inspect("order:123")? {
    ///     Some(holder) => println!("{:?}, for {:?}", holder.label(), holder.remaining()),
    ///     None => println!("nobody"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_wrong_type`](Error::is_wrong_type) if the key holds something that is not a
    /// lock; [`is_unavailable`](Error::is_unavailable) if no server answered, or only a
    /// replica; [`is_refused`](Error::is_refused); [`is_config`](Error::is_config) for an
    /// empty key and in the child of a fork.
    pub fn inspect(&self, key: &str) -> Result<Option<Holder>, Error> {
        self.check_origin()?;
        if key.is_empty() {
            return Err(Error::config(Config::EmptyKey));
        }
        let keys = Keys::new(key.into());
        let seen = self
            .base
            .server
            .read(&keys, LONGEST_SEEN, self.bound())
            .map_err(|fault| error_of(Action::Read, Some(keys.record()), fault))?;
        Ok(seen.map(|seen| Holder {
            fingerprint: token::fingerprint(&seen.record),
            label: std::str::from_utf8(&seen.record)
                .ok()
                .and_then(|text| text.parse::<Token>().ok())
                .and_then(|token| token.label().map(str::to_owned)),
            remaining: seen.remaining,
            waited_for: seen.others_wait,
        }))
    }

    /// One round trip, and how long it took, within the connect timeout and the command
    /// timeout. It uses `HELLO`, which every user may send, unlike `PING`.
    ///
    /// # Errors
    ///
    /// [`is_unavailable`](Error::is_unavailable) if no server answered,
    /// [`is_refused`](Error::is_refused) for a wrong password,
    /// [`is_config`](Error::is_config) in the child of a fork.
    pub fn ping(&self) -> Result<Duration, Error> {
        self.check_origin()?;
        self.base
            .server
            .ping(self.bound())
            .map_err(|fault| error_of(Action::Ping, None, fault))
    }

    /// The counters of this client and its clones. No I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.base.counters.read()
    }

    fn check_origin(&self) -> Result<(), Error> {
        if self.base.origin.is_elsewhere() {
            return Err(Error::forked(None));
        }
        Ok(())
    }

    fn bound(&self) -> Bound {
        let Timeouts { connect, command } = self.base.timeouts;
        let span = connect.saturating_add(command);
        Bound::within(self.base.clock.now(), span, command)
    }
}

/// Its links are each one caller's at a time, and a caller that unwinds gives up its link.
impl UnwindSafe for Client {}
impl RefUnwindSafe for Client {}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.base.name)
            .field("timeouts", &self.base.timeouts)
            .finish_non_exhaustive()
    }
}

/// The options of a client, from [`Client::builder`].
#[derive(Clone)]
#[must_use = "options do nothing before `build`"]
pub struct ClientBuilder {
    url: String,
    connect_timeout: Duration,
    command_timeout: Duration,
    max_links: usize,
    max_waiting_links: usize,
}

impl ClientBuilder {
    /// How long it may take until a link is usable: connecting to all addresses of the
    /// host, entering, loading the scripts. **The name lookup is excepted**: it is the
    /// system's and takes as long as the system lets it.
    ///
    /// At least 1 ms. Defaults to 1 s.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long the reply to a command may take, in all and not per read.
    ///
    /// Longer: fewer outcomes that have to be settled. Shorter: a hanging server is noticed
    /// earlier. At least 1 ms; socket timeouts are rounded up to a timer tick or two (8 to
    /// 12 ms for 1 ms, as measured on Linux). Defaults to 1 s.
    pub fn command_timeout(mut self, command_timeout: Duration) -> Self {
        self.command_timeout = command_timeout;
        self
    }

    /// The most links that are used at a time. A caller who has to settle a lost reply has two
    /// more for that time: the broken one, which is kept open and not used, and a new one, so
    /// that settling does not wait behind the commands of others. At least 1. Defaults to 8.
    pub fn max_links(mut self, max_links: usize) -> Self {
        self.max_links = max_links;
        self
    }

    /// The most links on which a thread can block at a time until a lock that others hold is given
    /// back: one for each *key* that is waited for, however many threads wait for it. They are
    /// opened as they are needed, beside those of [`max_links`](Self::max_links). Whoever finds
    /// none free polls, with pauses of 1 to 50 ms. 0 turns wake-ups off. Defaults to 32.
    pub fn max_waiting_links(mut self, max_waiting_links: usize) -> Self {
        self.max_waiting_links = max_waiting_links;
        self
    }

    /// Checks the options and makes the client. No I/O.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) as for [`Client::open`], and for a timeout or a
    /// number of links that is too small.
    pub fn build(self) -> Result<Client, Error> {
        for (option, given) in [
            ("connect_timeout", self.connect_timeout),
            ("command_timeout", self.command_timeout),
        ] {
            if given < LEAST_TIMEOUT {
                return Err(Error::config(Config::TimeoutTooShort {
                    option,
                    given,
                    least: LEAST_TIMEOUT,
                }));
            }
        }
        if self.max_links == 0 {
            return Err(Error::config(Config::NoLinks));
        }
        let address = Address::parse(&self.url)?;
        let name = address.to_string();
        let clock = Clock::default();
        let counters = Arc::new(Counters::default());
        let timeouts = Timeouts {
            connect: self.connect_timeout,
            command: self.command_timeout,
        };
        let server = SingleServer::new(
            address,
            clock.clone(),
            timeouts,
            (self.max_links, self.max_waiting_links),
            Arc::clone(&counters),
        );
        Ok(Client {
            base: Arc::new(Base::new(Box::new(server), name, clock, counters, timeouts)),
        })
    }
}

/// The URL stays out: there may be a password in it.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("max_links", &self.max_links)
            .field("max_waiting_links", &self.max_waiting_links)
            .finish_non_exhaustive()
    }
}

/// Who holds a lock, as [`Client::inspect`] found it. It does not contain the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    fingerprint: String,
    label: Option<String>,
    remaining: Option<Duration>,
    waited_for: Option<bool>,
}

impl Holder {
    /// The fingerprint of the record, as [`Token::fingerprint`] gives it to the holder. Of a
    /// record longer than 4096 bytes, of its beginning.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The label, if the record is a leasehold token with one.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The time until the server lets the record expire; `None` if it has no expiry, which
    /// only a foreign client can have caused.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Whether somebody waits for the lock, in another process or in another client of this one,
    /// as waiters of this crate make known: at least once a second, and for two. How many there are
    /// is not to be learned, and who polls is not seen. `None` where the user's rights do not
    /// cover the sibling key `KEY:leasehold:waiting`, or `+exists` is not among them.
    #[must_use]
    pub fn is_waited_for(&self) -> Option<bool> {
        self.waited_for
    }
}
