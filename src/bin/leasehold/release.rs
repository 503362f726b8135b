//! `leasehold release`: compare and delete, and nothing else.

use std::io::BufRead;

use clap::ArgMatches;
use leasehold::Token;

use crate::cli;
use crate::exit::{Code, Failure};
use crate::output::{Level, say};

pub(crate) fn main(matches: &ArgMatches) -> Result<Code, Failure> {
    let key = cli::text(matches, "key").unwrap_or_default();
    let token = token(matches)?;
    let client = cli::client(matches)?;
    let lock = client.lock(key.as_str()).build()?;
    match lock.release(token) {
        Ok(()) => {
            if Level::Normal <= cli::level(matches) {
                say(format_args!("{key:?} is released"));
            }
            Ok(Code::OK)
        }
        Err(error) if error.is_lost() => Err(Failure::new(
            Code(1),
            format!("{key:?} is not that token's (any more); nothing was touched"),
        )),
        Err(error) => Err(error.into()),
    }
}

/// On the command line it could be read by every user of the machine; `-` reads it from
/// standard input.
fn token(matches: &ArgMatches) -> Result<Token, Failure> {
    let given = match cli::text(matches, "token") {
        Some(text) if text == "-" => {
            let mut line = String::new();
            std::io::stdin()
                .lock()
                .read_line(&mut line)
                .map_err(|error| Failure::usage(format!("cannot read the token: {error}")))?;
            line
        }
        Some(text) => text,
        None => std::env::var("LEASEHOLD_TOKEN").map_err(|_| {
            Failure::usage(
                "no token: give --token, or set LEASEHOLD_TOKEN, or pipe it to --token -",
            )
        })?,
    };
    Ok(given.trim_end_matches(['\r', '\n']).parse()?)
}
