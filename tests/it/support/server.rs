//! A private `redis-server`, started by a test and gone with it.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parking_lot::Mutex;
use redis::Value;

use super::control::{ADDRESS, Control};
use super::loopback;
use super::process::Process;
use super::wait::{PATIENCE, eventually};

/// The variable that names another server's binary (another version, Valkey).
const BINARY: &str = "LEASEHOLD_TEST_REDIS";

/// Listens on a TCP port of 127.0.0.1 and on a unix socket, and keeps nothing on disk unless told.
///
/// ```ignore
/// let server = Server::start();
/// let client = Client::open(&server.url())?;
/// server.cmd(&["SET", "order:1", "somebody else's"]);
/// server.stop(); // SIGSTOP: it accepts connections and bytes, and answers nothing
/// ```
pub struct Server {
    process: Mutex<Process>,
    port: u16,
    directory: Directory,
    lines: Vec<String>,
}

impl Server {
    #[track_caller]
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// With lines as they stand in `redis.conf`: `Server::with(&["maxmemory 3mb",
    /// "maxmemory-policy noeviction", "user app on >secret ~order:* +set"])`. A later line
    /// overrides this module's own (`appendonly yes`).
    #[track_caller]
    pub fn with(lines: &[&str]) -> Server {
        let lines: Vec<String> = lines.iter().map(|line| String::from(*line)).collect();
        let name = format!(
            "leasehold-test-{}-{:08x}",
            std::process::id(),
            loopback::random() as u32
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a directory for the server");
        let owner = std::process::id();
        let directory = Directory { path, owner };
        loop {
            // Between the closing of this listener and the server's own another server may take
            // the port. Then this one ends at once, and the next port is tried.
            let port = loopback::listen()
                .local_addr()
                .expect("a listener has an address")
                .port();
            if let Some(process) = launch(&directory.path, port, &lines) {
                return Server {
                    process: Mutex::new(process),
                    port,
                    directory,
                    lines,
                };
            }
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// With the password, where a `requirepass` line was given.
    pub fn url(&self) -> String {
        let password = self
            .password()
            .map(|word| format!(":{word}@"))
            .unwrap_or_default();
        format!("redis://{password}127.0.0.1:{}", self.port)
    }

    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port)
    }

    pub fn unix_url(&self) -> String {
        let password = self
            .password()
            .map(|word| format!("?pass={word}"))
            .unwrap_or_default();
        format!("redis+unix://{}{password}", self.socket().display())
    }

    /// The path of the unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path.join("socket")
    }

    pub fn password(&self) -> Option<&str> {
        password(&self.lines)
    }

    /// `SIGSTOP`; returns when the process really stands still. The kernel goes on accepting
    /// connections and bytes for it.
    #[track_caller]
    pub fn stop(&self) {
        self.process.lock().stop();
    }

    /// `SIGCONT`: everything that has gathered since `stop` is run now.
    #[track_caller]
    pub fn cont(&self) {
        self.process.lock().cont();
    }

    /// `SIGKILL`: connections are reset or closed, new ones refused, nothing is saved.
    pub fn kill(&self) {
        self.process.lock().kill();
    }

    /// Kills the server, if it still runs, and starts it on the same port and directory; its
    /// scripts, its client ids and, without `appendonly yes`, its data start from nothing.
    #[track_caller]
    pub fn restart(&self) {
        let mut process = self.process.lock();
        process.kill();
        eventually("the server starts again on its port", PATIENCE, || {
            let started = launch(&self.directory.path, self.port, &self.lines);
            started.map(|started| *process = started).is_some()
        });
    }

