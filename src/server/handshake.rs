//! Opening a link: connect, enter, learn how the server knows it, load the scripts. One
//! deadline for all of it, one round trip after the connect.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::address::Address;
use super::command::Decimal;
use super::fault::{Class, Fault};
use super::link::Link;
use super::route::Route;
use super::scripts;
use super::socket;
use super::wire::{Connection, Identity, field_of_info};
use crate::clock::Time;
use crate::error::Cause;

/// Opens a link before `until`.
///
/// Only a refused password, user or database is an error. A refused `CLIENT INFO` or `INFO`
/// costs the barrier, all or part of it; a refused `SCRIPT LOAD` costs a longer command now
/// and then. Proxies refuse all three.
pub(super) fn open(route: &Route, until: Time) -> Result<Link, Fault> {
    let Route {
        address,
        server,
        clock,
        timeouts,
        ..
    } = route;
    let begun = clock.now();
    let mut link = socket::connect(address, clock, until)
        .and_then(|socket| Link::new(socket, Arc::clone(server), clock.clone(), timeouts.command))
        .map_err(|source| {
            let cause = match source.kind() {
                std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Cause::TimedOut {
                    doing: "connecting to",
                    server: server.to_string(),
                    after: clock.now().since(begun),
                },
                _ => Cause::Io {
                    doing: "connect to",
                    server: server.to_string(),
                    source: Arc::new(source),
                },
            };
            Fault::new(Class::NoLink, "connect", cause)
        })?;
    // Whatever fails from here on, the caller's own command has not been sent.
    enter(&mut link, address, until).map_err(|mut fault| {
        if fault.class != Class::Refused {
            fault.class = Class::NoLink;
            fault.command = "connect";
        }
        fault
    })?;
    Ok(link)
}

fn enter(link: &mut Link, address: &Address, until: Time) -> Result<(), Fault> {
    link.batch.clear();
    let mut steps = Vec::with_capacity(8);
    if let Some(password) = address.password() {
        match address.username() {
            Some(username) => {
                link.batch
                    .push(&[b"AUTH", username.as_bytes(), password.as_bytes()]);
            }
            None => link.batch.push(&[b"AUTH", password.as_bytes()]),
        }
        steps.push(Step::Must("AUTH"));
    }
    if address.database() != 0 {
        link.batch
            .push(&[b"SELECT", Decimal::of(address.database()).as_bytes()]);
        steps.push(Step::Must("SELECT"));
    }
    link.batch.push(&[b"CLIENT", b"INFO"]);
    steps.push(Step::Connection);
    link.batch.push(&[b"INFO", b"server"]);
    steps.push(Step::Run);
    // One command each: before Redis 7 `INFO` takes a single section.
    link.batch.push(&[b"INFO", b"replication"]);
    steps.push(Step::History);
    for script in scripts::all() {
        link.batch
            .push(&[b"SCRIPT", b"LOAD", script.code().as_bytes()]);
        steps.push(Step::May);
    }
    // The timeouts of commands do not apply here: one deadline runs through the opening.
    link.send_within("CLIENT INFO", Duration::MAX, until)?;
    let mut identity = Identity::default();
    for step in steps {
        let reply = link.reply(step.command())?;
        match (step, reply) {
            (Step::Must(command), Value::ServerError(error)) => {
                let mut fault = Fault::of_reply(command, link.server(), &error);
                if command == "AUTH" {
                    // A proxy may repeat in its own words what it was sent, and that is the
                    // password: the code has to do.
                    fault.cause = Cause::Reply {
                        command,
                        server: link.server().to_string(),
                        text: answer_to_auth(&error),
                    };
                }
                // An answer that names no reason is still a no: without it nothing works.
                if fault.class == Class::Unknown {
                    fault.class = Class::Refused;
                }
                return Err(fault);
            }
            (_, Value::ServerError(error)) => {
                let fault = Fault::of_reply(step.command(), link.server(), &error);
                // A server with too many clients, or in protected mode, says so once and
                // closes.
                let closes = fault.class == Class::NotRun && error.code() == "ERR"
                    || error.code() == "DENIED";
                if closes {
                    return Err(fault);
                }
                say!(debug, target: "leasehold::link", "{}; going on without it", fault.cause);
            }
            (Step::Connection, Value::BulkString(info)) => {
                identity.connection = text(&info).and_then(Connection::from_client_info);
            }
            (Step::Run, Value::BulkString(info)) => {
                identity.run = text(&info).and_then(|info| field_of_info(info, "run_id"));
            }
            (Step::History, Value::BulkString(info)) => {
                identity.history =
                    text(&info).and_then(|info| field_of_info(info, "master_replid"));
            }
            _ => {}
        }
    }
    link.wire().identify(identity);
    Ok(())
}

/// The code, and of what Redis is known to say the sense.
fn answer_to_auth(error: &redis::ServerError) -> String {
    let says = |words| {
        error
            .details()
            .is_some_and(|details| details.contains(words))
    };
    if says("without any password configured") {
        return "ERR (no password is set for this user on the server)".to_owned();
    }
    error.code().chars().take(16).collect()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// What a reply of the handshake is for.
#[derive(Clone, Copy)]
enum Step {
    /// Without it no command will work.
    Must(&'static str),
    /// The name of the connection.
    Connection,
    /// The name of the server's run.
    Run,
    /// The name of its data's history.
    History,
    May,
}

impl Step {
    const fn command(self) -> &'static str {
        match self {
            Self::Must(command) => command,
            Self::Connection => "CLIENT INFO",
            Self::Run | Self::History => "INFO",
            Self::May => "SCRIPT LOAD",
        }
    }
}
