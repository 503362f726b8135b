//! Other processes: the test binary runs itself again, for one test alone.
//!
//! The part that a child plays is an ordinary test which returns at once in the parent:
//!
//! ```ignore
//! // tests/it/children.rs
//! #[test]
//! fn holds_the_lock() {
//!     let Some(parent) = children::parent() else { return };
//!     let client = Client::open(&parent.var("URL")).unwrap();
//!     // … takes the lock …
//!     parent.say("holding");
//!     parent.hear(); // returns when the parent says something or has gone
//! }
//!
//! // anywhere
//! let mut child = Child::run("children::holds_the_lock", &[("URL", &server.url())]);
//! assert_eq!(child.expect_line(PATIENCE), "holding");
//! child.send("go on");
//! assert!(child.wait(PATIENCE).success());
//! ```

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::process::Process;

/// The variable that tells a child which test it is to play.
const ROLE: &str = "LEASEHOLD_CHILD_ROLE";

/// What a child says begins so; all other lines are the test harness's own.
const PREFIX: &str = "child: ";

/// A running child. It is killed when the handle is dropped, or when the test process dies.
pub struct Child {
    role: String,
    process: Process,
    stdin: ChildStdin,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Child {
    /// Runs the test with this path in a process of its own; `variables` are added to its
    /// environment.
    #[track_caller]
    pub fn run(role: &str, variables: &[(&str, &str)]) -> Child {
        let mut command =
            Command::new(std::env::current_exe().expect("the test binary has a path"));
        command.args(["--exact", role, "--nocapture", "--test-threads", "1"]);
        command.env(ROLE, role).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command, None).expect("the test binary runs again");
        let stdin = process.take_stdin().expect("its input is a pipe");
        let stdout = process.take_stdout().expect("its output is a pipe");
        let (heard, lines) = channel();
        let listen = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The handle may have been dropped; the pipe is emptied all the same.
                let _ = heard.send(line);
            }
        };
        thread::Builder::new()
            .name(String::from("child-output"))
            .spawn(listen)
            .expect("a thread to listen");
        Child {
            role: String::from(role),
            process,
            stdin,
            lines,
            heard: Vec::new(),
        }
    }

    /// The next thing that the child says.
    #[track_caller]
    pub fn expect_line(&mut self, within: Duration) -> String {
        let deadline = Instant::now() + within;
        loop {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    let said = line.strip_prefix(PREFIX).map(String::from);
                    self.heard.push(line);
                    if let Some(said) = said {
                        return said;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.fail(&format!("said nothing within {within:?}"))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.fail("ended (is there a test of that name?)")
                }
            }
        }
    }

    /// The child's [`Parent::hear`] returns this line.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("the child reads its input");
    }

    /// Waits until the child ends by itself.
    #[track_caller]
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        self.process.wait(within)
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// `SIGSTOP`; returns when the child stands still.
    #[track_caller]
    pub fn stop(&self) {
        self.process.stop();
    }

    #[track_caller]
    pub fn cont(&self) {
        self.process.cont();
    }

    /// `SIGKILL`; returns when the child is gone.
    pub fn kill(&mut self) -> ExitStatus {
        self.process.kill()
    }

    #[track_caller]
    fn fail(&self, how: &str) -> ! {
        panic!(
            "the child `{}` {how}; it wrote: {:#?}",
            self.role, self.heard
        );
    }
}

/// The other end, in the child.
pub struct Parent(());

/// `None` in a process that is nobody's child.
pub fn parent() -> Option<Parent> {
    std::env::var_os(ROLE).map(|_| Parent(()))
}

impl Parent {
    pub fn say(&self, line: &str) {
        // The harness leaves its own line open, so this begins with the end of it.
        let mut out = std::io::stdout().lock();
        // Without a parent nobody is there to be told of it.
        let _ = write!(out, "\n{PREFIX}{line}\n").and_then(|()| out.flush());
    }

    /// The next line from the parent; `None` when it has gone.
    pub fn hear(&self) -> Option<String> {
        std::io::stdin().lines().next().and_then(Result::ok)
    }

    /// A variable that the parent has set.
    #[track_caller]
    pub fn var(&self, name: &str) -> String {
        std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}
