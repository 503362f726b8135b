//! A connection as it is: its socket, and how the server knows it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use socket2::Socket;

use super::fencing::Fencing;
use crate::clock::Time;

/// What outlives the use of a link: whoever has a command unanswered on it needs it to be fenced
/// off, which takes its name, and the socket kept open until then.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) socket: Socket,
    /// Learned when the link is opened, as far as the server tells.
    identity: OnceLock<Identity>,
    /// Whether it must carry no further command, though it works as far as the socket knows.
    given_up: AtomicBool,
    pub(super) fencing: Mutex<Fencing>,
    /// For those who wait while another fences it off.
    pub(super) fenced: Condvar,
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            identity: OnceLock::new(),
            given_up: AtomicBool::new(false),
            fencing: Mutex::default(),
            fenced: Condvar::new(),
        }
    }

    /// How the server knows it, as far as it told.
    pub(super) fn identity(&self) -> &Identity {
        static UNTOLD: Identity = Identity {
            connection: None,
            run: None,
            history: None,
        };
        self.identity.get().unwrap_or(&UNTOLD)
    }

    /// Notes how the server knows it.
    pub(super) fn identify(&self, identity: Identity) {
        // It is told once, before the link is used.
        let _ = self.identity.set(identity);
    }

    /// Takes the link out of use, which may be another's at that moment: it ends with what is on
    /// its way.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    /// A convoy has departed, whose replies are waited for until then.
    pub(super) fn depart(&self, read_by: Time) {
        self.fencing.lock().read_by = read_by;
    }

    /// All replies of a convoy have been read.
    pub(super) fn arrive(&self, voyage: u64) {
        self.fencing.lock().arrived = voyage;
        self.fenced.notify_all();
    }

    /// Nobody waits for replies any more.
    pub(super) fn end(&self) {
        self.fencing.lock().read_by = Time::from_nanos(0);
        self.fenced.notify_all();
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
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
    /// Whether both are known to lead to the same run of the same server.
    pub(super) fn is_of_same_run(&self, other: &Self) -> bool {
        self.run.is_some() && self.run == other.run
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
        assert!(of(Some("a")).is_of_same_run(&of(Some("a"))));
        assert!(!of(Some("a")).is_of_same_run(&of(Some("b"))));
        assert!(!of(None).is_of_same_run(&of(Some("b"))));
        assert!(!of(None).is_of_same_run(&of(None)));
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:0a1b\r\ntcp_port:1\r\n";
        assert_eq!(field_of_info(info, "run_id").as_deref(), Some("0a1b"));
        assert_eq!(field_of_info(info, "run"), None);
        assert_eq!(field_of_info("run_id:\r\n", "run_id"), None);
    }
}
