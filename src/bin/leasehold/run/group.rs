//! The command's process group, for as long as it may be signalled.

use std::mem;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, test_kill_process_group,
    waitid,
};

/// The group whose leader is the supervisor. Its number can be somebody else's as soon as the
/// leader has been waited for: from then on nothing is signalled.
pub(super) struct Group {
    leader: Pid,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    ended: bool,
    killed: bool,
    terminated: bool,
}

/// What has become of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Exited(i32),
    Killed(i32),
    /// By the terminal with this signal, and not by us.
    Suspended(i32),
}

impl Group {
    /// What keys at a terminal send to end a command. The supervisor swallows them, and ends by
    /// one only to tell that the command has.
    pub(super) const KEYS: [i32; 2] = [Signal::INT.as_raw(), Signal::QUIT.as_raw()];

    pub(super) fn of(leader: Pid) -> Self {
        Self {
            leader,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) const fn leader(&self) -> Pid {
        self.leader
    }

    pub(super) fn signal(&self, signal: Signal) {
        let state = self.state.lock();
        if !state.ended {
            // It fails only if nobody is left to hear it.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Ends it on account of the lease. Whether nobody had done so before.
    pub(super) fn kill(&self) -> bool {
        let first = !mem::replace(&mut self.state.lock().killed, true);
        self.signal(Signal::KILL);
        first
    }

    /// Asks it to end on account of the lease.
    pub(super) fn terminate(&self) {
        self.state.lock().terminated = true;
        self.signal(Signal::TERM);
    }

    pub(super) fn was_killed(&self) -> bool {
        self.state.lock().killed
    }

    pub(super) fn was_terminated(&self) -> bool {
        self.state.lock().terminated
    }

    /// Waits until the group has ended, or for so long. Whether it has.
    pub(super) fn rest(&self, span: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.ended {
            self.changed.wait_for(&mut state, span);
        }
        state.ended
    }

    /// Whether all of the group are dead before `span` is over: a killed process may take its
    /// time to die. To be asked after the leader has been waited for.
    pub(super) fn dies_within(&self, span: Duration) -> bool {
        let until = Instant::now().checked_add(span);
        let mut state = self.state.lock();
        loop {
            // Where we are process 1 the dead are ours to wait for, and count until then.
            let dead = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            while waitid(WaitId::Pgid(Some(self.leader)), dead).is_ok_and(|dead| dead.is_some()) {}
            // Only asked for and not signalled: its number may be another's by now.
            if test_kill_process_group(self.leader).is_err() {
                return true;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return false;
            }
            self.changed.wait_for(&mut state, Duration::from_millis(5));
        }
    }

    /// Waits for the leader to end or to be stopped by its terminal.
    pub(super) fn wait(&self) -> Event {
        loop {
            let which = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
            // First only looked at: until it is waited for, its number is not given to others.
            let Some(status) = look(self.leader, which | WaitIdOptions::NOWAIT) else {
                self.end();
                return Event::Exited(i32::from(crate::exit::Code::UNAVAILABLE.0));
            };
            if status.stopped() {
                look(self.leader, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                let terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
                let by = status.stopping_signal();
                if let Some(signal) = by.filter(|signal| terminal.contains(signal)) {
                    return Event::Suspended(signal);
                }
                continue;
            }
            let of_keys = |signal: &i32| Self::KEYS.contains(signal);
            if status
                .terminating_signal()
                .is_some_and(|signal| !of_keys(&signal))
            {
                // Somebody has killed the supervisor alone: what it led must not run on.
                self.signal(Signal::KILL);
            }
            self.end();
            return match status.terminating_signal() {
                Some(signal) => Event::Killed(signal),
                None => Event::Exited(status.exit_status().unwrap_or(0)),
            };
        }
    }

    fn end(&self) {
        let mut state = self.state.lock();
        look(self.leader, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        state.ended = true;
        self.changed.notify_all();
    }
}

fn look(leader: Pid, options: WaitIdOptions) -> Option<WaitIdStatus> {
    loop {
        match waitid(WaitId::Pid(leader), options) {
            Err(rustix::io::Errno::INTR) => {}
            status => return status.ok().flatten(),
        }
    }
}
