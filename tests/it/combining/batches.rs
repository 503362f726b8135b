//! What goes out together: its order, and what becomes of each when the link fails.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use leasehold::{Canceller, Client, Error, Lease};
use parking_lot::Mutex;

use super::{lock, of_one_link, wait_aside};
use crate::support::{Matcher, PATIENCE, Proxy, Scripted, Server, Step, eventually};
use crate::waiting::Aside;
use crate::wire::take;

/// A server that takes its time for the lock `first` until it is told to answer, and that says of
/// all else what `script` says.
fn scripted(
    script: impl Fn(usize, &[String]) -> Step + Send + Sync + 'static,
) -> (Scripted, Sender<()>) {
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let server = Scripted::start(move |connection, words| {
        if words[0] == "SET" && words[1] == "first" {
            // A test that has failed has let go of the other end.
            let _ = gate.lock().recv_timeout(2 * PATIENCE);
            return Step::reply("+OK\r\n");
        }
        script(connection, words)
    });
    (server, open)
}

type Taken = Aside<Result<Option<Lease>, Error>>;

/// Starts the one that has the link.
fn first(client: &Client, server: &Scripted) -> Taken {
    let first = lock(client, "first");
    let first = Aside::start(move || first.try_acquire());
    server.wait_for("SET first", 1);
    first
}

/// Starts those who wait for it, one after the other.
fn line_up<const N: usize>(client: &Client, keys: [&str; N]) -> [Taken; N] {
    keys.map(|key| {
        let lock = lock(client, key);
        wait_aside(move || lock.try_acquire())
    })
}

fn keys_of(server: &Scripted, name: &str) -> Vec<String> {
    let commands = server.commands();
    let own = commands.iter().filter(|words| words[0] == name);
    own.map(|words| words[1].clone()).collect()
}

#[test]
fn a_link_that_fails_in_the_middle_of_a_batch_is_fenced_off_once_for_all_of_it() {
    for reset in [false, true] {
        let (server, open) = scripted(move |connection, words| {
            let key = words.get(1).map_or("", String::as_str);
            match (connection, words[0].as_str(), key) {
                (1, "SET", "c") if reset => Step::Reset,
                (1, "SET", "c") => Step::Close,
                (_, "SET", _) => Step::reply("+OK\r\n"),
                // The third one has run, those behind it have not.
                (2.., "EVALSHA", _) if words[3] == "c" => Step::reply(":1\r\n"),
                (2.., "EVALSHA", _) if words.len() == 6 => Step::reply(":0\r\n"),
                (_, "EVALSHA", _) => Step::reply(":1\r\n"),
                _ => Step::Healthy,
            }
        });
        let client = of_one_link(&server.url());
        let first = first(&client, &server);
        let others = line_up(&client, ["a", "b", "c", "d", "e", "f"]);
        open.send(()).unwrap();
        let leases: Vec<_> = [first]
            .into_iter()
            .chain(others)
            .map(|caller| caller.value().unwrap().expect("each has its lock"))
            .collect();
        assert_eq!(server.count("CLIENT KILL"), 1);
        let stats = client.stats();
        if reset {
            // What a reset takes with it nobody knows: there may be no reply to the first two.
            assert!((4..=6).contains(&stats.unknown_resolved), "{stats:?}");
        } else {
            assert_eq!(stats.unknown_resolved, 4);
        }
        assert_eq!((stats.acquired, stats.unknown_unresolved), (7, 0));
        let set = keys_of(&server, "SET");
        let times = |key: &str| set.iter().filter(|set| *set == key).count();
        // Proven not to have run, a lock is taken with another token.
        for key in ["d", "e", "f"] {
            let commands = server.commands();
            let mut tokens: Vec<_> = commands
                .iter()
                .filter(|words| words[0] == "SET" && words[1] == key)
                .map(|words| words[2].clone())
                .collect();
            tokens.dedup();
            // The link ended before the server has looked at it, or right after.
            assert!((1..=2).contains(&times(key)), "{key}: {}", times(key));
            assert_eq!(tokens.len(), times(key), "a token is never sent twice");
        }
        assert_eq!(times("c"), 1);
        drop(leases);
    }
}

