//! A private `redis-server` that is gone when the bench is.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::bare::{Bare, Token};
use super::placement::Placement;

/// The variable that names another server's binary, as in the tests.
const BINARY: &str = "LEASEHOLD_TEST_REDIS";
/// Some distributions carry only the second one.
const BINARIES: [&str; 2] = ["redis-server", "valkey-server"];

const PATIENCE: Duration = Duration::from_secs(10);

/// `$1` is the server and `$2` its directory. The read ends when the bench does, however that
/// happens, because nobody else holds the other end of the pipe.
const WATCH: &str = "read -r line; kill -KILL \"$1\"; rm -rf -- \"$2\"";

/// Listens on a loopback port and on a unix socket, and keeps nothing on disk.
pub(crate) struct Server {
    child: Child,
    watcher: Child,
    directory: PathBuf,
    port: u16,
}

impl Server {
    /// `Err` is one line for a person to read.
    pub(crate) fn start() -> Result<Self, String> {
        let random = getrandom::u64().map_err(|error| error.to_string())?;
        let directory = env::temp_dir().join(format!("leasehold-bench-{random:016x}"));
        fs::create_dir(&directory)
            .map_err(|error| format!("no directory for the server: {error}"))?;
        let started = (0..20).find_map(|_| launch(&directory).transpose());
        match started {
            Some(Ok((child, watcher, port))) => Ok(Self {
                child,
                watcher,
                directory,
                port,
            }),
            Some(Err(why)) => {
                let _ = fs::remove_dir_all(&directory);
                Err(why)
            }
            None => Err("no port for the server in 20 tries".to_owned()),
        }
    }

    pub(crate) fn tcp_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn unix_url(&self) -> String {
        format!("unix://{}", self.directory.join("socket").display())
    }

    /// For the first line of a report.
    pub(crate) fn describe(&self, placement: Placement) -> Result<String, String> {
        let bare = Bare::connect(&self.tcp_url(), "bench:info", Token::Constant);
        let version = bare.and_then(|bare| bare.info("redis_version"));
        let version = version.map_err(|error| error.to_string())?;
        Ok(format!("private server, version {version}; {placement}"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// From here on it neither answers nor closes anything; the system still takes what is sent
    /// to it.
    pub(crate) fn stop(&self) -> Result<(), String> {
        self.signal("STOP")
    }

    pub(crate) fn go_on(&self) -> Result<(), String> {
        self.signal("CONT")
    }

    /// The shell's own `kill`, since the program of that name is not on every machine.
    fn signal(&self, name: &str) -> Result<(), String> {
        let status = Command::new("sh")
            .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name])
            .arg(self.id().to_string())
            .status()
            .map_err(|error| format!("no shell to send SIG{name} with: {error}"))?;
        if status.success() {
            return Ok(());
        }
        Err(format!("SIG{name} was not sent to the server: {status}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The watcher first: once the server is reaped, its id may be another process's.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn binary() -> Result<OsString, String> {
    if let Some(binary) = env::var_os(BINARY) {
        return Ok(binary);
    }
    let found = BINARIES.iter().find(|binary| {
        let version = Command::new(binary).arg("--version").output();
        !matches!(version, Err(error) if error.kind() == ErrorKind::NotFound)
    });
    found.map(OsString::from).ok_or_else(|| {
        "`redis-server` was not found: install it (Debian, Ubuntu: `apt-get install \
         redis-server`), or name a running server in LEASEHOLD_BENCH_URL"
            .to_owned()
    })
}

/// `Ok(None)` if the port was taken between our look and the server's own.
fn launch(directory: &Path) -> Result<Option<(Child, Child, u16)>, String> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("no free port: {error}"))?
        .port();
    let (socket, log) = (directory.join("socket"), directory.join("log"));
    let output = File::create(&log).map_err(|error| format!("no log for the server: {error}"))?;
    let binary = binary()?;
    let mut command = Command::new(&binary);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--dir"]);
    command.arg(directory).arg("--unixsocket").arg(&socket);
    command.stdin(Stdio::null()).stdout(output);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{} does not start: {error}", binary.display()))?;
    let watcher = Command::new("sh")
        .args(["-c", WATCH, "sh", &child.id().to_string()])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("nobody to watch the server: {error}"));
        }
    };
    let url = format!("unix://{}", socket.display());
    let deadline = Instant::now() + PATIENCE;
    let why = loop {
        // The unix socket opens after the port, and it is nobody else's.
        if socket.exists() && Bare::connect(&url, "ready", Token::Constant).is_ok() {
            return Ok(Some((child, watcher, port)));
        }
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            let log = fs::read_to_string(&log).unwrap_or_default();
            break (!log.contains("Address already in use"))
                .then(|| format!("the server ended at its start:\n{log}"));
        }
        if deadline < Instant::now() {
            break Some(format!("the server does not answer within {PATIENCE:?}"));
        }
        thread::park_timeout(Duration::from_millis(1));
    };
    let _ = watcher.kill();
    let _ = watcher.wait();
    let _ = child.kill();
    let _ = child.wait();
    why.map_or(Ok(None), Err)
}
