//! One call of a script, and what has to be asked on the same link right before it.

use redis::Value;

use super::broken::{Broken, Connection};
use super::command::{Batch, Decimal};
use super::fault::{Class, Fault, class_of};
use super::link::Link;
use super::scripts::Script;
use super::target::Owner;
use super::verbs::Answer;
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

/// What is asked on the same link right before a script, in the same round trip.
#[derive(Clone, Copy, Default)]
pub(super) struct Preface<'a> {
    /// The link to fence off.
    broken: Option<&'a Broken>,
    role: bool,
}

impl<'a> Preface<'a> {
    /// Asks for the role of the server.
    pub(super) const fn role() -> Self {
        Self {
            broken: None,
            role: true,
        }
    }

    /// Fences `broken` off, and asks for the role.
    pub(super) const fn fencing_off(broken: &'a Broken) -> Self {
        Self {
            broken: Some(broken),
            role: true,
        }
    }
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
pub(super) struct Outcome {
    pub(super) value: Value,
    pub(super) sent: Time,
    barrier: bool,
    shares_history: bool,
    role: Role,
}

impl Outcome {
    /// Whether the server is a known primary; a known replica is a fault, and its link is
    /// given up, so that the next one is looked up anew.
    pub(super) fn proven(&self, link: &mut Link, command: &'static str) -> Result<bool, Fault> {
        if self.role == Role::Replica {
            link.give_up();
            let cause = Cause::Replica {
                server: link.server().to_string(),
            };
            return Err(Fault::new(Class::NotRun, command, cause));
        }
        if self.role == Role::NotNow {
            let cause = Cause::RoleNotNow {
                server: link.server().to_string(),
            };
            return Err(Fault::new(Class::NotRun, command, cause));
        }
        Ok(self.role == Role::Primary)
    }
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
    fn counter_refused(&self, code: i64) -> Fault {
        let counter = self.keys.last().copied().unwrap_or_default();
        let cause = Cause::Counter {
            counter: String::from_utf8_lossy(counter).into_owned(),
            exhausted: code == -2,
        };
        Fault::new(Class::Refused, self.command(), cause)
    }

    /// Calls the script by its digest, and with its text where the server does not have it.
    pub(super) fn evaluate(
        &self,
        link: &mut Link,
        preface: &Preface<'_>,
        end: Time,
    ) -> Result<Outcome, Fault> {
        let command = self.command();
        link.batch.clear();
        let kill = preface.broken.and_then(Broken::to_kill);
        if let Some(Connection { id, addr }) = kill {
            link.batch.push(&[
                b"CLIENT",
                b"KILL",
                b"ID",
                id.as_bytes(),
                b"ADDR",
                addr.as_bytes(),
            ]);
        }
        if preface.role {
            link.batch.push(&[b"ROLE"]);
        }
        self.pack(&mut link.batch, b"EVALSHA", self.script.digest().as_bytes());
        let sent = link.send(command, end)?;
        if kill.is_some() {
            let killed = link.reply("CLIENT KILL")?;
            if let (Value::Int(killed), Some(broken)) = (killed, preface.broken) {
                broken.note_killed(killed, link.identity());
            }
        }
        let mut role = if preface.role {
            role_of(&link.reply("ROLE")?)
        } else {
            Role::Untold
        };
        let mut value = link.reply(command)?;
        if matches!(&value, Value::ServerError(error) if error.code() == "NOSCRIPT") {
            link.batch.clear();
            // Once more: the role is to be that of the server that runs it.
            if preface.role {
                link.batch.push(&[b"ROLE"]);
            }
            self.pack(&mut link.batch, b"EVAL", self.script.code().as_bytes());
            link.batch
                .push(&[b"SCRIPT", b"LOAD", self.script.code().as_bytes()]);
            link.send("EVAL", end)?;
            if preface.role {
                role = role_of(&link.reply("ROLE")?);
            }
            value = link.reply("EVAL")?;
            // Proxies and restricted users may not load; then the next call comes here too.
            // The answer is in hand: a lost reply to this costs the link and nothing else.
            if link.reply("SCRIPT LOAD").is_err() {
                link.give_up();
            }
        }
        Ok(Outcome {
            value,
            sent,
            barrier: preface.broken.is_some_and(Broken::is_fenced_off),
            shares_history: preface
                .broken
                .is_some_and(|broken| broken.shares_history(link.identity())),
            role,
        })
    }

    pub(super) fn run(
        &self,
        link: &mut Link,
        preface: &Preface<'_>,
        end: Time,
    ) -> Result<Answer, Fault> {
        let outcome = self.evaluate(link, preface, end)?;
        let (owner, fence) = match &outcome.value {
            Value::Int(fence @ 1..) if self.draws_fence => {
                (Owner::Ours, Some(fence.unsigned_abs()))
            }
            Value::Int(1) => (Owner::Ours, None),
            Value::Int(code @ (0 | -1)) => (owner_of(*code), None),
            Value::Int(code @ (-2 | -3)) => return Err(self.counter_refused(*code)),
            Value::Array(items) => match &items[..] {
                [Value::Int(1), Value::BulkString(counter)] => (Owner::Ours, number(counter)),
                [Value::Int(1), Value::Nil] => (Owner::Ours, None),
                _ => return Err(unexpected(link, self.command())),
            },
            Value::ServerError(error) => {
                let fault = server_error(link, self.command(), error);
                if fault.class != Class::WrongType || !self.compares {
                    return Err(fault);
                }
                // A list, say, is not our record.
                (Owner::Another, None)
            }
            _ => return Err(unexpected(link, self.command())),
        };
        // A script that found the record ours has written, which a replica cannot.
        let proven = match owner {
            Owner::Ours => true,
            Owner::Gone | Owner::Another => outcome.proven(link, self.command())?,
        };
        Ok(Answer {
            owner,
            proven,
            barrier: outcome.barrier,
            shares_history: outcome.shares_history,
            sent: outcome.sent,
            fence,
        })
    }
}

/// A server's own error. One that does not say whether the command ran ends the link.
pub(super) fn server_error(
    link: &mut Link,
    command: &'static str,
    error: &redis::ServerError,
) -> Fault {
    let fault = Fault::of_reply(command, link.server(), error);
    if fault.class == Class::Unknown || fault.is_of_a_replica() {
        link.give_up();
    }
    fault
}

/// A reply of a kind that the command cannot have: nobody knows what has been run.
pub(super) fn unexpected(link: &mut Link, command: &'static str) -> Fault {
    link.give_up();
    Fault::new(Class::Unknown, command, link.garbage(command))
}

/// What the compare scripts answer, as a number.
pub(super) const fn owner_of(code: i64) -> Owner {
    match code {
        1 => Owner::Ours,
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
