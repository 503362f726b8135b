//! The thread that sees to it that the command does not outlive the lease.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use leasehold::{LeaseState, LeaseWatch};
use rustix::process::Pid;

use super::clock;
use super::group::Group;
use super::options::OnDanger;
use super::terminal::Terminal;
use crate::duration::show;
use crate::output::{Level, say};

/// How often it looks when nothing happens.
const TICK: Duration = Duration::from_millis(200);
/// How often while the lease is in danger.
const SHORT_TICK: Duration = Duration::from_millis(20);

pub(super) struct Guard {
    pub(super) key: String,
    pub(super) level: Level,
    pub(super) watch: LeaseWatch,
    pub(super) group: Arc<Group>,
    /// How long before the deadline the command has to be dead.
    pub(super) margin: Duration,
    pub(super) on_danger: OnDanger,
    pub(super) danger_exec: Option<String>,
    pub(super) executed: Option<Child>,
    /// For the supervisor: when it has to be dead, by the clock that both read.
    pub(super) dead_by: Sender<Duration>,
}

impl Guard {
    pub(super) fn run(mut self) {
        let mut in_danger = false;
        loop {
            // In this order: what is left is then never more than what the state was made of.
            let remaining = self.watch.remaining();
            match self.watch.state() {
                LeaseState::Released => return,
                LeaseState::Lost => {
                    self.end("the lease is lost");
                    return;
                }
                LeaseState::Held if in_danger => {
                    in_danger = false;
                    self.recover();
                }
                LeaseState::Danger if !in_danger && !self.group.is_suspended() => {
                    in_danger = true;
                    self.act(remaining);
                }
                LeaseState::Held | LeaseState::Danger => {}
            }
            let Some(left) = remaining
                .checked_sub(self.margin)
                .filter(|left| !left.is_zero())
            else {
                self.end("the lease is about to run out");
                return;
            };
            // The supervisor is the second to act, so that what is said is said by us.
            let _ = self.dead_by.send(clock::now() + left + self.margin / 2);
            if in_danger || self.watch.state() == LeaseState::Danger {
                if self.group.rest(left.min(SHORT_TICK)) {
                    return;
                }
            } else {
                self.watch.wait_danger(left.min(TICK));
                if self.group.rest(Duration::ZERO) {
                    return;
                }
            }
        }
    }

    fn act(&mut self, remaining: Duration) {
        match self.on_danger {
            OnDanger::Terminate => self.group.terminate(),
            OnDanger::Stop => self.group.hold(),
            OnDanger::Nothing => {}
        }
        self.say(format_args!(
            "the lease of {:?} is in danger, {} left",
            self.key,
            show(remaining)
        ));
        let Some(command) = &self.danger_exec else {
            return;
        };
        // One at a time, and none left as a zombie.
        if let Some(child) = &mut self.executed
            && matches!(child.try_wait(), Ok(None))
        {
            return;
        }
        // It must not inherit the mask, without which what we say here might stop us.
        Terminal::undo();
        let spawned = Command::new("/bin/sh")
            .args(["-c", command])
            .env("LEASEHOLD_KEY", &self.key)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn();
        Terminal::prepare();
        match spawned {
            Ok(child) => {
                self.group.set_apart(Pid::from_child(&child));
                self.executed = Some(child);
            }
            Err(error) => self.say(format_args!("cannot run --danger-exec: {error}")),
        }
    }

    fn recover(&self) {
        self.group.forgive();
        if self.on_danger == OnDanger::Stop {
            self.group.let_go();
        }
        self.say(format_args!("the lease of {:?} has recovered", self.key));
    }

    fn end(&self, why: &str) {
        if self.group.rest(Duration::ZERO) || !self.group.kill() {
            return;
        }
        self.say(format_args!(
            "{why}: the command for {:?} was killed",
            self.key
        ));
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        if Level::Normal <= self.level {
            say(text);
        }
    }
}
