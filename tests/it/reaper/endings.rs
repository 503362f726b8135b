//! A client that goes while it still reaps.

use std::fs;

use super::{KEY, LONG, brief, deletions, without_a_barrier};
use crate::support::children::{self, Child};
use crate::support::{PATIENCE, Server, eventually};
use crate::wire::acquisition;

/// How many threads of this process have a name of ours.
fn threads_of_ours() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks
        .flatten()
        .flat_map(|task| fs::read_to_string(task.path().join("comm")));
    names.filter(|name| name.starts_with("leasehold-")).count()
}

#[test]
fn the_drop_of_the_client_ends_the_reaping_its_thread_and_its_link() {
    let server = Server::start();
    let proxy = without_a_barrier(&server);
    proxy.swallow(acquisition().once());
    let role = "reaper::endings::drops_its_client_while_it_reaps";
    let mut child = Child::run(role, &[("URL", &proxy.url())]);
    assert_eq!(child.expect_line(PATIENCE), "reaping");
    eventually("it reaps", PATIENCE, || 2 < deletions(&proxy));
    child.send("drop it");
    assert_eq!(child.expect_line(2 * PATIENCE), "no thread is left");
    eventually("no link is left", PATIENCE, || server.clients().is_empty());
    let sent = proxy.commands().len();
    child.send("end");
    assert!(child.wait(PATIENCE).success());
    assert_eq!(proxy.commands().len(), sent);
}

#[test]
fn drops_its_client_while_it_reaps() {
    let Some(parent) = children::parent() else {
        return;
    };
    let client = brief(&parent.var("URL"));
    let lock = client.lock(KEY).ttl(LONG).build().unwrap();
    assert!(lock.try_acquire().unwrap_err().is_unknown());
    // A thread has its name a moment after its start.
    eventually("its thread is there", PATIENCE, || threads_of_ours() != 0);
    parent.say("reaping");
    parent.hear();
    drop((lock, client));
    // It would have gone on for a ttl.
    eventually("its threads end", PATIENCE, || threads_of_ours() == 0);
    parent.say("no thread is left");
    parent.hear();
}