#[test]
fn what_was_not_accepted_in_a_batch_goes_elsewhere_with_nothing_to_settle() {
    let (server, open) = scripted(|connection, words| match (connection, words[0].as_str()) {
        (1, "SET") => Step::StopReading,
        (_, "SET") => Step::reply("+OK\r\n"),
        // A renewal, which settles, and a release.
        (_, "EVALSHA") if words[2] == "1" => Step::reply(":0\r\n"),
        (_, "EVALSHA") => Step::reply(":1\r\n"),
        _ => Step::Healthy,
    });
    let client = Client::builder(&server.url())
        .max_links(1)
        .connect_timeout(PATIENCE)
        .command_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let first = first(&client, &server);
    // More than the buffers of both sides take, so that it alone is not accepted, whole; those
    // behind it have no part in its batch.
    let huge = "x".repeat(8 << 20);
    let [a, b, huge, c, d] = line_up(&client, ["a", "b", &huge, "c", "d"]);
    open.send(()).unwrap();
    let leases: Vec<_> = [first, a, b, c, d]
        .into_iter()
        .map(|caller| caller.value().unwrap().expect("each has its lock"))
        .collect();
    match huge.value() {
        // Given back, it would take as long once more.
        Ok(lease) => drop(lease.map(Lease::detach)),
        Err(error) => assert!(error.is_unavailable(), "{error:?}"),
    }
    let stats = client.stats();
    // Those before it alone may have run.
    assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (2, 0));
    assert_eq!(server.count("CLIENT KILL"), 1);
    drop(leases);
}

#[test]
fn a_thread_that_gives_up_in_line_has_sent_nothing_and_those_behind_it_have() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = of_one_link(&proxy.url());
    client.ping().unwrap();
    let held = proxy.hold_reply(Matcher::command("SET").once());
    let first = lock(&client, "first");
    let first = Aside::start(move || first.try_acquire());
    held.wait();
    let front = lock(&client, "front");
    let front = wait_aside(move || front.try_acquire());
    let hasty = lock(&client, "hasty");
    let canceller = Canceller::new();
    let own = canceller.clone();
    let hasty = wait_aside(move || {
        let budget = Duration::from_millis(100);
        let timed_out = hasty.acquire_timeout(budget).unwrap_err();
        let cancelled = hasty.acquire_cancellable(None, &own);
        (timed_out, cancelled)
    });
    let behind = lock(&client, "behind");
    let behind = wait_aside(move || behind.try_acquire());
    canceller.cancel();
    let (timed_out, cancelled) = hasty.value();
    assert!(timed_out.is_unavailable(), "{timed_out:?}");
    assert!(cancelled.unwrap().is_none());
    assert!(held.deliver());
    for caller in [first, front, behind] {
        caller.value().unwrap().unwrap().release().unwrap();
    }
    let words = proxy.commands().concat();
    assert!(!words.contains(&String::from("hasty")));
    assert_eq!((proxy.connections(), client.stats().reconnects), (1, 0));
}

#[test]
fn a_leader_whose_own_time_ends_leaves_the_others_their_replies_on_the_same_link() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = of_one_link(&proxy.url());
    // A renewal at a caller's request waits for a tenth of this.
    let lease = client.lock("kept").ttl(Duration::from_secs(20));
    let lease = take(&lease.without_renewal().build().unwrap());
    let held = proxy.hold_reply(Matcher::command("SET").with_arg("first").once());
    let first = lock(&client, "first");
    let first = Aside::start(move || first.try_acquire());
    held.wait();
    let hanging = proxy.hold_reply(Matcher::evalsha().once());
    let renewing = wait_aside(move || (lease.renew(), lease));
    let others = ["a", "b", "c"].map(|key| {
        let lock = lock(&client, key);
        wait_aside(move || lock.try_acquire())
    });
    assert!(held.deliver());
    hanging.wait();
    proxy.wait_for("SET c", 1);
    eventually("the leader has given up", PATIENCE, || {
        client.stats().renewals_failed == 1
    });
    assert!(hanging.deliver());
    // Its second try is one more command on that link.
    let (renewed, lease) = renewing.value();
    renewed.unwrap();
    for caller in [first].into_iter().chain(others) {
        caller.value().unwrap().unwrap().release().unwrap();
    }
    lease.release().unwrap();
    let stats = client.stats();
    assert_eq!((proxy.connections(), stats.reconnects), (1, 0));
    assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (0, 0));
}

#[test]
fn a_lock_is_given_back_before_others_ask_for_theirs() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = of_one_link(&proxy.url());
    let lease = take(&lock(&client, "given back"));
    let held = proxy.hold_reply(Matcher::command("SET").with_arg("first").once());
    let first = lock(&client, "first");
    let first = Aside::start(move || first.try_acquire());
    held.wait();
    let others = ["a", "b", "c", "d"].map(|key| {
        let lock = lock(&client, key);
        wait_aside(move || lock.try_acquire())
    });
    let released = wait_aside(move || lease.release());
    let before = proxy.commands().len();
    assert!(held.deliver());
    released.value().unwrap();
    for caller in [first].into_iter().chain(others) {
        caller.value().unwrap().unwrap().release().unwrap();
    }
    let next = &proxy.commands()[before];
    assert_eq!(
        (next[0].as_str(), next[3].as_str()),
        ("EVALSHA", "given back")
    );
}
