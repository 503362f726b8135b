//! What is sent to a server in one piece, and what it answers.

use std::mem;
use std::sync::Arc;

use redis::Value;

use super::broken::Broken;
use super::command::Batch;
use super::fault::{Class, Fault};
use super::wire::{Identity, Wire};
use crate::clock::Time;
use crate::error::Cause;

/// Asks a server to keep a script. Nothing depends on its reply.
pub(super) const COURTESY: &str = "SCRIPT LOAD";

/// A few commands that go out together, on one link and with nothing between them.
pub(super) trait Request {
    /// Appends the commands to a batch.
    fn pack(&self, batch: &mut Batch);

    /// Their names, in the same order.
    fn commands(&self) -> &'static [&'static str];
}

/// The command that a request is about: the last one, a courtesy aside.
pub(super) fn subject(commands: &[&'static str]) -> &'static str {
    let wanted = commands.iter().rev().find(|command| **command != COURTESY);
    wanted.copied().unwrap_or(COURTESY)
}

/// Whether `value` is of a kind that `command` can be answered with. Where one is not, replies
/// are not matched to commands any more, and nothing that follows on the link can be believed.
pub(super) fn fits(command: &str, value: &Value) -> bool {
    #[cfg(test)]
    assert_ne!(command, "PANIC", "on purpose, while a reply is read");
    // By what has come: the names to compare it with then differ in their lengths nearly always,
    // and this is on the hot path.
    match value {
        Value::ServerError(_) => true,
        Value::Int(_) => !matches!(command, "SET" | "ROLE" | "BLPOP" | COURTESY),
        Value::Okay => !matches!(
            command,
            "EVALSHA" | "EVAL" | "ROLE" | "BLPOP" | "EXISTS" | "CLIENT KILL" | COURTESY
        ),
        Value::Nil => !matches!(command, "ROLE" | "EXISTS" | "CLIENT KILL" | COURTESY),
        Value::Array(_) => !matches!(command, "SET" | "EXISTS" | "CLIENT KILL" | COURTESY),
        Value::BulkString(_) | Value::SimpleString(_) => !matches!(
            command,
            "SET" | "EVALSHA" | "EVAL" | "ROLE" | "BLPOP" | "EXISTS" | "CLIENT KILL"
        ),
        _ => false,
    }
}

/// The replies to one request, and the link that they came on.
#[derive(Debug)]
pub(super) struct Replies {
    /// The clock before the first byte was handed to the socket.
    pub(super) sent: Time,
    wire: Arc<Wire>,
    first: Value,
    /// Nearly always none: what is moved along with every reply is to be small.
    others: Vec<Value>,
    count: usize,
}

impl Replies {
    pub(super) const fn new(sent: Time, wire: Arc<Wire>) -> Self {
        Self {
            sent,
            wire,
            first: Value::Nil,
            others: Vec::new(),
            count: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, value: Value) {
        if self.count == 0 {
            self.first = value;
        } else {
            self.others.push(value);
        }
        self.count += 1;
    }

    /// Takes the reply to one of the commands out.
    pub(super) fn take(&mut self, index: usize) -> Value {
        let place = match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(index) => self.others.get_mut(index),
        };
        place.map_or(Value::Nil, |value| mem::replace(value, Value::Nil))
    }

    /// How the server knows the link that they came on.
    pub(super) fn identity(&self) -> &Identity {
        self.wire.identity()
    }

    /// Takes the link out of use: it leads to the wrong server, or to one that answers in words
    /// that nobody knows.
    pub(super) fn give_up(&self) {
        self.wire.give_up();
    }

    /// A server's own error. One that does not say whether the command ran ends the link.
    pub(super) fn refused(
        &self,
        command: &'static str,
        server: &str,
        error: &redis::ServerError,
    ) -> Fault {
        let mut fault = Fault::of_reply(command, server, error);
        if fault.class == Class::Unknown || fault.is_of_a_replica() {
            self.give_up();
        }
        if fault.class == Class::Unknown {
            fault.broken = Some(Broken::ended(&self.wire));
        }
        fault
    }

    /// A reply that the command cannot have: nobody knows what has been run.
    pub(super) fn unexpected(&self, command: &'static str, server: &str) -> Fault {
        self.give_up();
        let server = server.to_owned();
        let mut fault = Fault::new(Class::Unknown, command, Cause::Garbage { command, server });
        fault.broken = Some(Broken::ended(&self.wire));
        fault
    }
}
