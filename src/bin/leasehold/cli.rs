//! The command line: what can be written, and what it means.

use std::env::VarError;
use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use leasehold::Client;

use crate::exit::{Code, Failure};
use crate::output::{Level, print, say};
use crate::{duration, help, man};

/// One line, as all that we say; help and the version as they are.
pub(crate) fn usage(error: &clap::Error) -> Code {
    if !error.use_stderr() {
        print(error.render().to_string().trim_end());
        return Code::OK;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Code::USAGE;
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty());
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    // Everybody who comes from `flock`, `nice` or `timeout` leaves it out.
    let word = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let forgotten = error.kind() == ErrorKind::UnknownArgument
        && word.is_some_and(|word| !word.starts_with('-'))
        && std::env::args_os().nth(1).is_some_and(|name| name == "run");
    let hint = if forgotten {
        "put -- between KEY and the command: leasehold run KEY -- COMMAND"
    } else {
        "see --help"
    };
    let quiet = |word: &OsString| word == "--quiet" || word == "-q";
    let words = std::env::args_os().take_while(|word| word != "--");
    if !words.into_iter().any(|word| quiet(&word)) {
        say(format_args!("{line}; {hint}"));
    }
    Code::USAGE
}

/// The client for the server that the options and the environment name.
pub(crate) fn client(matches: &ArgMatches) -> Result<Client, Failure> {
    Ok(Client::open(&url(matches)?)?)
}

pub(crate) fn url(matches: &ArgMatches) -> Result<String, Failure> {
    if let Some(url) = text(matches, "url") {
        return Ok(url);
    }
    for name in ["LEASEHOLD_URL", "REDIS_URL"] {
        match std::env::var(name) {
            // One that is set to nothing is not set: a unit file or a crontab cannot unset it.
            Ok(url) if !url.is_empty() => return Ok(url),
            // To go on to the next would be to lock on another server than all others.
            Err(VarError::NotUnicode(_)) => {
                return Err(Failure::usage(format!("{name} is not valid UTF-8")));
            }
            _ => {}
        }
    }
    Ok("redis://127.0.0.1:6379".to_owned())
}

pub(crate) fn level(matches: &ArgMatches) -> Level {
    let given = |flag| matches!(matches.try_get_one::<bool>(flag), Ok(Some(true)));
    if given("quiet") {
        Level::Quiet
    } else if given("verbose") {
        Level::Verbose
    } else {
        Level::Normal
    }
}

pub(crate) fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.try_get_one::<String>(name).ok().flatten().cloned()
}

pub(crate) fn texts(matches: &ArgMatches, name: &str) -> Vec<String> {
    let given = matches.try_get_many::<String>(name).ok().flatten();
    given
        .map(|values| values.cloned().collect())
        .unwrap_or_default()
}

pub(crate) fn span(matches: &ArgMatches, name: &str) -> Option<Duration> {
    matches
        .try_get_one::<Duration>(name)
        .ok()
        .flatten()
        .copied()
}

static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}\nbuilt for {} {}, {}, by Rust {} or newer\nlicence {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        if cfg!(debug_assertions) {
            "for development"
        } else {
            "optimized"
        },
        env!("CARGO_PKG_RUST_VERSION"),
        env!("CARGO_PKG_LICENSE"),
    )
});

/// The whole of it, also for help, completions and the man page.
pub(crate) fn command() -> Command {
    Command::new("leasehold")
        .version(env!("CARGO_PKG_VERSION"))
        .long_version(VERSION.as_str())
        .about("Run a command under a lease lock on Redis")
        .long_about(help::ABOUT)
        .after_help(format!("{}\n\n{}", help::CODES, help::EXAMPLE))
        .max_term_width(80)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run_command())
        .subcommand(status_command())
        .subcommand(release_command())
        .subcommand(doctor_command())
        .subcommand(
            Command::new("completions")
                .about("Print a completion script for a shell")
                .after_help(help::COMPLETIONS_EXAMPLES)
                .arg(
                    Arg::new("shell")
                        .value_name("SHELL")
                        .required(true)
                        .value_parser(["bash", "zsh", "fish"])
                        .hide_possible_values(true)
                        .help("bash, zsh or fish"),
                ),
        )
        .subcommand(Command::new("man").about("Print the man page").hide(true))
}

