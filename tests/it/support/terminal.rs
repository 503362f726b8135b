//! A pseudo-terminal: what a person types, and what there is to be seen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::wait::{PATIENCE, eventually};

/// A program that is the leader of a session with this terminal.
///
/// No watcher stands beside it: when the test process dies, the terminal hangs up, and the kernel
/// tells the session's leader and its foreground. What is typed is echoed, so what a test looks
/// for must not stand in what it types: `echo th""ere` shows `there`.
pub struct Terminal {
    keys: File,
    child: Child,
    seen: Arc<Seen>,
    /// What lies before was looked at already.
    looked_at: usize,
}

#[derive(Default)]
struct Seen {
    text: Mutex<String>,
    grown: Condvar,
}

impl Terminal {
    /// The command's arguments, environment and directory are taken, its streams are the terminal.
    #[track_caller]
    pub fn start(program: &Command) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudo-terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it can be opened");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("of letters").to_owned();
        // Both ways: it is the standard input that `setsid` makes the session's terminal.
        let open = || {
            let file = File::options().read(true).write(true).open(&name);
            Stdio::from(file.expect("the terminal's other end"))
        };
        let mut command = Command::new("setsid");
        command.arg("-c").arg(program.get_program());
        command.args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = program.get_current_dir() {
            command.current_dir(directory);
        }
        command.stdin(open()).stdout(open()).stderr(open());
        let child = command.spawn().expect("`setsid` of util-linux starts");
        let keys = File::from(master);
        let mut screen = keys.try_clone().expect("a second handle of it");
        let seen = Arc::new(Seen::default());
        let collected = Arc::clone(&seen);
        let look = move || {
            let mut piece = [0; 4096];
            // When the last process has closed it, reading fails.
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                let piece = String::from_utf8_lossy(&piece[..length]);
                collected.text.lock().push_str(&piece);
                collected.grown.notify_all();
            }
        };
        thread::Builder::new()
            .name(String::from("screen"))
            .spawn(look)
            .expect("a thread that looks");
        Terminal {
            keys,
            child,
            seen,
            looked_at: 0,
        }
    }

    /// `\x03` is ^C, `\x1a` is ^Z.
    #[track_caller]
    pub fn press(&mut self, keys: &str) {
        self.keys
            .write_all(keys.as_bytes())
            .expect("keys are taken");
    }

    /// Returns when `text` is to be seen, after what was looked at before; what stands between.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let from = self.looked_at;
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.seen.text.lock();
        loop {
            if let Some(at) = seen[from..].find(text) {
                let between = seen[from..from + at].to_owned();
                self.looked_at = from + at + text.len();
                return between;
            }
            let late = self.seen.grown.wait_until(&mut seen, deadline).timed_out();
            assert!(!late, "`{text}` is not to be seen: {:?}", &seen[from..]);
        }
    }

    /// The process group that keys go to.
    pub fn foreground(&self) -> Option<u32> {
        let group = rustix::termios::tcgetpgrp(&self.keys).ok()?;
        group.as_raw_pid().try_into().ok()
    }

    /// Everything that was to be seen.
    pub fn seen(&self) -> String {
        self.seen.text.lock().clone()
    }

    /// Waits until the program has ended; its code, or 128 and the signal, as a shell has it.
    #[track_caller]
    pub fn end(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the program at the terminal has ended", PATIENCE, || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        let status = status?;
        status.code().or(status.signal().map(|signal| 128 + signal))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The kernel hangs up for whoever is in the foreground.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
