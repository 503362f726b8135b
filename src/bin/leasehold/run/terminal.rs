//! The terminal: the command has it while it runs, as it would without us.

use std::os::fd::AsFd;

use nix::sys::signal::SigSet;
use nix::sys::signal::Signal::SIGTTOU;
use parking_lot::Mutex;
use rustix::fs::{FileType, fstat};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpgrp, getpid, getppid, getrlimit, getsid, kill_process_group,
    setrlimit,
};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};
use signal_hook::low_level::emulate_default_handler;

/// Whether the command has been given the terminal.
#[derive(Default)]
pub(super) struct Terminal {
    given: Mutex<Option<Pid>>,
}

impl Terminal {
    /// Keeps the calling thread, and those it starts, from being stopped when it takes the
    /// terminal back: to the kernel it is then a background process that reaches for it.
    pub(super) fn prepare() {
        // Without it, taking the terminal back would stop us; nothing else depends on it.
        let _ = ttou().thread_block();
    }

    /// Undoes it, in a process that has inherited it. It was not blocked before: nobody who
    /// starts a program blocks it.
    pub(super) fn undo() {
        let _ = ttou().thread_unblock();
    }

    /// Gives the terminal to a group, if it is ours to give. Not in front of a pipe: a pager
    /// behind it, say, would be left in the background.
    pub(super) fn give(&self, group: Pid) {
        let is_ours = isatty(stdin())
            && !is_pipe(stdout())
            && tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == getpgrp());
        if is_ours && tcsetpgrp(stdin(), group).is_ok() {
            *self.given.lock() = Some(group);
        }
    }

    /// Whether it had been given.
    pub(super) fn take_back(&self) -> bool {
        let Some(group) = self.given.lock().take() else {
            return false;
        };
        // Not from whom a shell has given it to meanwhile.
        if tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == group) {
            let _ = tcsetpgrp(stdin(), getpgrp());
        }
        true
    }

    /// Ends by the signal of a key.
    pub(super) fn end_by(key: i32) {
        // A core of ours would take the place of the command's, with the token in it.
        let none = Rlimit {
            current: Some(0),
            maximum: getrlimit(Resource::Core).maximum,
        };
        let _ = setrlimit(Resource::Core, none);
        // For process 1 the default is to pass over it.
        if getpid() != Pid::INIT {
            let _ = emulate_default_handler(key);
        }
    }

    /// Passes the signal of a key on to those who would have had it from the terminal without us,
    /// and ends by it: a script that started us ends as well, and some shells do so only if a
    /// signal has ended us.
    pub(super) fn pass_on(key: i32) {
        if let Some(signal) = Signal::from_named_raw(key) {
            let _ = kill_process_group(getpgrp(), signal);
        }
        Self::end_by(key);
    }

    /// Whether no shell of our session is there to let us go on after a stop.
    pub(super) fn is_orphaned() -> bool {
        let session = |process| getsid(process).ok();
        getppid().is_none_or(|parent| session(Some(parent)) != session(None))
    }

    /// Stops ourselves, and a script that has started us without job control: the shell behind it
    /// waits for all of the group.
    pub(super) fn stop_ourselves() {
        let _ = kill_process_group(getpgrp(), Signal::STOP);
    }
}

fn is_pipe(file: impl AsFd) -> bool {
    let kind = fstat(file).map(|status| FileType::from_raw_mode(status.st_mode));
    kind.is_ok_and(|kind| matches!(kind, FileType::Fifo | FileType::Socket))
}

fn ttou() -> SigSet {
    let mut set = SigSet::empty();
    set.add(SIGTTOU);
    set
}
