//! Tokens that nobody holds, and whose record stands or may come to stand: it is deleted in the
//! background, and nothing else is.

mod bounds;
mod endings;
mod frozen;
mod late;
mod neighbours;

use std::time::Duration;

use leasehold::{Client, LockBuilder};

use crate::support::{PATIENCE, Proxy, Script, Server, eventually};
use crate::wire::client_with;

const KEY: &str = "order:1";

/// A record of it that is gone within [`PATIENCE`] has not expired.
const LONG: Duration = Duration::from_secs(60);

/// The timeouts of clients that are to give up soon.
const BRIEF: Duration = Duration::from_millis(250);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A client that soon gives a reply up for lost.
fn brief(url: &str) -> Client {
    client_with(url, BRIEF)
}

/// Locks of both kinds, for an hour by the standards of these tests.
fn plain_and_fenced(client: &Client) -> [LockBuilder; 2] {
    let plain = client.lock(KEY).ttl(LONG);
    [plain.clone(), plain.fenced()]
}

/// A way to the server on which a command that was not answered cannot be fenced off.
fn without_a_barrier(server: &Server) -> Proxy {
    let proxy = Proxy::to(server);
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    proxy
}

#[track_caller]
fn assert_deleted_long_before_its_ttl(server: &Server) {
    eventually("the record is deleted", PATIENCE, || {
        server.get(KEY).is_none()
    });
}

/// Compare-and-deletes that have come to the proxy.
fn deletions(proxy: &Proxy) -> usize {
    let commands = proxy.commands();
    let commands = commands.iter();
    commands
        .filter(|words| Script::Release.is_called(words))
        .count()
}
