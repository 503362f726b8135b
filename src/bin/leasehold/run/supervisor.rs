//! The process between `run` and its command: it ends the command's whole group when `run` can
//! no longer do so, because it was killed or stopped.
//!
//! It is this program again, the leader of a process group in which the command runs. It needs no
//! unsafe code: what has to be done between `fork` and `exec` is done by a program that was
//! executed already.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, getpgrp, getppid, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::channel::Channel;
use super::clock;
use super::group::Group;
use super::ignored::heeded;
use super::terminal::Terminal;
use crate::exit::Code;
use crate::output::say;

/// The first word of its command line: `leasehold FLAG PARENT SOCKET QUIET COMMAND…`.
pub(super) const FLAG: &str = "--supervise-for-leasehold";

/// No longer sleep than this, for the clock of a condition stands still during suspend; and how
/// soon a parent that has gone is found out where the system does not tell.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs as a supervisor if the command line asks for it.
pub(crate) fn main_if_asked(words: &[OsString]) -> Option<Code> {
    let [_, flag, parent, socket, quiet, command @ ..] = words else {
        return None;
    };
    if flag != FLAG {
        return None;
    }
    let parent = parent.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    Some(supervise(
        parent,
        socket.to_str()?,
        quiet == "quiet",
        command,
    ))
}

fn supervise(parent: Pid, socket: &str, quiet: bool, command: &[OsString]) -> Code {
    // It comes when the *thread* that started us ends, so that is the main one there.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    // `run` has blocked it for itself, and a mask is handed on.
    Terminal::undo();
    // What is sent to the group is meant for the command; we only look whether our parent lives.
    let swallowed = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    let Ok(mut signals) = Signals::new(heeded(&swallowed)) else {
        return Code::UNAVAILABLE;
    };
    // It may have gone before we asked to be told.
    if getppid() != Some(parent) {
        return Code::LOST;
    }
    let Some((mut channel, first)) = Channel::connect(socket)
        .ok()
        .and_then(|mut channel| channel.next().map(|first| (channel, first)))
    else {
        return Code::LOST;
    };
    let [program, arguments @ ..] = command else {
        return Code::USAGE;
    };
    let mut child = match Command::new(program).args(arguments).spawn() {
        Ok(child) => child,
        Err(error) => {
            let code = match error.kind() {
                ErrorKind::NotFound => Code::NOT_FOUND,
                _ => Code::CANNOT_RUN,
            };
            if !quiet {
                let has_space = program.to_string_lossy().contains(char::is_whitespace);
                let hint = if has_space && code == Code::NOT_FOUND {
                    "; no shell is in between: write sh -c '…'"
                } else {
                    ""
                };
                say(format_args!("cannot run {program:?}: {error}{hint}"));
            }
            return code;
        }
    };
    // What came before there was a command to come to.
    for signal in signals.pending() {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(Pid::from_child(&child), signal);
        }
    }
    let limit = Arc::new(Limit::new(first));
    let of_channel = Arc::clone(&limit);
    let followed = thread::Builder::new().spawn(move || {
        while let Some(time) = channel.next() {
            of_channel.set(time);
        }
        end_group();
    });
    let enforced = thread::Builder::new().spawn(move || {
        limit.enforce(parent);
        end_group();
    });
    let heard = thread::Builder::new().spawn(move || {
        for _ in signals.forever() {
            if getppid() != Some(parent) {
                end_group();
            }
        }
    });
    if followed.is_err() || enforced.is_err() || heard.is_err() {
        // Without its guards the command must not run.
        end_group();
    }
    let Ok(status) = child.wait() else {
        return Code::UNAVAILABLE;
    };
    if let Some(key) = status
        .signal()
        .filter(|signal| Group::KEYS.contains(signal))
    {
        // A script that was started with us ends with us only if a signal has ended us.
        let _ = emulate_default_handler(key);
    }
    code_of(status)
}

fn code_of(status: ExitStatus) -> Code {
    match (status.code(), status.signal()) {
        (Some(code), _) => Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Code::of_signal(signal),
        (None, None) => Code::UNAVAILABLE,
    }
}

/// Ends the command, whatever it has started in its group, and this process.
fn end_group() {
    let _ = kill_process_group(getpgrp(), Signal::KILL);
}

/// The time by which the command has to be dead.
struct Limit {
    dead_by: Mutex<Duration>,
    changed: Condvar,
}

impl Limit {
    fn new(dead_by: Duration) -> Self {
        Self {
            dead_by: Mutex::new(dead_by),
            changed: Condvar::new(),
        }
    }

    fn set(&self, time: Duration) {
        *self.dead_by.lock() = time;
        self.changed.notify_one();
    }

    /// Returns when the time has come, or when the parent has gone.
    fn enforce(&self, parent: Pid) {
        let mut dead_by = self.dead_by.lock();
        loop {
            let left = dead_by.saturating_sub(clock::now());
            if left.is_zero() || getppid() != Some(parent) {
                return;
            }
            self.changed.wait_for(&mut dead_by, left.min(LOOK_EVERY));
        }
    }
}
