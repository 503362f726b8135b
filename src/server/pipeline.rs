//! A link on which many commands are on their way at a time, and whose reader never blocks.
//!
//! It is a [`Link`] that has been opened and then put to this use: who waits for one reply at a
//! time is better served by the other.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use redis::Value;
use socket2::Socket;

use super::command::Batch;
use super::inbox::Inbox;
use super::link::Link;
use super::reply::Garbage;
use super::socket::SEND_FLAGS;
use crate::clock::Time;
use crate::error::Cause;

/// Room for the replies to a few hundred renewals.
const INBOX: usize = 4096;

/// Which part of an attempt a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Role,
    Script,
    /// A script was sent to be kept; whether it was is no matter.
    Load,
}

/// A reply that is to come, in the order in which they come.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) flight: u64,
    pub(super) part: Part,
    pub(super) command: &'static str,
    /// How many bytes the server must have for the command to be whole.
    ends_at: u64,
    /// When it was packed.
    pub(super) sent: Time,
    /// Without a reply by then the link is no good.
    pub(super) last: Time,
}

pub(super) struct Pipeline {
    socket: Socket,
    server: Arc<str>,
    pub(super) batch: Batch,
    /// Bytes that earlier batches had, and how many the socket has accepted in all.
    before: u64,
    accepted: u64,
    inbox: Inbox,
    pub(super) expected: VecDeque<Expected>,
    /// When something came in last, or when it was opened.
    pub(super) heard: Time,
    /// When it last had something to do.
    pub(super) last_used: Time,
}

impl Pipeline {
    pub(super) fn new(link: Link, now: Time) -> io::Result<Self> {
        let (socket, server) = link.into_socket().ok_or(io::ErrorKind::ResourceBusy)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            server,
            batch: Batch::default(),
            before: 0,
            accepted: 0,
            inbox: Inbox::of(INBOX),
            expected: VecDeque::new(),
            heard: now,
            last_used: now,
        })
    }

    pub(super) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether the socket has not taken everything yet.
    pub(super) fn has_more_to_write(&self) -> bool {
        self.accepted < self.queued()
    }

    /// Notes that a reply to the command packed last is expected.
    pub(super) fn expect(
        &mut self,
        flight: u64,
        part: Part,
        command: &'static str,
        (sent, last): (Time, Time),
    ) {
        self.expected.push_back(Expected {
            flight,
            part,
            command,
            ends_at: self.queued(),
            sent,
            last,
        });
        self.last_used = sent;
    }

    /// The attempts of which the socket has taken a part at most: they can still be stopped, at
    /// the price of the link.
    pub(super) fn unsent(&self) -> impl Iterator<Item = u64> {
        let accepted = self.accepted;
        self.expected
            .iter()
            .filter(move |expected| accepted < expected.ends_at)
            .map(|expected| expected.flight)
    }

    /// Whether the server may have the whole of this command.
    pub(super) const fn was_sent(&self, expected: &Expected) -> bool {
        expected.ends_at <= self.accepted
    }

    /// Writes as much as the socket takes at the moment.
    pub(super) fn write(&mut self) -> Result<(), Cause> {
        while self.has_more_to_write() {
            let from = usize::try_from(self.accepted - self.before).unwrap_or(usize::MAX);
            let rest = self.batch.bytes().get(from..).unwrap_or_default();
            match self.socket.send_with_flags(rest, SEND_FLAGS) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => self.accepted += count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(self.broken("write to", error)),
            }
        }
        self.before = self.accepted;
        self.batch.clear();
        Ok(())
    }

    /// Takes the next reply, with what it is the reply to; `None` if none is there.
    pub(super) fn read(&mut self) -> Result<Option<(Expected, Value)>, Cause> {
        loop {
            match self.inbox.take() {
                Ok(Some(value)) => {
                    let Some(expected) = self.expected.pop_front() else {
                        return Err(self.garbage("nothing"));
                    };
                    return Ok(Some((expected, value)));
                }
                Ok(None) => {}
                Err(Garbage) => {
                    let command = self
                        .expected
                        .front()
                        .map_or("nothing", |first| first.command);
                    return Err(self.garbage(command));
                }
            }
            if !self.receive()? {
                // Half a reply that nobody has asked for is as bad as a whole one.
                if self.expected.is_empty() && !self.inbox.is_empty() {
                    return Err(self.garbage("nothing"));
                }
                return Ok(None);
            }
        }
    }

    /// Whether anything was there.
    fn receive(&mut self) -> Result<bool, Cause> {
        loop {
            match io::Read::read(&mut &self.socket, self.inbox.room()) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => {
                    self.inbox.filled(count);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(self.broken("read from", error)),
            }
        }
    }

    fn queued(&self) -> u64 {
        self.before + self.batch.bytes().len() as u64
    }

    fn closed(&self) -> Cause {
        Cause::Closed {
            server: self.server.to_string(),
        }
    }

    fn broken(&self, doing: &'static str, source: io::Error) -> Cause {
        Cause::Io {
            doing,
            server: self.server.to_string(),
            source: Arc::new(source),
        }
    }

    pub(super) fn garbage(&self, command: &'static str) -> Cause {
        Cause::Garbage {
            command,
            server: self.server.to_string(),
        }
    }
}
