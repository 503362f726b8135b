//! `leasehold doctor`: a look at a server as a lock would.
//!
//! It leaves no key behind. Where the user lacks a right, the server's `ACL LOG` tells of the
//! question; the scripts that every client loads are loaded here too.

use clap::ArgMatches;

use self::connection::Connection;
use self::finding::{Finding, Level};
use self::trial::Key;
use crate::cli;
use crate::exit::{Code, Failure};
use crate::output::{self, print};

mod report;

mod data;
mod pace;
mod rights;
mod server;
mod trial;

mod connection;
mod finding;
mod look;

/// Something makes locks unsafe, or impossible.
const UNSAFE: Code = Code(1);

pub(crate) fn main(matches: &ArgMatches) -> Result<Code, Failure> {
    let key = Key::new(cli::text(matches, "key").filter(|key| !key.is_empty()));
    let (place, findings) = examine(matches, &key)?;
    let level = cli::level(matches);
    if matches.get_flag("json") {
        print(&report::json(&place, &findings));
    } else if level != output::Level::Quiet {
        let explain = level == output::Level::Verbose;
        print(&report::text(&place, &findings, explain));
    }
    let worst = findings.iter().map(|finding| finding.level).max();
    Ok(match worst {
        Some(Level::Unsafe) => UNSAFE,
        _ => Code::OK,
    })
}

fn examine(matches: &ArgMatches, key: &Key) -> Result<(String, Vec<Finding>), Failure> {
    let client = cli::client(matches)?;
    // Who is away, or does not let us in, is told of as by every other command.
    client.ping()?;
    let mut connection = Connection::open(&cli::url(matches)?)?;
    let place = connection.place().to_owned();
    let facts = look::look(&mut connection)?;
    let mut findings = server::findings(&facts);
    if facts.is_sentinel() {
        return Ok((place, findings));
    }
    findings.extend(data::findings(&facts));
    let rights = rights::look(&mut connection, key)?;
    findings.extend(rights.findings);
    // A replica that can be written to would let it be taken, and that proves nothing.
    if rights.suffice && !facts.is_replica() {
        findings.push(trial::look(&client, key));
    }
    findings.push(pace::clock(facts.clock));
    findings.push(pace::round_trips(&client));
    Ok((place, findings))
}
