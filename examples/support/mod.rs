//! What the examples share: a server to run against, claims that are checked, and an end
//! that says what went wrong.

use std::env;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use leasehold::Client;

/// Every step of an example ends in it, on whatever thread.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The variable that names a server to use in place of a private one.
const URL: &str = "LEASEHOLD_URL";

/// Both speak the same protocol, and some distributions carry only the second.
const BINARIES: [&str; 2] = ["redis-server", "valkey-server"];

const MISSING: &str = "no `redis-server` on this machine: run `scripts/try`, or install it \
    (Debian, Ubuntu: `apt-get install redis-server`; Fedora: `dnf install valkey`; Arch: \
    `pacman -S valkey`; Alpine: `apk add redis`; openSUSE: `zypper install redis`; macOS: \
    `brew install redis`), or set LEASEHOLD_URL=redis://… to a server that runs";

/// The server stands in the background of a shell that reads from a pipe. However the
/// example ends (a return, an error, a panic, `kill -9`), the system closes the pipe, and
/// the shell ends the server and removes its directory. A Ctrl-C, which goes to the shell
/// as well, must not end it before that. A line is the name of a signal for the server.
const KEEPER: &str = r#"
    trap '' HUP INT TERM
    directory=$1; shift
    "$@" >"$directory/log" 2>&1 &
    while read -r signal; do kill -s "$signal" $!; done
    kill -KILL $!
    wait
    rm -rf -- "$directory"
"#;

/// How long a private server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A private server that keeps nothing on disk and is gone with the example, or the one
/// that `LEASEHOLD_URL` names.
pub(crate) struct Server {
    url: String,
    keeper: Option<Child>,
}

impl Server {
    pub(crate) fn start() -> Outcome<Self> {
        if let Ok(url) = env::var(URL) {
            // Now, and not after the patience that a wait for a lock has with outages.
            Client::open(&url)?.ping()?;
            return Ok(Self { url, keeper: None });
        }
        let binary = BINARIES.into_iter().find(|name| is_on_path(name));
        let binary = binary.ok_or(MISSING)?;
        // Another program may take the port between our look and the server's start.
        for _ in 0..5 {
            if let Some(server) = Self::launch(binary)? {
                return Ok(server);
            }
        }
        Err("no free port on 127.0.0.1".into())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a signal to a private server; `false` if it is another's, which is left alone.
    #[allow(dead_code, reason = "not every example stops its server")]
    pub(crate) fn signal(&self, name: &str) -> Outcome<bool> {
        let Some(mut pipe) = self
            .keeper
            .as_ref()
            .and_then(|keeper| keeper.stdin.as_ref())
        else {
            return Ok(false);
        };
        writeln!(pipe, "{name}")?;
        Ok(true)
    }

    /// `None` if the port was taken.
    fn launch(binary: &str) -> Outcome<Option<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port().to_string();
        drop(listener);
        let directory = fresh_directory()?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&directory)
            .args([binary, "--bind", "127.0.0.1", "--port", &port])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(&directory)
            .stdin(Stdio::piped())
            .spawn()?;
        let server = Self {
            url: format!("redis://127.0.0.1:{port}"),
            keeper: Some(keeper),
        };
        let client = Client::open(&server.url)?;
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = client.ping() {
            let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
            if log.contains("Address already in use") {
                return Ok(None);
            }
            if deadline <= Instant::now() {
                return Err(format!("`{binary}` does not start: {error}\n{log}").into());
            }
            thread::park_timeout(Duration::from_millis(5));
        }
        Ok(Some(server))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            drop(keeper.stdin.take());
            // It has nothing left to do but to kill and to remove.
            let _ = keeper.wait();
        }
    }
}

/// An error unless `holds`: an example that tells what is not so must not end well.
pub(crate) fn claim(holds: bool, what: &str) -> Outcome {
    if holds {
        return Ok(());
    }
    Err(format!("not as it should be: {what}").into())
}

/// Tells an error with its causes, in place of the `Debug` text that `main` would print.
#[allow(clippy::print_stderr, reason = "the end of a program, not a library")]
pub(crate) fn finish(outcome: Outcome) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}

fn is_on_path(binary: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(binary).is_file())
}

fn fresh_directory() -> Outcome<PathBuf> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let name = format!("leasehold-{}-{}", std::process::id(), now.as_nanos());
    let directory = env::temp_dir().join(name);
    fs::create_dir(&directory)?;
    Ok(directory)
}
