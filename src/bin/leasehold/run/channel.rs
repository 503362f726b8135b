//! Between `run` and its supervisor. One way, a line for each time by which the command has to be
//! dead, and its end tells that `run` has ended; the other way, what the supervisor has to say of it.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::process::Pid;

/// A socket that one supervisor connects to.
pub(super) struct Listener {
    socket: UnixListener,
    name: String,
}

impl Listener {
    /// A socket under a name of its own. Names are no secret: who connects is looked at.
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

    /// Waits for the supervisor, and for nobody else.
    pub(super) fn accept(self, supervisor: Pid) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept()?;
            if address::is_from(&stream, supervisor) {
                address::remove(&self.name);
                return Ok(stream);
            }
        }
    }
}

/// Tells the supervisor what comes, until there is no more to tell or nobody to hear it.
pub(super) fn tell(mut stream: &UnixStream, times: &Receiver<Duration>) {
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

/// What the supervisor says: the command was stopped by its terminal, or is ended since its time is
/// up.
pub(super) const STOPPED: &str = "stopped";
pub(super) const LATE: &str = "late";

/// How long a supervisor waits for the first word.
const PATIENCE: Duration = Duration::from_secs(10);

/// The supervisor's end.
pub(super) struct Channel {
    to: UnixStream,
    lines: io::Lines<BufReader<UnixStream>>,
}

impl Channel {
    pub(super) fn connect(name: &str, parent: Pid) -> io::Result<Self> {
        let stream = address::connect(name)?;
        if !address::is_from(&stream, parent) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            to: stream.try_clone()?,
            lines: BufReader::new(stream).lines(),
        })
    }

    /// The first time, and the way to say something. From then on it is waited for without end.
    pub(super) fn begin(&mut self) -> Option<(Duration, UnixStream)> {
        let first = self.next()?;
        self.to.set_read_timeout(None).ok()?;
        Some((first, self.to.try_clone().ok()?))
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

    use rustix::net::sockopt::socket_peercred;
    use rustix::process::Pid;

    /// In the abstract namespace: nothing of it is left on disk.
    pub(super) fn bind(name: &str) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }

    pub(super) fn remove(_name: &str) {}

    pub(super) fn is_from(stream: &UnixStream, process: Pid) -> bool {
        socket_peercred(stream).is_ok_and(|peer| peer.pid == process)
    }
}

#[cfg(not(target_os = "linux"))]
mod address {
    use std::io;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;

    use rustix::process::Pid;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(name)
    }

    pub(super) fn bind(name: &str) -> io::Result<UnixListener> {
        UnixListener::bind(path(name))
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect(path(name))
    }

    pub(super) fn is_from(_stream: &UnixStream, _process: Pid) -> bool {
        true
    }

    pub(super) fn remove(name: &str) {
        let _ = std::fs::remove_file(path(name));
    }
}
