//! Opening a socket within one deadline.

use std::io;
use std::net::ToSocketAddrs;
use std::time::Duration;

#[cfg(unix)]
use socket2::Domain;
use socket2::{SockAddr, Socket, TcpKeepalive, Type};

use super::address::{Address, Place};
use crate::clock::{Clock, Time};

/// How long a peer may be silent before the kernel asks whether it is still there. A link
/// is not trusted after 30 s of idling anyway; this is for the one that waits for a reply.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// The shortest socket timeout: shorter ones are rounded to "none" by some systems, and a
/// timer tick makes 8 to 12 ms of a single one.
pub(super) const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);

/// Flags of a `send`: a peer that has gone must be an error and not a signal, also in a
/// program that has given `SIGPIPE` its default action back.
#[cfg(target_os = "linux")]
pub(super) const SEND_FLAGS: i32 = rustix::net::SendFlags::NOSIGNAL.bits().cast_signed();
#[cfg(not(target_os = "linux"))]
pub(super) const SEND_FLAGS: i32 = 0;

/// Connects to `address` before `until`, whatever the number of its addresses: each gets an
/// even share of the time left, so that a silent one does not cost the others theirs. The name
/// lookup is the system's and has no timeout: it counts against `until` only afterwards.
pub(super) fn connect(address: &Address, clock: &Clock, until: Time) -> io::Result<Socket> {
    match address.place() {
        Place::Tcp(host, port) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            let candidates: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.collect();
            for (index, candidate) in candidates.iter().enumerate() {
                let share = u32::try_from(candidates.len() - index).unwrap_or(u32::MAX);
                let timeout = (left(clock, until)? / share).max(SHORTEST_TIMEOUT);
                match connect_tcp(&(*candidate).into(), timeout) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
        #[cfg(unix)]
        Place::Unix(path) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // A connect to a unix socket blocks while the listener's queue is full; the
            // send timeout bounds that wait.
            socket.set_write_timeout(Some(left(clock, until)?))?;
            socket.connect(&SockAddr::unix(path)?)?;
            Ok(socket)
        }
    }
}

fn connect_tcp(address: &SockAddr, timeout: Duration) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    socket.connect_timeout(address, timeout)?;
    // Without it a command may wait for the acknowledgement of the one before.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    Ok(socket)
}

fn left(clock: &Clock, until: Time) -> io::Result<Duration> {
    let left = until.since(clock.now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left.max(SHORTEST_TIMEOUT))
}
