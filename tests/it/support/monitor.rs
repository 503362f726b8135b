//! Every command that a server runs, as it runs it.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::control::{ADDRESS, Control};
use super::loopback;
use super::resp;
use super::server::Server;
use super::wait::PATIENCE;

/// A `MONITOR` on a connection of its own.
///
/// The server itself keeps administrative commands out of it: `CLIENT KILL` and `CONFIG`, for
/// example. Those are counted by a [`Proxy`](super::Proxy). A word of a command is shown as
/// `(redacted)` where it is a password.
///
/// ```ignore
/// let monitor = Monitor::on(&server);
/// lock.try_acquire()?;
/// assert_eq!(monitor.count("SET"), 1);
/// ```
pub struct Monitor<'a> {
    server: &'a Server,
    stream: TcpStream,
    seen: Arc<Seen>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    collected: Vec<String>,
    /// What lies before has been cleared. It is kept, for somebody may be looking for a marker.
    cleared: usize,
    ended: bool,
}

impl Monitor<'_> {
    #[track_caller]
    pub fn on(server: &Server) -> Monitor<'_> {
        let mut control =
            Control::connect(server.addr(), server.password()).expect("a connection for MONITOR");
        let stream = control
            .stream
            .try_clone()
            .expect("a second handle of the socket");
        let mut reader = BufReader::new(control.stream.try_clone().expect("a handle to read from"));
        // The parser would read ahead into the lines that follow the reply.
        control
            .stream
            .write_all(&resp::pack(&["MONITOR"]))
            .expect("MONITOR is sent");
        let mut reply = String::new();
        reader.read_line(&mut reply).expect("MONITOR is answered");
        assert_eq!(reply, "+OK\r\n");
        control
            .stream
            .set_read_timeout(None)
            .expect("a monitor may be silent for long");
        let seen = Arc::new(Seen::default());
        let collector = Arc::clone(&seen);
        let reader = thread::Builder::new()
            .name(String::from("monitor"))
            .spawn(move || collect(reader, &collector))
            .expect("a thread for the monitor");
        Monitor {
            server,
            stream,
            seen,
            reader: Some(reader),
        }
    }

    /// The commands that clients have sent until now, oldest first; neither the tests' own nor
    /// those that a script ran.
    #[track_caller]
    pub fn commands(&self) -> Vec<Vec<String>> {
        self.parsed(|source| !source.starts_with(ADDRESS) && source != "lua")
    }

    /// The commands that scripts have run until now, those of the tests' own scripts included.
    #[track_caller]
    pub fn commands_of_scripts(&self) -> Vec<Vec<String>> {
        self.parsed(|source| source == "lua")
    }

    /// How many of the clients' commands begin with `name`: `SET`, `SCRIPT LOAD`.
    #[track_caller]
    pub fn count(&self, name: &str) -> usize {
        self.commands()
            .iter()
            .filter(|command| resp::begins_with(command, name))
            .count()
    }

    /// The lines as the server wrote them.
    #[track_caller]
    pub fn lines(&self) -> Vec<String> {
        self.sync();
        let lines = self.seen.lines.lock();
        lines.collected[lines.cleared..].to_vec()
    }

    /// Forgets everything that was run until now.
    #[track_caller]
    pub fn clear(&self) {
        self.sync();
        let mut lines = self.seen.lines.lock();
        lines.cleared = lines.collected.len();
    }

    /// Returns when everything that the server has run before this call has been collected. The
    /// methods above do it first.
    #[track_caller]
    pub fn sync(&self) {
        let marker = format!("seen until {:016x}", loopback::random());
        let mut from = self.seen.lines.lock().collected.len();
        self.server.cmd(&["ECHO", &marker]);
        let mut lines = self.seen.lines.lock();
        let mut found = false;
        self.seen.changed.wait_while_for(
            &mut lines,
            |lines| {
                found |= lines.collected[from..]
                    .iter()
                    .any(|line| line.contains(&marker));
                from = lines.collected.len();
                !found && !lines.ended
            },
            PATIENCE,
        );
        assert!(found, "the monitor has lost its server");
    }

    fn parsed(&self, wanted: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
        self.lines()
            .iter()
            .filter_map(|line| parse(line))
            .filter(|(from, _)| wanted(from))
            .map(|(_, words)| words)
            .collect()
    }
}

impl Drop for Monitor<'_> {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn collect(mut reader: impl BufRead, seen: &Seen) {
    let mut line = String::new();
    loop {
        line.clear();
        let result = reader.read_line(&mut line);
        let mut lines = seen.lines.lock();
        match result {
            Ok(1..) => lines.collected.push(String::from(line.trim_end())),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => lines.ended = true,
        }
        seen.changed.notify_all();
        if lines.ended {
            return;
        }
    }
}

/// `+1700000000.123456 [0 127.0.0.1:40000] "SET" "k" "v"` as its source and its words.
fn parse(line: &str) -> Option<(&str, Vec<String>)> {
    let (head, rest) = line.split_once("] ")?;
    let (_, source) = head.split_once('[')?.1.split_once(' ')?;
    let mut words = Vec::new();
    let mut letters = rest.chars();
    while letters.any(|letter| letter == '"') {
        let mut word = Vec::new();
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => word.push(match letters.next()? {
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    'a' => 7,
                    'b' => 8,
                    'x' => {
                        let digits = String::from_iter([letters.next()?, letters.next()?]);
                        u8::from_str_radix(&digits, 16).ok()?
                    }
                    other => other as u8,
                }),
                // The server escapes everything that is not printable ASCII.
                letter => word.push(letter as u8),
            }
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some((source, words))
}
