//! The last step to the command: it is to die with its supervisor, which is asked for by the
//! process that becomes the command.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, getppid};

use crate::exit::Code;
use crate::output::say;

/// The first word of its command line: `leasehold FLAG PARENT QUIET COMMAND…`.
pub(super) const FLAG: &str = "--exec-for-leasehold";

/// What `execve` says of a script without a first line that names its interpreter.
const NO_FORMAT: i32 = 8;

/// Becomes the command if the command line asks for it.
pub(crate) fn main_if_asked(words: &[OsString]) -> Option<Code> {
    let [_, flag, parent, quiet, program, arguments @ ..] = words else {
        return None;
    };
    if flag != FLAG {
        return None;
    }
    let parent = parent.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    // A command that takes another user's rights (`sudo`) clears it again.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // It may have gone before we asked.
    if getppid() != Some(parent) {
        return Some(Code::LOST);
    }
    let error = exec(program, arguments);
    let code = match error.kind() {
        ErrorKind::NotFound => Code::NOT_FOUND,
        _ => Code::CANNOT_RUN,
    };
    if quiet != "quiet" {
        let has_space = program.to_string_lossy().contains(char::is_whitespace);
        let hint = if has_space && code == Code::NOT_FOUND {
            "; no shell is in between: write sh -c '…'"
        } else {
            ""
        };
        say(format_args!("cannot run {program:?}: {error}{hint}"));
    }
    Some(code)
}

fn exec(program: &OsStr, arguments: &[OsString]) -> io::Error {
    let error = Command::new(program).args(arguments).exec();
    if error.raw_os_error() != Some(NO_FORMAT) {
        return error;
    }
    // As shells, `env` and `nice` do.
    let Some(script) = find(program) else {
        return error;
    };
    Command::new("/bin/sh").arg(script).args(arguments).exec()
}

/// Where the system has found it.
fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().nth(1).is_some() || path.is_absolute() {
        return Some(path.to_owned());
    }
    let folders = env::var_os("PATH")?;
    let places = env::split_paths(&folders).map(|folder| folder.join(path));
    places.into_iter().find(|place| place.is_file())
}
