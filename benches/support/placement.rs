//! Which cores the client and the server run on. It moves every figure, so each figure is
//! printed with it.

use std::{env, fmt};

/// The variable that names one.
const PLACEMENT: &str = "LEASEHOLD_BENCH_PLACEMENT";

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Client and server on a core each.
    Across { client: usize, server: usize },
    /// Both on the same core: nothing overlaps, and all that the client does is paid for.
    One(usize),
    /// As the system likes.
    Free,
}

impl Placement {
    /// Those that can be had here: both kinds with a server of our own, none with another's.
    pub(crate) fn all(own_server: bool) -> Vec<Self> {
        match (own_server, cores().as_slice()) {
            (true, [first, second, ..]) => vec![
                Self::Across {
                    client: *first,
                    server: *second,
                },
                Self::One(*first),
            ],
            (true, [only]) => vec![Self::One(*only)],
            _ => vec![Self::Free],
        }
    }

    /// The one that the environment asks for: `free`, `across` or `one`. Free if it does not.
    pub(crate) fn wanted() -> Result<Self, String> {
        let wanted = env::var(PLACEMENT).unwrap_or_else(|_| "free".to_owned());
        let mut all = Self::all(true).into_iter().chain([Self::Free]);
        let found = all.find(|placement| match placement {
            Self::Across { .. } => wanted == "across",
            Self::One(_) => wanted == "one",
            Self::Free => wanted == "free",
        });
        found.ok_or_else(|| format!("{PLACEMENT}: not to be had here: {wanted}"))
    }

    /// Puts the calling thread and the process `server` there.
    pub(crate) fn take(self, server: Option<u32>) {
        let (client, server_core) = match self {
            Self::Across { client, server } => (client, server),
            Self::One(core) => (core, core),
            Self::Free => return,
        };
        pin(None, client);
        if let Some(server) = server {
            pin(Some(server), server_core);
        }
    }

    /// The budget for a cycle against the bare socket.
    pub(crate) fn budget(self) -> Option<f64> {
        match self {
            Self::Across { .. } => Some(1.06),
            Self::One(_) => Some(1.12),
            Self::Free => None,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Across { client, server } => write!(f, "cores {client} and {server}"),
            Self::One(core) => write!(f, "both on core {core}"),
            Self::Free => f.write_str("not pinned"),
        }
    }
}

/// The cores that this process may use; none where it cannot choose.
#[cfg(target_os = "linux")]
fn cores() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    let Ok(set) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn cores() -> Vec<usize> {
    Vec::new()
}

/// Pins a process's first thread, or the calling thread. The server runs every command on
/// its first one.
#[cfg(target_os = "linux")]
fn pin(process: Option<u32>, core: usize) {
    use rustix::thread::{CpuSet, Pid, sched_setaffinity};

    let mut set = CpuSet::new();
    set.set(core);
    let process = process.map(|id| {
        i32::try_from(id)
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process has an id")
    });
    sched_setaffinity(process, &set).expect("a core that we may use can be taken");
}

#[cfg(not(target_os = "linux"))]
fn pin(_process: Option<u32>, _core: usize) {}
