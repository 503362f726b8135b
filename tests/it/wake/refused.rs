//! Servers and users that allow no wake-ups: who waits polls, is told so once, and gets the lock.

use leasehold::{Client, ClientBuilder, Error};

use super::{AMPLE, KEY, NOTICED, THEIRS, Waiter, blocked, hold, lock_of, ms};
use crate::support::{PATIENCE, Server, logs};
use crate::waiting::{Aside, SLACK};
use std::time::Instant;

const RIGHTS: &str = "+set +eval +evalsha +get +del +pexpire +pttl +script +role +client";
const WAITING: &str = "+blpop +lpush +exists";

fn builder(url: &str) -> ClientBuilder {
    Client::builder(url)
        .connect_timeout(PATIENCE)
        .command_timeout(PATIENCE)
}

/// Somebody who needs no rights holds the lock and gives it back while `client` waits, twice.
/// Gives what became of its own releases, and how often it has warned.
#[track_caller]
fn waits_and_takes(server: &Server, client: &Client) -> (Vec<Result<(), Error>>, Vec<String>) {
    let (mut releases, mut warnings) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        server.cmd(&["SET", KEY, THEIRS, "PX", "600000"]);
        let waiter = Waiter::start(client, |lock| lock.acquire_timeout(AMPLE));
        waiter.is_waiting();
        let deleted = Instant::now();
        server.cmd(&["DEL", KEY]);
        let (lease, logged) = waiter.lease();
        let took = deleted.elapsed();
        assert!(took < NOTICED + SLACK, "{took:?}");
        let stands = server.get(KEY);
        assert_eq!(stands.as_deref(), Some(lease.token().expose()));
        warnings.extend(logged);
        let mark = logs::mark();
        releases.push(lease.release());
        warnings.extend(super::warnings_of_this_thread(mark));
    }
    (releases, warnings)
}

#[test]
fn a_user_without_rights_to_the_siblings_polls() {
    let server = Server::with(&[&format!("user app on >secret ~{KEY} {RIGHTS} {WAITING}")]);
    let client = builder(&server.url_as("app", "secret")).build().unwrap();
    let (releases, warnings) = waits_and_takes(&server, &client);
    releases.into_iter().for_each(Result::unwrap);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("no wake-ups"), "{warnings:?}");
    assert_eq!(client.inspect(KEY).unwrap().map(|_| ()), None);
}

#[test]
fn a_user_without_blocking_commands_polls() {
    let server = Server::with(&[&format!(
        "user app on >secret ~order:* {RIGHTS} +lpush +exists"
    )]);
    let client = builder(&server.url_as("app", "secret")).build().unwrap();
    let (releases, warnings) = waits_and_takes(&server, &client);
    releases.into_iter().for_each(Result::unwrap);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("no wake-ups"), "{warnings:?}");
}

/// Its release works, and whoever waits notices it by himself.
#[test]
fn a_holder_who_may_wake_nobody_gives_the_lock_back_all_the_same() {
    for missing in [
        "-exists",
        "-lpush",
        "-pexpire +@read",
        "-exists -lpush -blpop",
    ] {
        let rights = format!("{RIGHTS} {WAITING} {missing}");
        let server = Server::with(&[&format!("user app on >secret ~order:* {rights}")]);
        let client = builder(&server.url_as("app", "secret")).build().unwrap();
        let lease = lock_of(&client).acquire_timeout(PATIENCE).unwrap();
        let waiter = Waiter::start(&builder(&server.url()).build().unwrap(), |lock| {
            lock.acquire()
        });
        waiter.is_waiting();
        let mark = logs::mark();
        let released = Instant::now();
        lease.release().unwrap();
        let warnings = super::warnings_of_this_thread(mark);
        let (lease, logged) = waiter.lease();
        let took = released.elapsed();
        assert!(took < NOTICED + SLACK, "without {missing}: {took:?}");
        lease.release().unwrap();
        assert!(warnings.len() <= 1, "{warnings:?}");
        assert!(logged.is_empty(), "{logged:?}");
    }
}

