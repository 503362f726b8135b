//! The process between `run` and its command: it ends the command's whole group when `run` can
//! no longer do so, because it was killed or stopped.
//!
//! It is this program again, the leader of a process group in which the command runs. It needs no
//! unsafe code: what has to be done between `fork` and `exec` is done by a program that was
//! executed already.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, getppid, kill_process,
    kill_process_group,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::channel::{Channel, LATE, STOPPED};
use super::clock;
use super::group::Group;
use super::ignored::heeded;
use super::shim;
use super::terminal::Terminal;
use super::tree;
use crate::exit::Code;
use crate::output::say;

/// The first word of its command line: `leasehold FLAG PARENT SOCKET QUIET COMMAND…`.
pub(super) const FLAG: &str = "--supervise-for-leasehold";

/// No longer sleep than this, for the clock of a condition stands still during suspend; and how
/// soon a parent that has gone is found out where the system does not tell.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a command may take to leave its terminal in order when `^Z` is typed.
const TIME_TO_TIDY: Duration = Duration::from_secs(1);

const A_MOMENT: Duration = Duration::from_millis(10);

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
    let swallowed = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2];
    let Ok(mut signals) = Signals::new(heeded(&swallowed)) else {
        return Code::UNAVAILABLE;
    };
    // It may have gone before we asked to be told.
    if getppid() != Some(parent) {
        return Code::LOST;
    }
    let begun = Channel::connect(socket, parent)
        .ok()
        .and_then(|mut channel| {
            let (first, to_run) = channel.begin()?;
            Some((channel, first, to_run))
        });
    let Some((mut channel, first, to_run)) = begun else {
        return Code::LOST;
    };
    // We may have been frozen since it was said.
    if first <= clock::now() {
        return Code::LOST;
    }
    tree::adopt_orphans();
    // Through this program once more, which sees to it that the command dies with this process:
    // somebody may kill both of us.
    let child = match Command::new(super::ourselves())
        .arg0("leasehold")
        .arg(shim::FLAG)
        .arg(std::process::id().to_string())
        .arg(if quiet { "quiet" } else { "loud" })
        .args(command)
        .spawn()
    {
        Ok(child) => child,
        Err(error) => {
            if !quiet {
                say(format_args!("cannot start the command: {error}"));
            }
            return Code::UNAVAILABLE;
        }
    };
    // What came before there was a command to come to.
    for signal in signals.pending() {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(Pid::from_child(&child), signal);
        }
    }
    let limit = Arc::new(Limit::new(first, to_run));
    let (of_channel, of_signals) = (Arc::clone(&limit), Arc::clone(&limit));
    let of_wait = Arc::clone(&limit);
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
        for signal in signals.forever() {
            if getppid() != Some(parent) {
                end_group();
            }
            if signal == SIGTSTP {
                of_signals.ask_to_stop();
            }
        }
    });
    if followed.is_err() || enforced.is_err() || heard.is_err() {
        // Without its guards the command must not run.
        end_group();
    }
    let Some(status) = wait(Pid::from_child(&child), &of_wait) else {
        return Code::UNAVAILABLE;
    };
    while ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
    let key = status.terminating_signal();
    if let Some(key) = key.filter(|signal| Group::KEYS.contains(signal)) {
        // A script that was started with us ends with us only if a signal has ended us.
        Terminal::end_by(key);
    }
    code_of(status)
}

/// Waits for the command, and on the way for orphans that have become ours. Stopped when the
/// command is, which is how `run` hears of it.
fn wait(child: Pid, limit: &Limit) -> Option<WaitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::UNTRACED) {
            Ok(Some((process, status))) if process == child => {
                if !status.stopped() {
                    return Some(status);
                }
                // By the terminal: a stop that somebody sends is no matter of ours. Where both of
                // us were stopped and let go on together, it is over by now.
                let terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
                let by = status.stopping_signal();
                thread::park_timeout(A_MOMENT);
                if by.is_some_and(|by| terminal.contains(&by)) && tree::is_stopped(child) {
                    limit.stop();
                }
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn code_of(status: WaitStatus) -> Code {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Code::of_signal(signal),
        (None, None) => Code::UNAVAILABLE,
    }
}

/// Whether the end of all is under way: the death of the command is then no end of ours, for what
/// it leaves behind would be out of our reach.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Ends the command, whatever it has started, and this process.
fn end_group() {
    ENDING.store(true, Ordering::SeqCst);
    tree::kill_below(getpid(), &[]);
    let _ = kill_process_group(getpgrp(), Signal::KILL);
}

/// The time by which the command has to be dead.
struct Limit {
    times: Mutex<Times>,
    changed: Condvar,
    to_run: UnixStream,
}

struct Times {
    dead_by: Duration,
    /// When we stop, if the command has not been stopped until then.
    stop_by: Option<Duration>,
}

impl Limit {
    fn new(dead_by: Duration, to_run: UnixStream) -> Self {
        let stop_by = None;
        Self {
            times: Mutex::new(Times { dead_by, stop_by }),
            changed: Condvar::new(),
            to_run,
        }
    }

    /// `^Z` was typed. A command that tidies up first has a moment for it, and stops by itself; one
    /// that does not mind is stopped all the same.
    fn ask_to_stop(&self) {
        self.times.lock().stop_by = Some(clock::now() + TIME_TO_TIDY);
        self.changed.notify_one();
    }

    /// Tells `run` that the command was stopped, and stops, so that it sees it.
    fn stop(&self) {
        self.times.lock().stop_by = None;
        let _ = writeln!(&self.to_run, "{STOPPED}");
        let _ = kill_process(getpid(), Signal::STOP);
    }

    fn set(&self, time: Duration) {
        self.times.lock().dead_by = time;
        self.changed.notify_one();
    }

    /// Returns when the time has come, or when the parent has gone.
    fn enforce(&self, parent: Pid) {
        let mut times = self.times.lock();
        loop {
            let now = clock::now();
            let left = times.dead_by.saturating_sub(now);
            if left.is_zero() {
                let _ = writeln!(&self.to_run, "{LATE}");
                return;
            }
            if getppid() != Some(parent) {
                return;
            }
            if times.stop_by.is_some_and(|stop_by| stop_by <= now) {
                drop(times);
                self.stop();
                times = self.times.lock();
                continue;
            }
            self.changed.wait_for(&mut times, left.min(LOOK_EVERY));
        }
    }
}
