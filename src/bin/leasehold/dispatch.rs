//! From the words of a command line to what does it.

use std::process::ExitCode;

use crate::exit::Code;
use crate::output::{Level, install_log, say};
use crate::run::{shim, supervisor};
use crate::{cli, doctor, release, run, status};

pub(crate) fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    // No commands of the user's: the processes between `run` and its command.
    let code = supervisor::main_if_asked(&words).or_else(|| shim::main_if_asked(&words));
    if let Some(code) = code {
        return ExitCode::from(code.0);
    }
    let matches = match cli::command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return ExitCode::from(cli::usage(&error).0),
    };
    let Some((name, of_command)) = matches.subcommand() else {
        return ExitCode::from(Code::USAGE.0);
    };
    let level = cli::level(of_command);
    install_log(level);
    let result = match name {
        "run" => run::main(of_command),
        "status" => status::main(of_command),
        "release" => release::main(of_command),
        "doctor" => doctor::main(of_command),
        "completions" => cli::completions(of_command),
        _ => cli::man(),
    };
    let code = result.unwrap_or_else(|failure| {
        if level != Level::Quiet && !failure.text.is_empty() {
            say(&failure);
        }
        failure.code
    });
    ExitCode::from(code.0)
}
