//! One call of a script, and what has to be asked on the same link right before it.

use redis::Value;

use super::broken::{Broken, Fencer};
use super::command::{Batch, Decimal};
use super::fault::{Class, Fault, class_of};
use super::link::Link;
use super::request::{COURTESY, Replies, Request};
use super::scripts::Script;
use super::target::Owner;
use super::verbs::Answer;
use super::wire::{Connection, Identity};
use crate::clock::Time;
use crate::error::Cause;

/// One call of a script.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) script: &'static Script,
    pub(super) keys: &'a [&'a [u8]],
    pub(super) arguments: &'a [&'a [u8]],
    /// Whether it compares a record with ours, so that a key of another type is just
    /// another's, or takes what is free.
    pub(super) compares: bool,
    /// Whether a number above 0 is a fence and not just a yes.
    pub(super) draws_fence: bool,
}

/// A call as it goes out: by the script's digest or with its text, with or without a question
/// for the server's role before it. All of it in one piece, so that it is one server that
/// answers.
struct Question<'a> {
    call: &'a Call<'a>,
    role: bool,
    text: bool,
}

impl Request for Question<'_> {
    fn pack(&self, batch: &mut Batch) {
        let script = self.call.script;
        if self.role {
            batch.push(&[b"ROLE"]);
        }
        if self.text {
            self.call.pack(batch, b"EVAL", script.code().as_bytes());
            batch.push(&[b"SCRIPT", b"LOAD", script.code().as_bytes()]);
        } else {
            self.call
                .pack(batch, b"EVALSHA", script.digest().as_bytes());
        }
    }

    fn commands(&self) -> &'static [&'static str] {
        match (self.role, self.text) {
            (false, false) => &["EVALSHA"],
            (true, false) => &["ROLE", "EVALSHA"],
            // Proxies and restricted users may not load; then the next call comes here too.
            (false, true) => &["EVAL", COURTESY],
            (true, true) => &["ROLE", "EVAL", COURTESY],
        }
    }
}

/// The end of another link.
struct Kill<'a>(&'a Connection);

impl Request for Kill<'_> {
    fn pack(&self, batch: &mut Batch) {
        let Connection { id, addr } = self.0;
        let (id, addr) = (id.as_bytes(), addr.as_bytes());
        batch.push(&[b"CLIENT", b"KILL", b"ID", id, b"ADDR", addr]);
    }

    fn commands(&self) -> &'static [&'static str] {
        &["CLIENT KILL"]
    }
}

/// Fences a broken link off over another one. It is over then, one way or the other, unless the
/// server could not do it at the moment.
pub(super) fn fence_off(fencer: &Fencer<'_>, link: &mut Link, end: Time) -> Result<(), Fault> {
    let mut replies = link.exchange(&Kill(fencer.connection), end)?;
    let killed = match replies.take(0) {
        Value::Int(killed) => Some(killed),
        Value::ServerError(error) if class_of(&error) == Class::NotRun => {
            return Err(replies.refused("CLIENT KILL", link.server(), &error));
        }
        _ => None,
    };
    fencer.note(killed, replies.identity());
    Ok(())
}

/// The role of a server, as it tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    Replica,
    /// The user may not ask.
    Untold,
    /// It cannot say now.
    NotNow,
}

/// The replies to a call; the value may be an error of the server.
pub(super) struct Outcome<'a> {
    pub(super) value: Value,
    role: Role,
    replies: Replies,
    server: &'a str,
}

impl Outcome<'_> {
    /// Whether the server is a known primary; a known replica is a fault, and its link is
    /// given up, so that the next one is looked up anew.
    pub(super) fn proven(&self, command: &'static str) -> Result<bool, Fault> {
        let server = || self.server.to_owned();
        let cause = match self.role {
            Role::Primary => return Ok(true),
            Role::Untold => return Ok(false),
            Role::Replica => {
                self.replies.give_up();
                Cause::Replica { server: server() }
            }
            Role::NotNow => Cause::RoleNotNow { server: server() },
        };
        Err(Fault::new(Class::NotRun, command, cause))
    }

    pub(super) fn refused(&self, command: &'static str, error: &redis::ServerError) -> Fault {
        self.replies.refused(command, self.server, error)
    }

    pub(super) fn unexpected(&self, command: &'static str) -> Fault {
        self.replies.unexpected(command, self.server)
    }

    /// The clock before the call went out.
    pub(super) const fn sent(&self) -> Time {
        self.replies.sent
    }

    fn identity(&self) -> &Identity {
        self.replies.identity()
    }
}

/// How a call gets to a server and back.
pub(super) trait Carrier {
    fn carry(&mut self, request: &dyn Request) -> Result<Replies, Fault>;

    fn server(&self) -> &str;
}

