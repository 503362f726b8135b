//! A child process that cannot outlive the test process.
//!
//! A watcher stands beside each child: a shell that blocks reading a pipe whose other end only the
//! test process holds. However that process ends (a panic that aborts, `SIGKILL`), the kernel
//! closes the pipe and the shell kills the child and removes its directory. The kernel's own
//! parent-death signal was rejected: it fires when the *thread* that started the child ends, and
//! a test's threads end long before the test process does. A process that was forked without
//! `exec` holds the pipe too, so a child can live as long as such a fork of the test process.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::wait::eventually;

/// `$1` is the child and `$2` its directory, empty where it has none.
const WATCH: &str = "read -r line; kill -KILL \"$1\"; [ -z \"$2\" ] || rm -rf -- \"$2\"";

pub struct Process {
    child: Child,
    watcher: Child,
    status: Option<ExitStatus>,
    owner: u32,
}

impl Process {
    /// Starts `command` in a process group of its own, so that a Ctrl-C at the terminal reaches
    /// the test process alone and the watcher is still there to clean up.
    pub fn start(command: &mut Command, directory: Option<&Path>) -> std::io::Result<Process> {
        let mut child = command.process_group(0).spawn()?;
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH, "sh", &child.id().to_string()]);
        watch.arg(directory.unwrap_or(Path::new("")));
        watch
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        match watch.spawn() {
            Ok(watcher) => Ok(Process {
                child,
                watcher,
                status: None,
                owner: std::process::id(),
            }),
            Err(error) => {
                // Without its watcher the child could stay behind.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    #[cfg(feature = "cli")]
    pub fn take_stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// Whether the process has ended; it is not reaped here, so its id cannot be taken by another.
    pub fn has_ended(&self) -> bool {
        self.status.is_some() || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(self.pid()), options).is_ok_and(|status| status.is_some())
        }
    }

    /// Waits until the process ends by itself.
    #[track_caller]
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        eventually("the child process has ended", within, || self.has_ended());
        self.reap()
    }

    /// Pauses the process; returns when the kernel shows it as stopped.
    #[track_caller]
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        self.wait_for_state("stopped", |state| state == 'T');
    }

    /// Lets a stopped process run on; one that is not stopped is left as it is.
    #[track_caller]
    pub fn cont(&self) {
        self.signal(Signal::CONT);
        self.wait_for_state("running again", |state| state != 'T');
    }

    /// `SIGKILL`, which a stopped process obeys too; returns when the process is gone.
    pub fn kill(&mut self) -> ExitStatus {
        if self.status.is_none() {
            self.signal(Signal::KILL);
        }
        self.reap()
    }

    pub fn signal(&self, signal: Signal) {
        assert!(
            self.status.is_none(),
            "the process has ended and its id may be another's"
        );
        // A process that has just ended takes no signal; whoever needs it alive will notice.
        let _ = kill_process(self.pid(), signal);
    }

    /// The watcher goes first: once the child is reaped, its id may be given to another process.
    fn reap(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.pid()), options).is_err_and(|e| e == rustix::io::Errno::INTR)
        {
        }
        self.watcher.kill().expect("the watcher can be killed");
        self.watcher.wait().expect("the watcher can be waited for");
        let status = self
            .child
            .wait()
            .expect("a child process can be waited for");
        self.status = Some(status);
        status
    }

    /// All threads of the process: the first may stand still while another is still running.
    fn wait_for_state(&self, what: &str, is: impl Fn(char) -> bool) {
        let tasks = format!("/proc/{}/task", self.id());
        eventually(
            &format!("the process is {what}"),
            Duration::from_secs(5),
            || {
                let tasks = fs::read_dir(&tasks).expect("the process has an entry in /proc");
                // A thread that ends meanwhile has no state, and none is asked of it.
                let stats = tasks
                    .flatten()
                    .map(|task| fs::read_to_string(task.path().join("stat")));
                stats.flatten().all(|stat| {
                    // The state follows the thread's name, which is in brackets and may hold any.
                    let rest = stat.rsplit(')').next().unwrap_or_default();
                    rest.trim_start().chars().next().is_some_and(&is)
                })
            },
        );
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // In a forked copy of the test process, a panic drops handles that are the parent's.
        if self.owner == std::process::id() {
            self.kill();
        }
    }
}
