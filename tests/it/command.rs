//! The command `leasehold`: real processes, real signals, a real server.

mod codes;
mod contending;
mod deaths;
mod descendants;
mod doctor;
mod environment;
mod signals;
mod strangers;
mod terminals;
mod troubles;
mod words;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use redis::Value;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PATIENCE, Process, Server, eventually};

pub(crate) const KEY: &str = "job:1";

/// A body that goes on until it is ended, and says `tail` as soon as it is one process and not a
/// shell any more: that one minds a signal only between two others, and `SIGINT` not always.
const FOREVER: &str = "exec tail -f /proc/self/comm 2> /dev/null";

/// The command with these words, and without what the environment might tell it.
pub(crate) fn leasehold(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for name in ["URL", "TOKEN", "KEY", "FENCE", "DEADLINE_MS"] {
        command.env_remove(format!("LEASEHOLD_{name}"));
    }
    command.env_remove("REDIS_URL").env_remove("BASH_ENV");
    command.args(words);
    command
}

/// `leasehold run --url … OPTIONS KEY -- bash -c BODY`. Not `sh`: one that starts its naps with
/// `vfork` may be stopped in the middle of it, and then it is not shown as stopped.
fn run(server: &Server, options: &[&str], body: &str) -> Command {
    run_at(&server.url(), options, body)
}

fn run_at(url: &str, options: &[&str], body: &str) -> Command {
    let mut command = leasehold(&["run", "--url", url]);
    command.args(options).args([KEY, "--", "bash", "-c", body]);
    command
}

/// A process whose streams are looked at. It is killed when the handle is dropped.
pub(crate) struct Running {
    process: Process,
    stdin: Option<ChildStdin>,
    out: Lines,
    err: Lines,
}

/// How a process has ended, and what it has written.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    #[track_caller]
    fn start(command: &mut Command) -> Running {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::start(command, None).expect("the command starts");
        let out = Lines::of(process.take_stdout().unwrap());
        let err = Lines::of(process.take_stderr().unwrap());
        let stdin = process.take_stdin();
        Running {
            process,
            stdin,
            out,
            err,
        }
    }

    /// The next line of the command's own output.
    #[track_caller]
    fn line(&mut self) -> String {
        self.out.next()
    }

    /// The next line of standard error.
    #[track_caller]
    fn complaint(&mut self) -> String {
        self.err.next()
    }

    /// The next line of leasehold's own: a shell has its say about what was ended, too.
    #[track_caller]
    fn word(&mut self) -> String {
        loop {
            let line = self.complaint();
            if line.starts_with("leasehold: ") {
                return line;
            }
        }
    }

    #[track_caller]
    fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    /// Waits until it has ended by itself, and everybody who could write for it.
    #[track_caller]
    fn end_within(mut self, bound: Duration) -> Ended {
        self.stdin = None;
        let status = self.process.wait(bound);
        Ended {
            code: status.code(),
            out: self.out.rest(),
            err: self.err.rest(),
        }
    }
}

/// Starts it, and waits until it has ended.
#[track_caller]
pub(crate) fn end(command: &mut Command) -> Ended {
    Running::start(command).end()
}

/// What comes out of a pipe.
struct Lines {
    lines: Receiver<String>,
    heard: String,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Lines {
        let (heard, lines) = channel();
        let listen = move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                // The handle may have been dropped; the pipe is emptied all the same.
                let _ = heard.send(line);
            }
        };
        thread::spawn(listen);
        Lines {
            lines,
            heard: String::new(),
        }
    }

    #[track_caller]
    fn next(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.heard += &format!("{line}\n");
                line
            }
            Err(error) => panic!("{error}; before that: {:?}", self.heard),
        }
    }

    /// Everything, to the end.
    #[track_caller]
    fn rest(mut self) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.heard += &format!("{line}\n"),
                Err(RecvTimeoutError::Disconnected) => return self.heard,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("somebody still holds the pipe: {:?}", self.heard)
                }
            }
        }
    }
}

/// A directory that goes with the server's.
fn beside(server: &Server, name: &str) -> PathBuf {
    server.socket().with_file_name(name)
}

/// The text of a file, as soon as it has a whole line.
#[track_caller]
fn written(path: &Path) -> String {
    let mut text = String::new();
    eventually(&format!("{} is written", path.display()), PATIENCE, || {
        text = fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text
}

/// Neither a lock nor anything else but fences, and what is gone by itself in two seconds: that
/// somebody waited, and that he was to be woken.
#[track_caller]
fn assert_nothing_is_left(server: &Server) {
    let Value::Array(keys) = server.cmd(&["KEYS", "*"]) else {
        panic!("KEYS did not answer with a list");
    };
    let left = keys.iter().filter(|key| {
        let Value::BulkString(name) = key else {
            return true;
        };
        let name = String::from_utf8_lossy(name);
        let longest = match name.rsplit_once(":leasehold:") {
            Some((_, "fence")) => return false,
            Some((_, "waiting")) => 2_000,
            Some((_, "wake")) => 1_000,
            _ => return true,
        };
        // -2 says that it is gone by now, and -1 that it stays for ever.
        let ttl = server.pttl(&name);
        ttl == -1 || longest < ttl
    });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&Value>::new());
}

/// The state of a process as `/proc` has it; `Z` also where there is none.
fn state(id: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.trim_start().chars().next().unwrap_or('Z')
}

fn is_dead(id: u32) -> bool {
    // X is one that has just been waited for.
    matches!(state(id), 'Z' | 'X')
}

#[track_caller]
fn kill(id: u32, signal: Signal) {
    let id = Pid::from_raw(id.try_into().unwrap()).unwrap();
    kill_process(id, signal).expect("it runs");
}

#[track_caller]
fn eventually_dead(ids: &[u32], within: Duration) {
    eventually("the processes are dead", within, || {
        ids.iter().all(|id| is_dead(*id))
    });
}

/// The process numbers of a line.
#[track_caller]
fn numbers(line: &str) -> Vec<u32> {
    line.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// The children of a process.
fn children(id: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{id}/task"));
    let lists = tasks.into_iter().flatten().flatten();
    let lists = lists.map(|task| fs::read_to_string(task.path().join("children")));
    lists.flatten().flat_map(|list| numbers(&list)).collect()
}

/// The parent of a process.
#[track_caller]
fn parent(id: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().nth(1).unwrap().parse().unwrap()
}
