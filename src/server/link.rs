//! One connection to one server, with its socket in our own hands.
//!
//! The `redis` crate's connection is not used: after a timeout it skips the late reply and
//! goes on, it stays "open" after a reset and after a half-written command, its timeouts
//! are per read and not per command, and it does not tell how much was written. A link is
//! used until its first failure and never after it.
//!
//! Replies are matched to commands by their order alone, as RESP2 has it. Bytes that nobody
//! asked for end the link where they are seen, which is with the reply before them or after
//! an idle moment; no Redis sends any.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use socket2::Socket;

use super::broken::{Broken, Identity};
use super::command::Batch;
use super::fault::{Class, Fault};
use super::inbox::Inbox;
use super::reply::Garbage;
use super::socket::{SEND_FLAGS, SHORTEST_TIMEOUT};
use crate::clock::{Clock, Time};
use crate::error::Cause;

/// What a link does when its time for a reply runs out.
const WAITING: &str = "waiting for a reply from";

/// Room for every reply of the hot path, and for most others.
const INBOX: usize = 1024;

/// A link that lay idle for longer is dropped: firewalls and servers forget connections.
pub(super) const MOST_IDLE: Duration = Duration::from_secs(30);

/// How long things may take at a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Until a link is usable, the name lookup excepted.
    pub(crate) connect: Duration,
    /// Until a command is answered.
    pub(crate) command: Duration,
}

/// An open connection.
pub(crate) struct Link {
    socket: Socket,
    server: Arc<str>,
    identity: Identity,
    clock: Clock,
    command_timeout: Duration,
    /// What goes out next. Kept, so that packing allocates nothing.
    pub(super) batch: Batch,
    inbox: Inbox,
    /// When the replies of the batch sent last must be in.
    read_by: Time,
    /// Whether the constant timeouts of the socket still serve for that: before the first
    /// byte of the exchange has moved, and if it has all of the command timeout.
    untouched: bool,
    last_used: Time,
    tightened: Tightened,
    broken: bool,
}

/// Which timeouts of the socket are shorter than the command timeout at the moment.
#[derive(Clone, Copy, Debug, Default)]
struct Tightened {
    read: bool,
    write: bool,
}

