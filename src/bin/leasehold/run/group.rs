//! The command and all that it has started, for as long as they may be signalled.

use std::mem;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpgrp, getpid, kill_process_group,
    test_kill_process_group, waitid,
};

use super::tree::{self, Process};

/// The group whose leader is the supervisor. Its number can be somebody else's as soon as the
/// leader has been waited for: from then on nothing is signalled.
pub(super) struct Group {
    leader: Pid,
    /// What `--danger-exec` has started, which is not of the command.
    apart: Mutex<Vec<Pid>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    ended: bool,
    killed: bool,
    terminated: bool,
    /// Its leader had ended by then, so that a recovery does not change what it ended of.
    ended_terminated: bool,
    /// It was stopped by us.
    held: bool,
    /// We were stopped ourselves, and what becomes of the command has not been decided yet.
    suspended: bool,
    /// The supervisor has said that the command was stopped by its terminal.
    told: bool,
    /// It has said that it ends it.
    late: bool,
}

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a word of the supervisor may take to be heard.
const SAID_BEFORE: Duration = Duration::from_millis(200);

/// What has become of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Exited(i32),
    Killed(i32),
    /// Not by us: the command, by a key at its terminal or for reaching for it.
    Suspended,
}

impl Group {
    /// What keys at a terminal send to end a command. The supervisor swallows them, and ends by
    /// one only to tell that the command has.
    pub(super) const KEYS: [i32; 2] = [Signal::INT.as_raw(), Signal::QUIT.as_raw()];

    pub(super) fn of(leader: Pid) -> Self {
        Self {
            leader,
            apart: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) const fn leader(&self) -> Pid {
        self.leader
    }

    /// Not of the command, though it is below us.
    pub(super) fn set_apart(&self, group: Pid) {
        self.apart.lock().push(group);
    }

    /// Signals the group, and those that what is in it has made for itself.
    pub(super) fn signal(&self, signal: Signal) {
        // Looked for first and signalled first: the leader may end at once, and leasehold with it.
        let mut groups: Vec<Pid> = self.living().iter().map(|process| process.group).collect();
        groups.sort_unstable_by_key(|group| group.as_raw_nonzero());
        groups.dedup();
        for group in groups {
            if group != self.leader && group != getpgrp() {
                let _ = kill_process_group(group, signal);
            }
        }
        let state = self.state.lock();
        if !state.ended {
            // It fails only if nobody is left to hear it.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Stops it because we are about to be stopped; until it has been decided what is to become of
    /// it, a danger is no reason to ask it to end.
    pub(super) fn suspend(&self) {
        self.state.lock().suspended = true;
        self.hold();
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.state.lock().suspended
    }

    /// Stops it, until it is let go.
    pub(super) fn hold(&self) {
        self.state.lock().held = true;
        self.signal(Signal::STOP);
    }

    pub(super) fn let_go(&self) {
        self.signal(Signal::CONT);
        let mut state = self.state.lock();
        state.held = false;
        state.suspended = false;
    }

    /// Ends it on account of the lease. Whether nobody had done so before.
    pub(super) fn kill(&self) -> bool {
        let first = !mem::replace(&mut self.state.lock().killed, true);
        self.kill_all();
        first
    }

    fn kill_all(&self) {
        self.signal(Signal::KILL);
        tree::kill_below(getpid(), &self.apart.lock());
    }

    fn living(&self) -> Vec<Process> {
        tree::below(getpid(), &self.apart.lock())
    }

    /// Asks it to end on account of the lease.
    pub(super) fn terminate(&self) {
        self.state.lock().terminated = true;
        self.signal(Signal::TERM);
    }

    /// The lease has recovered: an end from here on is not on its account.
    pub(super) fn forgive(&self) {
        self.state.lock().terminated = false;
    }

    pub(super) fn was_killed(&self) -> bool {
        self.state.lock().killed
    }

    pub(super) fn was_terminated(&self) -> bool {
        let state = self.state.lock();
        state.terminated || state.ended_terminated
    }

    fn is_terminated(&self) -> bool {
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
            // Zombies are dead enough. Where `/proc` does not tell, the group is asked for; its
            // number may be another's by now, and nothing but asked.
            let gone = if cfg!(target_os = "linux") {
                self.living().is_empty()
            } else {
                test_kill_process_group(self.leader).is_err()
            };
            if gone {
                return true;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return false;
            }
            self.changed.wait_for(&mut state, Duration::from_millis(5));
        }
    }

    /// The supervisor says that the command was stopped.
    pub(super) fn note_stop(&self) {
        self.state.lock().told = true;
        self.changed.notify_all();
    }

    /// The supervisor says that it ends the command, since its time is up.
    pub(super) fn note_late(&self) {
        self.state.lock().late = true;
        self.changed.notify_all();
    }

    /// Whether it has said so, which may take a moment to be heard.
    pub(super) fn was_late(&self) -> bool {
        let mut state = self.state.lock();
        if !state.late {
            self.changed.wait_for(&mut state, SAID_BEFORE);
        }
        state.late
    }

    /// Whether it said so right before it was seen stopped. Otherwise somebody has stopped it who
    /// will let it go on.
    fn is_told_of_a_stop(&self) -> bool {
        let mut state = self.state.lock();
        if !state.told && !state.held {
            self.changed.wait_for(&mut state, SAID_BEFORE);
        }
        mem::take(&mut state.told)
    }

    /// Waits for the leader to end or to be stopped by its terminal.
    ///
    /// What is left of a command that was asked to end has until `is_time_up` says so.
    pub(super) fn wait(&self, is_time_up: impl Fn() -> bool) -> Event {
        loop {
            let which = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
            // First only looked at: until it is waited for, its number is not given to others.
            let Some(status) = look(self.leader, which | WaitIdOptions::NOWAIT) else {
                self.end();
                return Event::Exited(i32::from(crate::exit::Code::UNAVAILABLE.0));
            };
            if status.stopped() {
                look(self.leader, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                if self.is_told_of_a_stop() {
                    return Event::Suspended;
                }
                continue;
            }
            let of_keys = |signal: &i32| Self::KEYS.contains(signal);
            let was_killed = status
                .terminating_signal()
                .is_some_and(|signal| !of_keys(&signal));
            // Somebody has killed the supervisor alone, or the command has ended in the danger
            // zone: what either leaves behind must not run on.
            let was_asked = self.was_terminated();
            self.state.lock().ended_terminated = was_asked;
            while was_asked && self.is_terminated() && !self.living().is_empty() && !is_time_up() {
                let mut state = self.state.lock();
                self.changed.wait_for(&mut state, LOOK_EVERY);
            }
            if was_killed || was_asked {
                self.kill_all();
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
