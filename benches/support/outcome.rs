//! How a bench ends.

use std::process::ExitCode;

/// Says what went wrong, if anything did.
pub(crate) fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
