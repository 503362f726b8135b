//! What is left of a link that broke with a command unanswered.

use std::sync::atomic::{AtomicBool, Ordering};

use socket2::Socket;

/// A link that broke with a command unanswered. It keeps the socket open, so that the
/// server still knows the connection by its id and address until it is fenced off, and it
/// carries no further command.
#[derive(Debug)]
pub(crate) struct Broken {
    identity: Identity,
    /// Never read from and never written to again.
    _socket: Socket,
    /// Set when it is proven that the server has no such connection any more: nothing that
    /// was sent on it can run.
    fenced_off: AtomicBool,
}

impl Broken {
    pub(super) const fn new(socket: Socket, identity: Identity) -> Self {
        Self {
            identity,
            _socket: socket,
            fenced_off: AtomicBool::new(false),
        }
    }

    /// The connection to kill: none if that has been done already, or if the server never
    /// told its name.
    pub(super) fn to_kill(&self) -> Option<&Connection> {
        if self.is_fenced_off() {
            return None;
        }
        self.identity.connection.as_ref()
    }

    /// Takes the answer to `CLIENT KILL` that came over a link of the identity `asked`.
    ///
    /// 1 is a barrier. 0 says that there is no such connection, which is one too, if it is
    /// the same run of the same server that says so; from any other server it says nothing.
    /// It is noted here, because a second try would find nothing to kill.
    pub(super) fn note_killed(&self, killed: i64, asked: &Identity) {
        if killed == 1 || (killed == 0 && self.identity.same_run(asked) == Some(true)) {
            self.fenced_off.store(true, Ordering::Release);
        }
    }

    pub(super) fn is_fenced_off(&self) -> bool {
        self.fenced_off.load(Ordering::Acquire)
    }

    /// Whether `other` is known to lead to the same history of data as this link did: only
    /// then is what is missing there known to have been removed by a command.
    pub(super) fn shares_history(&self, other: &Identity) -> bool {
        self.identity.history.is_some() && self.identity.history == other.history
    }
}

/// A link as the server knows it, as far as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) connection: Option<Connection>,
    /// The server's own random name for this run of its process.
    pub(crate) run: Option<String>,
    /// The name of its replication history, which is another one after a restart and after a
    /// promotion: then data may have been lost without a command.
    pub(crate) history: Option<String>,
}

impl Identity {
    fn same_run(&self, other: &Self) -> Option<bool> {
        Some(self.run.as_ref()? == other.run.as_ref()?)
    }
}

/// A connection by its id and its address: both are needed, because ids start again when a
/// server restarts, and a stranger may have the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) id: String,
    pub(crate) addr: String,
}

impl Connection {
    /// Reads the line that `CLIENT INFO` answers.
    pub(crate) fn from_client_info(info: &str) -> Option<Self> {
        let id = info.split_once("id=")?.1.split(' ').next()?;
        // The address of a unix socket is its path, which may hold spaces: it ends where
        // the next field begins.
        let rest = info.split_once(" addr=")?.1;
        let addr = match rest.split_once(" laddr=") {
            Some((addr, _)) => addr,
            None => rest.split(' ').next()?,
        };
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) || addr.is_empty() {
            return None;
        }
        Some(Self {
            id: id.to_owned(),
            addr: addr.to_owned(),
        })
    }
}

/// The value of one field in what `INFO` answers.
pub(super) fn field_of_info(info: &str, field: &str) -> Option<String> {
    info.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_by_its_id_and_address() {
        let tcp = "id=7 addr=127.0.0.1:5555 laddr=127.0.0.1:6379 fd=8 name= age=0";
        assert_eq!(
            Connection::from_client_info(tcp),
            Some(Connection {
                id: "7".to_owned(),
                addr: "127.0.0.1:5555".to_owned(),
            })
        );
        let unix = "id=12 addr=/tmp/a b/redis.sock:0 laddr=/tmp/a b/redis.sock:0 fd=8";
        assert_eq!(
            Connection::from_client_info(unix).map(|connection| connection.addr),
            Some("/tmp/a b/redis.sock:0".to_owned())
        );
        assert_eq!(Connection::from_client_info("id= addr=1"), None);
        assert_eq!(Connection::from_client_info("nonsense"), None);
    }

    #[test]
    fn a_run_is_the_same_only_where_both_sides_know_it() {
        let of = |run: Option<&str>| Identity {
            connection: None,
            run: run.map(str::to_owned),
            history: None,
        };
        assert_eq!(of(Some("a")).same_run(&of(Some("a"))), Some(true));
        assert_eq!(of(Some("a")).same_run(&of(Some("b"))), Some(false));
        assert_eq!(of(None).same_run(&of(Some("b"))), None);
        assert_eq!(of(None).same_run(&of(None)), None);
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:0a1b\r\ntcp_port:1\r\n";
        assert_eq!(field_of_info(info, "run_id").as_deref(), Some("0a1b"));
        assert_eq!(field_of_info(info, "run"), None);
        assert_eq!(field_of_info("run_id:\r\n", "run_id"), None);
    }
}
