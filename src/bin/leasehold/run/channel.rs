//! From `run` to its supervisor: a line for each time by which the command has to be dead. Its
//! end tells that `run` has ended.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// A socket that one supervisor connects to.
pub(super) struct Listener {
    socket: UnixListener,
    name: String,
}

impl Listener {
    /// A socket under a name that nobody can guess, which is all that it guards: who connects is
    /// told times.
    pub(super) fn open() -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = random
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        let name = format!("leasehold-{name}");
        let socket = address::bind(&name)?;
        Ok(Self { socket, name })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Tells a supervisor what comes, until there is no more to tell or nobody to hear it.
    pub(super) fn tell(self, times: &Receiver<Duration>) {
        let Ok((mut stream, _)) = self.socket.accept() else {
            return;
        };
        address::remove(&self.name);
        while let Ok(mut time) = times.recv() {
            // Of several the last counts.
            while let Ok(later) = times.try_recv() {
                time = later;
            }
            if writeln!(stream, "{}", time.as_nanos()).is_err() {
                return;
            }
        }
    }
}

/// The supervisor's end.
pub(super) struct Channel {
    lines: io::Lines<BufReader<UnixStream>>,
}

impl Channel {
    pub(super) fn connect(name: &str) -> io::Result<Self> {
        let stream = address::connect(name)?;
        Ok(Self {
            lines: BufReader::new(stream).lines(),
        })
    }

    /// The next time; `None` when `run` has ended.
    pub(super) fn next(&mut self) -> Option<Duration> {
        let line = self.lines.next()?.ok()?;
        Some(Duration::from_nanos(line.parse().ok()?))
    }
}

#[cfg(target_os = "linux")]
mod address {
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    /// In the abstract namespace: nothing of it is left on disk.
    pub(super) fn bind(name: &str) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }

    pub(super) fn remove(_name: &str) {}
}

#[cfg(not(target_os = "linux"))]
mod address {
    use std::io;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(name)
    }

    pub(super) fn bind(name: &str) -> io::Result<UnixListener> {
        UnixListener::bind(path(name))
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect(path(name))
    }

    pub(super) fn remove(name: &str) {
        let _ = std::fs::remove_file(path(name));
    }
}