impl Call<'_> {
    pub(super) const fn command(&self) -> &'static str {
        "EVALSHA"
    }

    /// Appends the call to a batch: by the script's digest or with its text.
    pub(super) fn pack(&self, batch: &mut Batch, command: &[u8], script: &[u8]) {
        batch.open(3 + self.keys.len() + self.arguments.len());
        batch.argument(command);
        batch.argument(script);
        batch.argument(Decimal::of(self.keys.len() as u64).as_bytes());
        for argument in self.keys.iter().chain(self.arguments) {
            batch.argument(argument);
        }
        batch.close();
    }

    /// A fence counter that cannot be drawn from: another try meets it again.
    pub(super) fn counter_refused(&self, code: i64) -> Fault {
        let counter = self.keys.last().copied().unwrap_or_default();
        let cause = Cause::Counter {
            counter: String::from_utf8_lossy(counter).into_owned(),
            exhausted: code == -2,
        };
        Fault::new(Class::Refused, self.command(), cause)
    }

    /// Calls the script by its digest, and with its text where the server does not have it.
    pub(super) fn evaluate<'a>(
        &self,
        role: bool,
        carrier: &'a mut dyn Carrier,
    ) -> Result<Outcome<'a>, Fault> {
        let mut text = false;
        loop {
            let question = Question {
                call: self,
                role,
                text,
            };
            let mut replies = carrier.carry(&question)?;
            let value = replies.take(usize::from(role));
            if !text && matches!(&value, Value::ServerError(error) if error.code() == "NOSCRIPT") {
                // With its role once more: it is to be that of the server that runs it.
                text = true;
                continue;
            }
            let role = if role {
                role_of(&replies.take(0))
            } else {
                Role::Untold
            };
            return Ok(Outcome {
                value,
                role,
                replies,
                server: carrier.server(),
            });
        }
    }

    /// The same, and what the answer says of the record. `after` is the link that was fenced off
    /// before, if any.
    pub(super) fn run(
        &self,
        role: bool,
        after: Option<&Broken>,
        carrier: &mut dyn Carrier,
    ) -> Result<Answer, Fault> {
        let outcome = self.evaluate(role, carrier)?;
        let mut others_wait = false;
        let (owner, fence) = match &outcome.value {
            Value::Int(fence @ 1..) if self.draws_fence => {
                (Owner::Ours, Some(fence.unsigned_abs()))
            }
            Value::Int(code @ (1 | 2)) => {
                others_wait = *code == 2;
                (Owner::Ours, None)
            }
            Value::Int(code @ (0 | -1)) => (owner_of(*code), None),
            Value::Int(code @ (-2 | -3)) => return Err(self.counter_refused(*code)),
            Value::Array(items) => match &items[..] {
                [Value::Int(1), Value::BulkString(counter)] => (Owner::Ours, number(counter)),
                [Value::Int(1), Value::Nil] => (Owner::Ours, None),
                _ => return Err(outcome.unexpected(self.command())),
            },
            Value::ServerError(error) => {
                let fault = outcome.refused(self.command(), error);
                if fault.class != Class::WrongType || !self.compares {
                    return Err(fault);
                }
                // A list, say, is not our record.
                (Owner::Another, None)
            }
            _ => return Err(outcome.unexpected(self.command())),
        };
        // A script that found the record ours has written, which a replica cannot.
        let proven = match owner {
            Owner::Ours => true,
            Owner::Gone | Owner::Another => outcome.proven(self.command())?,
        };
        Ok(Answer {
            owner,
            proven,
            barrier: after.is_some_and(Broken::is_fenced_off),
            shares_history: after.is_some_and(|broken| broken.shares_history(outcome.identity())),
            sent: outcome.sent(),
            fence,
            others_wait,
        })
    }
}

/// A link that is one caller's for a time.
pub(super) struct Alone<'a> {
    pub(super) link: &'a mut Link,
    pub(super) end: Time,
}

impl Carrier for Alone<'_> {
    fn carry(&mut self, request: &dyn Request) -> Result<Replies, Fault> {
        self.link.exchange(request, self.end)
    }

    fn server(&self) -> &str {
        self.link.server()
    }
}

/// What the compare scripts answer, as a number.
pub(super) const fn owner_of(code: i64) -> Owner {
    match code {
        1 | 2 => Owner::Ours,
        0 => Owner::Gone,
        _ => Owner::Another,
    }
}

pub(super) fn role_of(reply: &Value) -> Role {
    match reply {
        Value::Array(items) => match items.first() {
            Some(Value::BulkString(name)) if name == b"master" => Role::Primary,
            Some(Value::BulkString(_)) => Role::Replica,
            _ => Role::Untold,
        },
        Value::ServerError(error) if class_of(error) == Class::NotRun => Role::NotNow,
        _ => Role::Untold,
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
