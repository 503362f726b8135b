//! What clients send to a server, as the server tells it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::thread;

use redis::Value;

use super::bare::{Bare, Token};
use super::wire::{call, connect};

/// How many times each command was sent.
pub(crate) type Commands = BTreeMap<String, u64>;

/// Does `work`, and calls `each` with every command that a client sends meanwhile: its words,
/// each in quotes. What scripts call is not a client's, and is left out.
///
/// The server tells of a command before it answers it. So all commands that `work` has had an
/// answer to are there, and none that came before it.
pub(crate) fn watched<T, S: Default + Send + 'static>(
    url: &str,
    each: fn(&mut S, &str),
    work: impl FnOnce() -> Result<T, String>,
) -> Result<(T, S), String> {
    let text = |error: std::io::Error| error.to_string();
    let bare = Bare::connect(url, "bench:watched", Token::Constant).map_err(text)?;
    let socket = connect(url).map_err(text)?;
    if call(&socket, &["MONITOR"]).map_err(text)? != Value::Okay {
        return Err("MONITOR was refused".to_owned());
    }
    let end = format!(
        "{:016x}",
        getrandom::u64().map_err(|error| error.to_string())?
    );
    let last = format!("\"ECHO\" \"{end}\"");
    // It reads from the first command on: what the server cannot send it has to keep.
    let reader = thread::spawn(move || {
        let mut seen = S::default();
        for line in BufReader::new(socket).lines() {
            let line = line.map_err(text)?;
            match client_command(&line) {
                Some(command) if command == last => return Ok(seen),
                Some(command) => each(&mut seen, command),
                None => {}
            }
        }
        Err("the server has ended MONITOR".to_owned())
    });
    let result = work();
    bare.echo(&end).map_err(text)?;
    let seen = reader.join().expect("it does not panic")?;
    Ok((result?, seen))
}

/// Counts what clients send while `work` is done.
///
/// Two ways of counting must agree: the server's own statistics count what scripts call as well,
/// but no script calls a script.
pub(crate) fn count_commands<T>(
    url: &str,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Commands), String> {
    let bare = Bare::connect(url, "bench:counted", Token::Constant);
    let bare = bare.map_err(|error| error.to_string())?;
    let before = scripts_called(&bare)?;
    let (result, commands) = watched(url, count, work)?;
    let called = scripts_called(&bare)? - before;
    let seen: u64 = SCRIPTED.iter().filter_map(|name| commands.get(*name)).sum();
    if called != seen {
        return Err(format!(
            "MONITOR has shown {seen} calls of scripts, and the server has counted {called}"
        ));
    }
    Ok((result, commands))
}

const SCRIPTED: [&str; 2] = ["evalsha", "eval"];

fn scripts_called(bare: &Bare) -> Result<u64, String> {
    let mut sum = 0;
    for name in SCRIPTED {
        let line = bare.info(&format!("cmdstat_{name}"));
        let line = line.map_err(|error| error.to_string())?;
        // Before its first call a command has no line.
        let calls = line.strip_prefix("calls=");
        let calls = calls.and_then(|calls| calls.split(',').next()?.parse::<u64>().ok());
        sum += calls.unwrap_or_default();
    }
    Ok(sum)
}

fn count(commands: &mut Commands, command: &str) {
    let name = command.split(' ').next().unwrap_or_default();
    let name = name.trim_matches('"').to_ascii_lowercase();
    *commands.entry(name).or_default() += 1;
}

/// Of `1700000000.123456 [0 127.0.0.1:4711] "SET" "key" …` what follows the address. A script has
/// `lua` for one.
fn client_command(line: &str) -> Option<&str> {
    let (head, command) = line.split_once("] ")?;
    (!head.ends_with(" lua")).then_some(command)
}
