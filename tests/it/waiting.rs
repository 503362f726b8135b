//! Waiting for a lock that others hold: budgets, cancelling, and turns at the links.

mod cancelled;
mod for_others;
mod through_outages;
mod turns_at_the_links;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use leasehold::{Client, Lease, Lock};

use crate::links::patient;
use crate::support::{PATIENCE, Server, eventually};

/// What a busy machine may add to a time that is being judged.
pub(crate) const SLACK: Duration = Duration::from_secs(2);

/// Work on a thread of its own. Unlike a scoped thread it does not keep a failed test from
/// ending.
pub(crate) struct Aside<T>(Receiver<T>);

impl<T: Send + 'static> Aside<T> {
    pub(crate) fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (done, value) = channel();
        thread::spawn(move || done.send(work()).is_ok());
        Self(value)
    }

    /// Waits for the end of the work.
    #[track_caller]
    pub(crate) fn value(self) -> T {
        self.value_within(PATIENCE)
    }

    /// The same for work that takes longer than most.
    #[track_caller]
    pub(crate) fn value_within(self, patience: Duration) -> T {
        match self.0.recv_timeout(patience) {
            Ok(value) => value,
            Err(RecvTimeoutError::Timeout) => panic!("not back within {patience:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("it panicked, see above"),
        }
    }
}

fn lock(client: &Client) -> Lock {
    client.lock("order:1").build().unwrap()
}

/// Takes `order:1`, as somebody else.
fn hold(server: &Server) -> Lease {
    let lease = lock(&patient(&server.url())).acquire_timeout(PATIENCE);
    lease.unwrap()
}

/// Returns when a wait of this client has found the lock held.
#[track_caller]
fn wait_until_waiting(client: &Client) {
    let contended = client.stats().contended;
    eventually("it waits", PATIENCE, || {
        contended < client.stats().contended
    });
}