fn run_command() -> Command {
    let span = |name, value, help| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .help(help)
            .value_parser(duration::parse)
    };
    Command::new("run")
        .about("Take the lease, run a command, give the lease back")
        .long_about(help::RUN)
        .after_help(format!("{}\n\n{}", help::RUN_EXAMPLES, help::CODES))
        .args(common())
        .arg(span("ttl", "TIME", "How long the lock outlives a crash").default_value("30s"))
        .arg(span("wait", "TIME", "Wait for the lock for so long").conflicts_with_all(["no-wait", "wait-forever"]))
        .arg(flag("no-wait", "Do not wait: the default").conflicts_with("wait-forever"))
        .arg(flag("wait-forever", "Wait for as long as others hold the lock"))
        .arg(span("danger", "TIME", "Act when no more than this is left [default: a third of --ttl, or of --max-hold if that is less]"))
        .arg(span("max-hold", "TIME", "End the command when it has held the lock for so long"))
        .arg(
            Arg::new("on-danger")
                .long("on-danger")
                .value_name("ACTION")
                .help("When the lease is in danger: term sends SIGTERM, stop sends SIGSTOP and goes on if the lease recovers, none waits")
                .value_parser(["term", "stop", "none"])
                .hide_possible_values(true)
                .default_value("term"),
        )
        .arg(Arg::new("danger-exec").long("danger-exec").value_name("CMD").help("Shell command to run when the lease is in danger"))
        .arg(Arg::new("label").long("label").value_name("TEXT").help("Text for people who look at the lock [default: HOST:PROCESS]"))
        .arg(flag("fenced", "Draw a fence and give it to the command as LEASEHOLD_FENCE"))
        .arg(flag("export-token", "Give the token to the command as LEASEHOLD_TOKEN"))
        .arg(
            Arg::new("busy-code")
                .long("busy-code")
                .value_name("N")
                .help("Exit code when another holds the lock")
                .value_parser(value_parser!(u8))
                .default_value("75"),
        )
        .arg(Arg::new("key").value_name("KEY").required(true).help("Name of the lock: the key on Redis"))
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .required(true)
                .last(true)
                .num_args(1..)
                .value_parser(value_parser!(OsString))
                .help("The command and its arguments; no shell is in between"),
        )
}

fn status_command() -> Command {
    Command::new("status")
        .about("Tell who holds a lock, and for how long")
        .long_about(help::STATUS)
        .after_help(help::STATUS_EXAMPLES)
        .args(common())
        .arg(flag("json", "Print JSON"))
        .arg(
            Arg::new("keys")
                .value_name("KEY")
                .required(true)
                .num_args(1..)
                .help("Names of locks"),
        )
}

fn release_command() -> Command {
    Command::new("release")
        .about("Give back a lock whose token you have")
        .long_about(help::RELEASE)
        .after_help(help::RELEASE_EXAMPLES)
        .args(common())
        .arg(
            Arg::new("token")
                .long("token")
                .value_name("T")
                .help("The token, or - to read it from standard input [default: LEASEHOLD_TOKEN]"),
        )
        .arg(
            Arg::new("key")
                .value_name("KEY")
                .required(true)
                .help("Name of the lock"),
        )
}

fn doctor_command() -> Command {
    Command::new("doctor")
        .about("Look at a server as a lock would")
        .long_about(help::DOCTOR)
        .after_help(help::DOCTOR_EXAMPLES)
        .args(common())
        .arg(
            Arg::new("key")
                .long("key")
                .value_name("KEY")
                .help("A lock's name, or how locks' names begin, such as order:"),
        )
        .arg(flag("json", "Print JSON"))
}

fn common() -> Vec<Arg> {
    vec![
        Arg::new("url")
            .long("url")
            .value_name("URL")
            .help("Server [default: LEASEHOLD_URL, then REDIS_URL, then redis://127.0.0.1:6379]"),
        flag("verbose", "Say what goes on")
            .short('v')
            .conflicts_with("quiet"),
        flag("quiet", "Say nothing; the exit code tells").short('q'),
    ]
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .help(help)
        .action(ArgAction::SetTrue)
}

pub(crate) fn completions(matches: &ArgMatches) -> Result<Code, Failure> {
    let shell = match text(matches, "shell").as_deref() {
        Some("zsh") => clap_complete::Shell::Zsh,
        Some("fish") => clap_complete::Shell::Fish,
        _ => clap_complete::Shell::Bash,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "leasehold", &mut script);
    print(String::from_utf8_lossy(&script).trim_end());
    Ok(Code::OK)
}

pub(crate) fn man() -> Result<Code, Failure> {
    let page = man::page(&command())
        .map_err(|error| Failure::new(Code::UNAVAILABLE, error.to_string()))?;
    print(&page);
    Ok(Code::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_put_together_well() {
        command().debug_assert();
    }

    #[test]
    fn every_help_fits_a_terminal_of_80_columns() {
        let mut command = command();
        command.build();
        let mut pages = Vec::new();
        let subs = command.get_subcommands().cloned();
        for mut one in subs.chain([command.clone()]) {
            pages.push(one.render_help().to_string());
            pages.push(one.render_long_help().to_string());
        }
        for line in pages.iter().flat_map(|page| page.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