    /// One command of the test's own, as the default user. An error fails the test.
    #[track_caller]
    pub fn cmd(&self, command: &[&str]) -> Value {
        self.try_cmd(command)
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// As `cmd`, with the server's error (`OOM command not allowed …`) as a value.
    pub fn try_cmd(&self, command: &[&str]) -> Result<Value, String> {
        // A connection for each command: none to go stale at a restart or by `timeout`.
        let control = Control::connect(self.addr(), self.password());
        control.map_err(|error| error.to_string())?.call(command)
    }

    #[track_caller]
    pub fn get(&self, key: &str) -> Option<String> {
        match self.cmd(&["GET", key]) {
            Value::Nil => None,
            Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            other => panic!("GET {key}: {other:?}"),
        }
    }

    /// Milliseconds; -1 where the key has no expiry, -2 where there is no such key.
    #[track_caller]
    pub fn pttl(&self, key: &str) -> i64 {
        match self.cmd(&["PTTL", key]) {
            Value::Int(left) => left,
            other => panic!("PTTL {key}: {other:?}"),
        }
    }

    /// The lines of `CLIENT LIST` for all but the tests' own connections.
    #[track_caller]
    pub fn clients(&self) -> Vec<String> {
        let Value::BulkString(list) = self.cmd(&["CLIENT", "LIST"]) else {
            panic!("CLIENT LIST did not answer with a text");
        };
        let list = String::from_utf8_lossy(&list).into_owned();
        list.lines()
            .filter(|line| !line.contains(&format!(" addr={ADDRESS}")))
            .map(String::from)
            .collect()
    }
}

/// Removed after the server, which a struct's fields see to by their order.
struct Directory {
    path: PathBuf,
    owner: u32,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // As with the process: a forked copy of the test process has a copy of the handle.
        if self.owner == std::process::id() {
            // What cannot be removed lies where the system keeps such things.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// `None` where the server ended instead of answering, as it does when its port is taken.
#[track_caller]
fn launch(directory: &Path, port: u16, lines: &[String]) -> Option<Process> {
    let binary = std::env::var(BINARY).unwrap_or_else(|_| String::from("redis-server"));
    let log = directory.join("log");
    let mut command = Command::new(&binary);
    command.args([
        "--bind",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--save",
        "",
    ]);
    // Protected mode would refuse the tests' own connections, which come from 127.0.0.2.
    command.args(["--appendonly", "no", "--protected-mode", "no"]);
    command.arg("--unixsocket").arg(directory.join("socket"));
    command
        .arg("--dir")
        .arg(directory)
        .arg("--logfile")
        .arg(&log);
    for line in lines {
        let (name, values) = line.split_once(' ').unwrap_or((line, ""));
        command
            .arg(format!("--{name}"))
            .args(values.split_whitespace());
    }
    // Not `--logfile`: what is wrong with a line is told before that is opened.
    let output = fs::File::create(&log).expect("a file for the server's log");
    let errors = output.try_clone().expect("a second handle of it");
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    // A server that was killed leaves its socket's name behind.
    let _ = fs::remove_file(directory.join("socket"));
    let process = Process::start(&mut command, Some(directory)).unwrap_or_else(|error| {
        if error.kind() == ErrorKind::NotFound {
            panic!(
                "`{binary}` was not found. The tests start private servers of their own: install \
                 one (Debian, Ubuntu: `apt install redis-server`; Fedora: `dnf install redis`; \
                 Arch, Homebrew: package `redis`) or name its binary in {BINARY}."
            );
        }
        panic!("`{binary}` does not start: {error}");
    });
    let mut answers = false;
    eventually("the server answers or ends", PATIENCE, || {
        // The unix socket is opened after the TCP port and is nobody else's, whereas another
        // server might be answering on the port.
        answers = directory.join("socket").exists() && is_ready(port, password(lines));
        answers || process.has_ended()
    });
    if answers && !process.has_ended() {
        return Some(process);
    }
    let log = fs::read_to_string(log).unwrap_or_default();
    let port_was_taken = log.contains("Address already in use");
    assert!(
        port_was_taken,
        "`{binary}` ended at its start with the lines {lines:?}:\n{log}"
    );
    None
}

/// A server that grants the default user nothing is ready; one that still loads its data is not.
fn is_ready(port: u16, password: Option<&str>) -> bool {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Control::connect(addr, password).is_ok_and(|mut control| match control.call(&["PING"]) {
        Ok(_) => true,
        Err(error) => error.starts_with("NOAUTH") || error.starts_with("NOPERM"),
    })
}

fn password(lines: &[String]) -> Option<&str> {
    let words = lines
        .iter()
        .find_map(|line| line.strip_prefix("requirepass "));
    words.map(str::trim)
}
