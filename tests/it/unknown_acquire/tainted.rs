//! Outcomes that nobody can learn: there is no barrier.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;

use leasehold::Canceller;

use super::{FAMILY, KEY, assert_all_differ, ms, settling_lock};
use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::{
    SLACK, TIMEOUT, acquisition, assert_nothing_unconditional, records_set, settling, take,
};

/// Proxies and users for whom there is no barrier.
fn without_a_barrier(server: &Server) -> Vec<(Proxy, String)> {
    let refused = "-NOPERM no rights\r\n";
    let answered = |answers: &[(&str, &str)]| {
        let proxy = Proxy::to(server);
        for (command, reply) in answers {
            proxy.answer(*command, reply);
        }
        let url = proxy.url();
        (proxy, url)
    };
    let user = Proxy::to(server);
    let url_of_user = user.url_as("app", "secret");
    vec![
        answered(&[("CLIENT KILL", refused)]),
        answered(&[("CLIENT INFO", refused)]),
        // Nobody can tell whether it is the same server that knows no such connection.
        answered(&[("CLIENT KILL", ":0\r\n"), ("INFO", refused)]),
        (user, url_of_user),
    ]
}

const USER: &str =
    "user app on >secret ~order:* +set +eval +evalsha +get +del +pexpire +pttl +time +role";

#[test]
fn without_a_barrier_one_attempt_is_unknown_and_its_token_is_never_set_again() {
    let server = Server::with(&[USER]);
    for (proxy, url) in without_a_barrier(&server) {
        let client = settling(&url);
        let lock = client.lock(KEY).build().unwrap();
        let held = proxy.hold(Matcher::command("SET").once());
        let error = lock.try_acquire().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(KEY), None));
        assert_eq!(client.stats().unknown_unresolved, 1);
        for _ in 0..3 {
            take(&lock).release().unwrap();
        }
        let lease = take(&lock);
        let records = records_set(&proxy.commands());
        assert_eq!(records.len(), 5);
        assert_all_differ(&records);
        // The late one finds the lock held, and costs nobody anything.
        assert!(held.deliver(), "there was no barrier");
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        lease.release().unwrap();
        assert_nothing_unconditional(&proxy.commands());
    }
}

#[test]
fn without_a_barrier_a_wait_goes_on_with_another_token() {
    let server = Server::with(&[USER]);
    let waits = FAMILY[1..3].iter().cycle();
    for ((proxy, url), acquire) in without_a_barrier(&server).into_iter().zip(waits) {
        let lock = settling_lock(&url);
        let held = proxy.hold(Matcher::command("SET").once());
        let lease = acquire.call(&lock).unwrap();
        let records = records_set(&proxy.commands());
        assert_all_differ(&records);
        assert_eq!(records.last().unwrap(), lease.token().expose());
        assert!(held.deliver());
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        lease.release().unwrap();
    }
}

#[test]
fn without_a_barrier_a_wait_that_ends_says_that_an_attempt_is_unknown() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let lock = settling_lock(&proxy.url());
    let held = proxy.hold(Matcher::command("SET").once());
    server.cmd(&["SET", KEY, "theirs", "PX", "60000"]);
    // It was held by others all the time; but a record of ours may still come.
    let error = lock.acquire_timeout(ms(1_500)).unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    // A token that was answered "held" may be sent again, the one that was not answered never.
    let records = records_set(&proxy.commands());
    assert!(1 < records.len() && !records[1..].contains(&records[0]));
    assert!(held.deliver());
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
}

#[test]
fn a_cancelled_wait_whose_command_is_unknown_says_so_within_a_command_timeout() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let swallowed = proxy.swallow(acquisition());
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let lock = settling_lock(&proxy.url());
    let canceller = Canceller::new();
    let attempt = thread::spawn({
        let canceller = canceller.clone();
        move || lock.acquire_cancellable(Some(Instant::now() + PATIENCE), &canceller)
    });
    eventually("a second token is tried", PATIENCE, || {
        swallowed.hits() == 2
    });
    canceller.cancel();
    let cancelled = Instant::now();
    let error = attempt.join().unwrap().unwrap_err();
    assert!(cancelled.elapsed() < TIMEOUT + SLACK);
    assert!(error.is_unknown(), "{error:?}");
}

/// A connection of somebody else.
struct Stranger(BufReader<TcpStream>);

impl Stranger {
    fn connect(server: SocketAddr) -> Stranger {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Stranger(BufReader::new(stream))
    }

    fn id(&mut self) -> Option<u64> {
        self.0.get_mut().write_all(b"CLIENT ID\r\n").ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(':')?.parse().ok()
    }
}

#[test]
fn a_restarted_servers_stranger_with_the_old_id_is_not_killed() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    // The id is to lie above those that the start of a server uses up.
    for _ in 0..100 {
        Stranger::connect(server.addr()).id().unwrap();
    }
    let client = patient(&proxy.url());
    let lock = client.lock(KEY).build().unwrap();
    let held = proxy.hold(Matcher::command("SET").once());
    let handshake = proxy.hold(Matcher::command("CLIENT INFO").nth(2));
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    held.wait();
    let line = server.clients().pop().expect("the held client");
    let old_id: u64 = line
        .strip_prefix("id=")
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap();
    assert!(100 < old_id);
    server.restart();
    handshake.wait();
    let mut strangers = Vec::new();
    loop {
        let mut stranger = Stranger::connect(server.addr());
        let id = stranger.id().unwrap();
        assert!(id <= old_id, "somebody else got the id {old_id}");
        strangers.push(stranger);
        if id == old_id {
            break;
        }
    }
    handshake.send();
    let lease = attempt.join().unwrap().unwrap();
    let commands = proxy.commands();
    let kill = commands
        .iter()
        .find(|words| words.starts_with(&[String::from("CLIENT"), String::from("KILL")]));
    assert_eq!(kill.unwrap()[3], old_id.to_string(), "it has tried");
    assert_eq!(
        strangers.last_mut().and_then(Stranger::id),
        Some(old_id),
        "the stranger lives"
    );
    // A server that killed nothing and is another is no barrier: the token is not set again.
    assert_eq!(client.stats().unknown_unresolved, 1);
    let records = records_set(&commands);
    assert_eq!(records.len(), 2);
    assert_ne!(records[0], records[1]);
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}
