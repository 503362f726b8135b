//! What is left of a link that broke with a command unanswered.

use std::sync::atomic::{AtomicBool, Ordering};

use socket2::Socket;

/// A link that broke with a command unanswered. It keeps the socket open, so that the
/// server still knows the connection by its id and address until it is fenced off, and it
/// carries no further command.
#[derive(Debug)]
pub(crate) struct Broken {
    identity: Option<Identity>,
    /// Never read from and never written to again.
    _socket: Socket,
    /// Set when the server has answered that it killed the connection: nothing that was
    /// sent on it can run any more.
    fenced_off: AtomicBool,
}

impl Broken {
    pub(super) const fn new(socket: Socket, identity: Option<Identity>) -> Self {
        Self {
            identity,
            _socket: socket,
            fenced_off: AtomicBool::new(false),
        }
    }

    /// How the server names the connection, where it told us.
    pub(super) const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    pub(super) fn is_fenced_off(&self) -> bool {
        self.fenced_off.load(Ordering::Acquire)
    }

    pub(super) fn note_fenced_off(&self) {
        self.fenced_off.store(true, Ordering::Release);
    }
}

/// A connection as the server knows it: both are needed, because ids start again when a
/// server restarts, and a stranger may have the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) addr: String,
}

impl Identity {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_by_its_id_and_address() {
        let tcp = "id=7 addr=127.0.0.1:5555 laddr=127.0.0.1:6379 fd=8 name= age=0";
        assert_eq!(
            Identity::from_client_info(tcp),
            Some(Identity {
                id: "7".to_owned(),
                addr: "127.0.0.1:5555".to_owned(),
            })
        );
        let unix = "id=12 addr=/tmp/a b/redis.sock:0 laddr=/tmp/a b/redis.sock:0 fd=8";
        assert_eq!(
            Identity::from_client_info(unix).map(|identity| identity.addr),
            Some("/tmp/a b/redis.sock:0".to_owned())
        );
        assert_eq!(Identity::from_client_info("id= addr=1"), None);
        assert_eq!(Identity::from_client_info("nonsense"), None);
    }
}
