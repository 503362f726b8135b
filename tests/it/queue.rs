//! Threads of one client that want the same key: first come, first served, and nobody is lost.

mod ended;
mod giving_up;
mod order;
mod outages;
mod thousand;

use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use leasehold::{Client, Lease, Lock};

use crate::links::patient;
use crate::support::{PATIENCE, Server, eventually};
use crate::waiting::Aside;
use crate::wire::take;

pub(crate) const KEY: &str = "order:1";

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn lock(client: &Client) -> Lock {
    client.lock(KEY).build().unwrap()
}

/// Takes [`KEY`] as another client, whose release wakes whoever waits at the server.
pub(crate) fn somebody_else(server: &Server) -> Lease {
    take(&lock(&patient(&server.url())))
}

/// Starts work that waits in memory, and returns when it does. What goes on in a queue in memory
/// is not to be seen from outside, but that a thread sleeps is.
#[track_caller]
pub(crate) fn in_line<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Aside<T> {
    let (tell, thread) = channel();
    let aside = Aside::start(move || {
        let _ = tell.send(rustix::thread::gettid().as_raw_nonzero());
        work()
    });
    let thread = thread.recv_timeout(PATIENCE).unwrap();
    let mut asleep = 0;
    // More than once, since it may sleep for a moment on its way there.
    eventually("it waits", PATIENCE, || {
        asleep = if is_asleep(thread.get()) {
            asleep + 1
        } else {
            0
        };
        3 <= asleep
    });
    aside
}

/// Also one that has ended.
fn is_asleep(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    stat.map_or(true, |stat| {
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('S'))
    })
}

/// Returns when so many connections block at the server until they are woken.
#[track_caller]
pub(crate) fn wait_until_blocked(server: &Server, count: usize) {
    eventually("they block at the server", PATIENCE, || {
        let clients = server.clients();
        // `cmd` is the last command also where it is over.
        let blocked = |line: &&String| {
            let mut fields = line.split(' ');
            fields.any(|field| field.starts_with("flags=") && field.contains('b'))
        };
        clients.iter().filter(blocked).count() == count
    });
}

/// Starts a wait that stands at the server, before all others of its client.
#[track_caller]
pub(crate) fn in_front<T: Send + 'static>(
    server: &Server,
    work: impl FnOnce() -> T + Send + 'static,
) -> Aside<T> {
    let aside = Aside::start(work);
    wait_until_blocked(server, 1);
    aside
}
