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

use super::command::Batch;
use super::fault::{Class, Fault};
use super::inbox::Inbox;
use super::reply::Garbage;
use super::request::{COURTESY, Replies, Request, fits, subject};
use super::socket::{SEND_FLAGS, SHORTEST_TIMEOUT};
use super::wire::Wire;
use crate::clock::{Clock, Time};
use crate::error::Cause;

/// What a link does when its time for a reply runs out.
pub(super) const WAITING: &str = "waiting for a reply from";

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
    wire: Arc<Wire>,
    server: Arc<str>,
    clock: Clock,
    command_timeout: Duration,
    /// What goes out next. Kept, so that packing allocates nothing.
    pub(super) batch: Batch,
    /// How many bytes of it the socket has taken.
    accepted: usize,
    inbox: Inbox,
    /// When the replies of the batch sent last must be in.
    read_by: Time,
    /// Whether the constant timeouts of the socket still serve for that: before the first
    /// byte of the exchange has moved, and if it has all of the command timeout.
    untouched: bool,
    last_used: Time,
    tightened: Tightened,
    /// How many convoys it has carried.
    voyages: u64,
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
            wire: Arc::new(Wire::new(socket)),
            server,
            clock,
            command_timeout,
            batch: Batch::default(),
            accepted: 0,
            inbox: Inbox::of(INBOX),
            read_by: now,
            untouched: true,
            last_used: now,
            tightened: Tightened::default(),
            voyages: 0,
            broken: false,
        })
    }

    /// The connection under it.
    pub(super) const fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    /// Its socket, for a use in which nobody blocks on a reply; none if somebody still has a
    /// command unanswered on it.
    pub(super) fn into_socket(self) -> Option<(Socket, Arc<str>)> {
        let wire = Arc::into_inner(self.wire)?;
        Some((wire.socket, self.server))
    }

    pub(super) const fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Whether it must carry no further command.
    pub(super) fn is_broken(&self) -> bool {
        self.broken || self.wire.is_given_up()
    }

    /// Takes it out of use, though nothing is on its way.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }

    /// When the replies to what was sent last must be in.
    pub(super) const fn read_by(&self) -> Time {
        self.read_by
    }

    pub(super) fn next_voyage(&mut self) -> u64 {
        self.voyages += 1;
        self.voyages
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// How many bytes of the batch sent last the socket has taken.
    pub(super) const fn accepted(&self) -> usize {
        self.accepted
    }

    /// Sends a request and reads its replies, which must be in by `end`; the link is the
    /// caller's alone.
    pub(super) fn exchange(&mut self, request: &dyn Request, end: Time) -> Result<Replies, Fault> {
        self.converse(request, self.command_timeout, end)
    }

    /// The same for a request that the server answers after up to `span` by intention: the time
    /// for the reply begins behind it, and is over at `end` at the latest.
    pub(super) fn exchange_within(
        &mut self,
        request: &dyn Request,
        span: Duration,
        end: Time,
    ) -> Result<Replies, Fault> {
        let most = span.saturating_add(self.command_timeout);
        self.converse(request, most, end)
    }

    fn converse(
        &mut self,
        request: &dyn Request,
        most: Duration,
        end: Time,
    ) -> Result<Replies, Fault> {
        self.batch.clear();
        request.pack(&mut self.batch);
        let commands = request.commands();
        let sent = self.send_within(subject(commands), most, end)?;
        let mut replies = Replies::new(sent, Arc::clone(&self.wire));
        while let Some(command) = commands.get(replies.len()) {
            match self.reply(command) {
                Ok(value) => replies.push(value),
                // What the request is about is in hand: this costs the link and nothing else.
                Err(_) if *command == COURTESY => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(replies)
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
        if self.untouched && self.restore_timeouts().is_err() {
            self.untouched = false;
        }
        self.accepted = 0;
        if self.is_broken() || !self.inbox.is_empty() {
            // A link that was given up between two commands, or a reply that nobody has asked
            // for: whatever comes next would be taken for the answer to something else.
            self.broken = true;
            let cause = if self.inbox.is_empty() {
                let server = self.server.to_string();
                Cause::Closed { server }
            } else {
                self.garbage(command)
            };
            return Err(Fault::new(Class::NotSent, command, cause));
        }
        let mut constant = self.untouched;
        while self.accepted < self.batch.bytes().len() {
            if !constant && let Err(cause) = self.tighten_write() {
                return Err(self.write_fault(command, cause));
            }
            constant = false;
            let rest = &self.batch.bytes()[self.accepted..];
            match self.wire.socket.send_with_flags(rest, SEND_FLAGS) {
                Ok(0) => {
                    let cause = Cause::Closed {
                        server: self.server.to_string(),
                    };
                    return Err(self.write_fault(command, cause));
                }
                Ok(count) => self.accepted += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let cause = self.cause_of("write to", "writing to", error);
                    return Err(self.write_fault(command, cause));
                }
            }
        }
        Ok(sent)
    }

    /// The next reply, in the order of the commands sent. Server errors are values here.
    pub(super) fn reply(&mut self, command: &'static str) -> Result<Value, Fault> {
        loop {
            if let Some(value) = self.reply_by(command, Time::MAX)? {
                return Ok(value);
            }
        }
    }

    /// The next reply, if it has come in already: no look is taken at the socket.
    pub(super) fn reply_at_hand(&mut self, command: &'static str) -> Result<Option<Value>, Fault> {
        match self.inbox.take() {
            Ok(Some(value)) if fits(command, &value) => Ok(Some(value)),
            Ok(None) => Ok(None),
            Ok(Some(_)) | Err(Garbage) => {
                self.broken = true;
                let cause = self.garbage(command);
                Err(Fault::new(Class::Unknown, command, cause))
            }
        }
    }

    /// The next reply, or `None` at `until`, if that comes before the time for the replies is up: then
    /// the link works as well as before, and the reply may still come.
    pub(super) fn reply_by(
        &mut self,
        command: &'static str,
        until: Time,
    ) -> Result<Option<Value>, Fault> {
        loop {
            if let Some(value) = self.reply_at_hand(command)? {
                return Ok(Some(value));
            }
            match self.receive(until) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(cause) => {
                    self.broken = true;
                    return Err(Fault::new(Class::Unknown, command, cause));
                }
            }
        }
    }

    /// Whether the peer has closed, or said something unasked, while the link lay idle. It
    /// takes three system calls, so it is for links that lay idle for a while.
    pub(super) fn is_stale(&self) -> bool {
        let peek = || -> io::Result<usize> {
            let mut byte = [std::mem::MaybeUninit::uninit()];
            let socket = &self.wire.socket;
            socket.set_nonblocking(true)?;
            let read = socket.peek(&mut byte);
            socket.set_nonblocking(false)?;
            read
        };
        !matches!(peek(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// `false` if nothing has come by `until`, which is then earlier than the time for the replies.
    fn receive(&mut self, until: Time) -> Result<bool, Cause> {
        // The constant timeout serves for a batch whose replies come in one piece: no
        // system call is spent on it. Every further read has only what is left.
        let mut constant = self.untouched && self.read_by <= until;
        self.untouched = false;
        loop {
            if !constant && !self.tighten_read(until)? {
                return Ok(false);
            }
            constant = false;
            match io::Read::read(&mut &self.wire.socket, self.inbox.room()) {
                Ok(0) => {
                    return Err(Cause::Closed {
                        server: self.server.to_string(),
                    });
                }
                Ok(count) => {
                    self.inbox.filled(count);
                    return Ok(true);
                }
                // Any signal handler interrupts a read that has a timeout, and the kernel
                // does not go on by itself, whatever flags the handler was set with.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) && until < self.read_by =>
                {
                    return Ok(false);
                }
                Err(error) => return Err(self.cause_of("read from", WAITING, error)),
            }
        }
    }

    /// `false` if there is nothing left of the time until `until`.
    fn tighten_read(&mut self, until: Time) -> Result<bool, Cause> {
        if until < self.read_by && until <= self.clock.now() {
            return Ok(false);
        }
        let left = self.left(self.read_by.min(until), WAITING)?;
        self.tightened.read = true;
        self.wire
            .socket
            .set_read_timeout(Some(left))
            .map_err(|error| self.cause_of("set a timeout for", WAITING, error))?;
        Ok(true)
    }

    fn tighten_write(&mut self) -> Result<(), Cause> {
        let left = self.left(self.read_by, "writing to")?;
        self.tightened.write = true;
        self.wire
            .socket
            .set_write_timeout(Some(left))
            .map_err(|error| self.cause_of("set a timeout for", WAITING, error))
    }

    fn left(&self, until: Time, waiting: &'static str) -> Result<Duration, Cause> {
        let left = until.since(self.clock.now());
        if left.is_zero() {
            return Err(self.timed_out(waiting));
        }
        // What is left may be less than any timer tick; it is still worth a look.
        Ok(left.max(SHORTEST_TIMEOUT))
    }

    /// Gives the socket its constant timeouts back. Nothing is left to do on the hot path; and not
    /// right after an exchange that had others, since somebody may wait for what comes of it.
    fn restore_timeouts(&mut self) -> io::Result<()> {
        if self.tightened.read {
            let socket = &self.wire.socket;
            socket.set_read_timeout(Some(self.command_timeout))?;
        }
        if self.tightened.write {
            let socket = &self.wire.socket;
            socket.set_write_timeout(Some(self.command_timeout))?;
        }
        self.tightened = Tightened::default();
        Ok(())
    }

    /// The bytes accepted decide: a command without its last byte cannot run.
    fn write_fault(&mut self, command: &'static str, cause: Cause) -> Fault {
        self.broken = true;
        let class = if self.accepted < self.batch.first_end() {
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

    fn garbage(&self, command: &'static str) -> Cause {
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