/// Records with their tokens may lie in its buffers: it shows where it leads alone.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("server", &self.server)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Wraps a connected socket whose timeouts have not been set yet.
    pub(super) fn new(
        socket: Socket,
        server: Arc<str>,
        clock: Clock,
        command_timeout: Duration,
    ) -> io::Result<Self> {
        socket.set_read_timeout(Some(command_timeout))?;
        socket.set_write_timeout(Some(command_timeout))?;
        let now = clock.now();
        Ok(Self {
            socket,
            server,
            identity: Identity::default(),
            clock,
            command_timeout,
            batch: Batch::default(),
            inbox: Inbox::of(INBOX),
            read_by: now,
            untouched: true,
            last_used: now,
            tightened: Tightened::default(),
            broken: false,
        })
    }

    /// What is left when it broke with a command unanswered.
    pub(super) fn into_broken(self) -> Broken {
        Broken::new(self.socket, self.identity)
    }

    /// Its socket, for a use in which nobody blocks on a reply.
    pub(super) fn into_socket(self) -> (Socket, Arc<str>) {
        (self.socket, self.server)
    }

    /// How the server knows this link, as far as it told.
    pub(super) const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Notes how the server knows this link.
    pub(super) fn identify(&mut self, identity: Identity) {
        self.identity = identity;
    }

    pub(super) const fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Whether it must carry no further command.
    pub(super) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Takes it out of use, though nothing is on its way.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }

    /// When it was last sent on.
    pub(super) const fn last_used(&self) -> Time {
        self.last_used
    }

    /// Sends the batch, `command` being the name of its first command, and starts the time
    /// for its replies: the command timeout, cut off at `end`. Returns the clock as read
    /// before the first byte was handed over.
    pub(super) fn send(&mut self, command: &'static str, end: Time) -> Result<Time, Fault> {
        self.send_within(command, self.command_timeout, end)
    }

    /// The same with another time for the replies: a link that is being opened knows one
    /// deadline and no command timeout.
    pub(super) fn send_within(
        &mut self,
        command: &'static str,
        most: Duration,
        end: Time,
    ) -> Result<Time, Fault> {
        let sent = self.clock.now();
        self.last_used = sent;
        self.read_by = sent.plus(most).min(end);
        self.untouched = most == self.command_timeout && sent.plus(most) <= end;
        if self.broken || !self.inbox.is_empty() {
            // A link that was given up between two commands, or a reply that nobody has asked
            // for: whatever comes next would be taken for the answer to something else.
            self.broken = true;
            let cause = self.garbage(command);
            return Err(Fault::new(Class::NotSent, command, cause));
        }
        let mut accepted = 0;
        let mut constant = self.untouched;
        while accepted < self.batch.bytes().len() {
            if !constant {
                self.tighten_write()
                    .map_err(|cause| self.write_fault(command, accepted, cause))?;
            }
            constant = false;
            match self
                .socket
                .send_with_flags(&self.batch.bytes()[accepted..], SEND_FLAGS)
            {
                Ok(0) => {
                    let cause = Cause::Closed {
                        server: self.server.to_string(),
                    };
                    return Err(self.write_fault(command, accepted, cause));
                }
                Ok(count) => accepted += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let cause = self.cause_of("write to", "writing to", error);
                    return Err(self.write_fault(command, accepted, cause));
                }
            }
        }
        Ok(sent)
    }

    /// The next reply, in the order of the commands sent. Server errors are values here.
    pub(super) fn reply(&mut self, command: &'static str) -> Result<Value, Fault> {
        loop {
            match self.inbox.take() {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(Garbage) => {
                    self.broken = true;
                    let cause = self.garbage(command);
                    return Err(Fault::new(Class::Unknown, command, cause));
                }
            }
            if let Err(cause) = self.receive() {
                self.broken = true;
                return Err(Fault::new(Class::Unknown, command, cause));
            }
        }
    }

    /// Ends an exchange in which every reply has come: gives the socket its constant
    /// timeouts back. Nothing is left to do on the hot path.
    pub(super) fn settle(&mut self) {
        if !self.broken && self.restore_timeouts().is_err() {
            self.broken = true;
        }
    }

    /// Whether the peer has closed, or said something unasked, while the link lay idle. It
    /// takes three system calls, so it is for links that lay idle for a while.
    pub(super) fn is_stale(&self) -> bool {
        let peek = || -> io::Result<usize> {
            let mut byte = [std::mem::MaybeUninit::uninit()];
            self.socket.set_nonblocking(true)?;
            let read = self.socket.peek(&mut byte);
            self.socket.set_nonblocking(false)?;
            read
        };
        !matches!(peek(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn receive(&mut self) -> Result<(), Cause> {
        // The constant timeout serves for a batch whose replies come in one piece: no
        // system call is spent on it. Every further read has only what is left.
        if !self.untouched {
            self.tighten_read()?;
        }
        self.untouched = false;
        loop {
            match io::Read::read(&mut &self.socket, self.inbox.room()) {
                Ok(0) => {
                    return Err(Cause::Closed {
                        server: self.server.to_string(),
                    });
                }
                Ok(count) => {
                    self.inbox.filled(count);
                    return Ok(());
                }
                // Any signal handler interrupts a read that has a timeout, and the kernel
                // does not go on by itself, whatever flags the handler was set with.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.tighten_read()?;
                }
                Err(error) => return Err(self.cause_of("read from", WAITING, error)),
            }
        }
    }

    fn tighten_read(&mut self) -> Result<(), Cause> {
        let left = self.left(WAITING)?;
        self.tightened.read = true;
        self.socket
            .set_read_timeout(Some(left))
            .map_err(|error| self.cause_of("set a timeout for", WAITING, error))
    }

    fn tighten_write(&mut self) -> Result<(), Cause> {
        let left = self.left("writing to")?;
        self.tightened.write = true;
        self.socket
            .set_write_timeout(Some(left))
            .map_err(|error| self.cause_of("set a timeout for", WAITING, error))
    }

    fn left(&self, waiting: &'static str) -> Result<Duration, Cause> {
        let left = self.read_by.since(self.clock.now());
        if left.is_zero() {
            return Err(self.timed_out(waiting));
        }
        // What is left may be less than any timer tick; it is still worth a look.
        Ok(left.max(SHORTEST_TIMEOUT))
    }

    fn restore_timeouts(&mut self) -> io::Result<()> {
        if self.tightened.read {
            self.socket.set_read_timeout(Some(self.command_timeout))?;
        }
        if self.tightened.write {
            self.socket.set_write_timeout(Some(self.command_timeout))?;
        }
        self.tightened = Tightened::default();
        Ok(())
    }

    /// The bytes accepted decide: a command without its last byte cannot run.
    fn write_fault(&mut self, command: &'static str, accepted: usize, cause: Cause) -> Fault {
        self.broken = true;
        let class = if accepted < self.batch.first_end() {
            Class::NotSent
        } else {
            Class::Unknown
        };
        Fault::new(class, command, cause)
    }

    fn cause_of(&self, doing: &'static str, waiting: &'static str, error: io::Error) -> Cause {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.timed_out(waiting),
            _ => Cause::Io {
                doing,
                server: self.server.to_string(),
                source: Arc::new(error),
            },
        }
    }

    pub(super) fn garbage(&self, command: &'static str) -> Cause {
        Cause::Garbage {
            command,
            server: self.server.to_string(),
        }
    }

    fn timed_out(&self, doing: &'static str) -> Cause {
        Cause::TimedOut {
            doing,
            server: self.server.to_string(),
            after: self.read_by.since(self.last_used),
        }
    }
}