#[test]
fn a_server_without_blocking_commands_is_polled() {
    let server = Server::with(&["rename-command BLPOP forgotten"]);
    let client = builder(&server.url()).build().unwrap();
    let (releases, warnings) = waits_and_takes(&server, &client);
    releases.into_iter().for_each(Result::unwrap);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("no wake-ups"), "{warnings:?}");
}

/// There is no giving back without scripts, which is another matter.
#[test]
fn a_server_without_scripts_is_polled() {
    let server = Server::with(&[
        "rename-command EVALSHA forgotten",
        "rename-command EVAL lost",
    ]);
    let client = builder(&server.url()).build().unwrap();
    let (releases, warnings) = waits_and_takes(&server, &client);
    for release in releases {
        let error = release.unwrap_err();
        assert!(error.is_refused(), "{error:?}");
    }
    let about_waiting = warnings.iter().filter(|text| text.contains("no wake-ups"));
    assert!(about_waiting.count() <= 1, "{warnings:?}");
}

#[test]
fn a_client_that_is_allowed_no_waiting_links_polls_and_warns_of_nothing() {
    let server = Server::start();
    let client = builder(&server.url()).max_waiting_links(0).build().unwrap();
    let (releases, warnings) = waits_and_takes(&server, &client);
    releases.into_iter().for_each(Result::unwrap);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn of_more_waits_than_waiting_links_the_rest_polls() {
    const KEYS: usize = 6;
    let server = Server::start();
    let client = builder(&server.url()).max_waiting_links(2).build().unwrap();
    let holder = builder(&server.url()).build().unwrap();
    let keys: Vec<_> = (0..KEYS).map(|own| format!("order:{own}")).collect();
    let leases: Vec<_> = keys
        .iter()
        .map(|key| {
            let lock = holder.lock(key.as_str()).build().unwrap();
            lock.acquire_timeout(PATIENCE).unwrap()
        })
        .collect();
    let waiters: Vec<_> = keys
        .iter()
        .map(|key| {
            let lock = client.lock(key.as_str()).build().unwrap();
            Waiter::of(&client, lock, |lock| lock.acquire())
        })
        .collect();
    // Those who poll look more often than those asleep.
    crate::support::eventually("all of them wait", PATIENCE, || {
        let asleep = blocked(&server).len();
        assert!(asleep <= 2, "{asleep} are asleep");
        60 <= client.stats().contended
    });
    let released = Instant::now();
    for lease in leases {
        lease.release().unwrap();
    }
    for waiter in waiters {
        let (lease, warnings) = waiter.lease();
        assert!(warnings.is_empty(), "{warnings:?}");
        lease.release().unwrap();
    }
    let took = released.elapsed();
    assert!(took < NOTICED + SLACK, "{took:?}");
}

/// Who polls for want of links sees that one is free again.
#[test]
fn a_waiting_link_that_comes_free_is_used_by_whoever_polls() {
    let server = Server::start();
    let client = builder(&server.url()).max_waiting_links(1).build().unwrap();
    let other = hold(&server);
    let own = builder(&server.url()).build().unwrap();
    let lock = own.lock("order:2").build().unwrap();
    let far = lock.acquire_timeout(PATIENCE).unwrap();
    let first = Waiter::start(&client, |lock| lock.acquire());
    super::wait_until_blocked(&server, 1);
    let lock = client.lock("order:2").build().unwrap();
    let second = Aside::start(move || lock.acquire_timeout(AMPLE));
    let_look(&client);
    other.release().unwrap();
    let (lease, _) = first.lease();
    lease.release().unwrap();
    super::wait_until_blocked(&server, 1);
    far.release().unwrap();
    second.value().unwrap().release().unwrap();
}

#[track_caller]
fn let_look(client: &Client) {
    let contended = client.stats().contended;
    crate::support::eventually("it polls", PATIENCE, || {
        contended + 5 <= client.stats().contended
    });
    super::let_pass(ms(10));
}
