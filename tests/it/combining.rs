//! Links that many threads share: whose reply is whose, and what becomes of those who share one
//! that fails.

mod batches;
mod crowds;
mod lossy_network;

use std::fs;
use std::sync::mpsc::channel;

use leasehold::{Client, Lock};

use crate::support::{PATIENCE, eventually};
use crate::waiting::Aside;

/// A client of one link, so that whoever is second waits for it.
fn of_one_link(url: &str) -> Client {
    let builder = Client::builder(url).max_links(1);
    let builder = builder.connect_timeout(PATIENCE).command_timeout(PATIENCE);
    builder.build().unwrap()
}

fn lock(client: &Client, key: &str) -> Lock {
    client.lock(key).build().unwrap()
}

/// Starts work that has to wait for something, and returns when it does so.
#[track_caller]
fn wait_aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Aside<T> {
    let (tell, told) = channel();
    let aside = Aside::start(move || {
        let _ = tell.send(rustix::thread::gettid());
        work()
    });
    let thread = told.recv_timeout(PATIENCE).unwrap().as_raw_nonzero();
    let stat = format!("/proc/self/task/{thread}/stat");
    // A thread may have to wait for a moment on its way, but not for long.
    let mut looks = 0;
    eventually("it waits", PATIENCE, || {
        let stat = fs::read_to_string(&stat).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
        looks = if state == Some(Some('S')) {
            looks + 1
        } else {
            0
        };
        10 < looks
    });
    aside
}
