//! Whether the bare socket sends what the library sends: a ratio says nothing otherwise.

use leasehold::Client;

use super::bare::{Bare, Token};
use super::monitor::watched;

const KEY: &str = "bench:sameness";

/// Compares one cycle of each, as the server has received them.
pub(crate) fn check_sameness(url: &str) -> Result<(), String> {
    let client = Client::open(url).map_err(|error| error.to_string())?;
    let lock = client
        .lock(KEY)
        .build()
        .map_err(|error| error.to_string())?;
    let (_, ours) = watched(url, collect, || {
        let cycle = lock.acquire().and_then(leasehold::Lease::release);
        cycle.map_err(|error| error.to_string())
    })?;
    let bare = Bare::connect(url, KEY, Token::Fresh);
    let mut bare = bare.map_err(|error| error.to_string())?;
    let (_, theirs) = watched(url, collect, || {
        bare.cycle();
        Ok(())
    })?;
    let (ours, theirs) = (without_names(&ours), without_names(&theirs));
    if ours == theirs && ours.len() == 2 {
        return Ok(());
    }
    Err(format!(
        "the bare socket does not send what leasehold sends (support/bare.rs):\n{}\nand not\n{}",
        theirs.join("\n"),
        ours.join("\n")
    ))
}

/// What names the key; opening a link does not.
fn collect(commands: &mut Vec<String>, command: &str) {
    if command.contains(KEY) {
        commands.push(command.to_owned());
    }
}

/// The token follows the key in the first command, and the name of the client ends the second.
fn without_names(commands: &[String]) -> Vec<String> {
    let word = |command: Option<&String>, number: usize| {
        let words = command.map(|command| command.split(' '));
        let word = words.and_then(|mut words| words.nth(number));
        word.unwrap_or("(none)").to_owned()
    };
    let token = word(commands.first(), 2);
    let name = word(commands.get(1), 8);
    let commands = commands.iter();
    commands
        .map(|command| command.replace(&token, "\"(its token)\""))
        .map(|command| command.replace(&name, "\"(its name)\""))
        .collect()
}
