//! A lock that goes from one handle to the next by its token.

mod by_token;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use leasehold::{Client, LeaseState, Lock, LossCause, Token};

use crate::links::patient;
use crate::support::children::{self, Child};
use crate::support::{Matcher, Monitor, PATIENCE, Proxy, Server, eventually};
use crate::wire::take;

const KEY: &str = "order:1";

fn client(url: &str) -> Client {
    Client::builder(url)
        .command_timeout(Duration::from_millis(300))
        .build()
        .unwrap()
}

fn lock(url: &str) -> Lock {
    client(url).lock(KEY).build().unwrap()
}

#[test]
fn a_detached_lock_stands_and_is_adopted_with_a_fresh_token_by_another_client() {
    let server = Server::start();
    let token = lock(&server.url()).acquire().unwrap().detach();
    assert_eq!(server.get(KEY).as_deref(), Some(token.expose()));

    let text = token.expose().to_owned();
    let heir = client(&server.url())
        .lock(KEY)
        .ttl(Duration::from_secs(5))
        .label("heir");
    let heir = heir.build().unwrap();
    let lease = heir.adopt(text.parse().unwrap()).unwrap().unwrap();
    assert_ne!(lease.token(), &token);
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
    assert_eq!(lease.token().label(), Some("heir"));
    let left = server.pttl(KEY);
    assert!(0 < left && left <= 5_000, "the adopter's own ttl: {left}");
    lease.check().unwrap();
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn of_two_adopters_of_one_token_one_wins() {
    let server = Server::start();
    let token = lock(&server.url()).acquire().unwrap().detach();
    let first = lock(&server.url()).adopt(token.clone()).unwrap();
    let second = lock(&server.url()).adopt(token).unwrap();
    assert!(first.is_some() && second.is_none());
    assert_eq!(
        server.get(KEY).as_deref(),
        Some(first.unwrap().token().expose())
    );
}

#[test]
fn a_handle_whose_token_was_adopted_finds_that_the_lock_was_taken_over() {
    let server = Server::start();
    let given = lock(&server.url()).acquire().unwrap();
    let heir = lock(&server.url()).adopt(given.token().clone()).unwrap();
    let heir = heir.unwrap();
    let error = given.verify().unwrap_err();
    assert!(error.is_lost());
    assert!(error.to_string().contains("another acquisition"), "{error}");
    assert!(given.release().unwrap_err().is_lost());
    heir.verify().unwrap();
    heir.release().unwrap();
}

#[test]
fn a_token_whose_lock_has_gone_or_is_anothers_is_not_adopted() {
    let server = Server::start();
    let gone: Token = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
    assert!(lock(&server.url()).adopt(gone.clone()).unwrap().is_none());
    assert_eq!(server.get(KEY), None, "nothing is created");
    server.cmd(&["SET", KEY, "somebody"]);
    assert!(lock(&server.url()).adopt(gone).unwrap().is_none());
    assert_eq!(server.get(KEY).as_deref(), Some("somebody"));
}

#[test]
fn an_adopted_fenced_lock_has_a_later_fence() {
    let server = Server::start();
    let fenced = client(&server.url()).lock(KEY).fenced().build().unwrap();
    let given = fenced.acquire().unwrap();
    let before = given.fence().unwrap();
    let heir = fenced.adopt(given.detach()).unwrap().unwrap();
    assert!(before < heir.fence().unwrap());
    let counter = format!("{KEY}:leasehold:fence");
    assert_eq!(
        server.get(&counter),
        heir.fence().map(|fence| fence.to_string())
    );
}

#[test]
fn a_lost_reply_to_an_adoption_is_settled_and_the_fence_is_known() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let fenced = client(&server.url()).lock(KEY).fenced().build().unwrap();
    let given = fenced.acquire().unwrap();
    let before = given.fence().unwrap();
    let token = given.detach();
    proxy.drop_reply(Matcher::evalsha().once());
    let far = client(&proxy.url());
    let lease = far.lock(KEY).fenced().build().unwrap();
    let lease = lease.adopt(token).unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
    assert!(before < lease.fence().unwrap());
    assert_eq!(far.stats().unknown_resolved, 1);
    lease.release().unwrap();
}

#[test]
fn an_adoption_that_is_held_up_never_runs_once_it_is_fenced_off() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let token = lock(&server.url()).acquire().unwrap().detach();
    let held = proxy.hold(Matcher::evalsha().once());
    let lease = lock(&proxy.url()).adopt(token).unwrap().unwrap();
    held.wait();
    assert!(!held.deliver(), "the server has ended that connection");
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn an_adoption_without_a_barrier_is_unknown() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let token = lock(&server.url()).acquire().unwrap().detach();
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let held = proxy.hold(Matcher::evalsha().once());
    let error = lock(&proxy.url()).adopt(token.clone()).unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_eq!(error.may_hold_until(), None);
    held.discard();
    assert_eq!(server.get(KEY).as_deref(), Some(token.expose()));
}

#[test]
fn a_replica_does_not_say_that_a_token_has_gone() {
    let server = Server::start();
    let token: Token = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
    let heir = lock(&server.url());
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = heir.adopt(token.clone()).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    server.cmd(&["REPLICAOF", "NO", "ONE"]);
    assert!(heir.adopt(token).unwrap().is_none());
}

/// What a lease here is held for without a renewal.
const TTL: Duration = Duration::from_millis(1_500);

/// Another process, which adopts what it is told.
fn heir(server: &Server) -> Child {
    let variables = [("URL", &*server.url())];
    let mut child = Child::run("adopt::adopts_what_it_is_told", &variables);
    assert_eq!(child.expect_line(PATIENCE), "ready");
    child
}

#[test]
fn a_lock_goes_to_another_process_which_renews_it() {
    let server = Server::start();
    let mut heir = heir(&server);
    let client = patient(&server.url());
    let lease = take(&client.lock(KEY).ttl(TTL).build().unwrap());
    let token = lease.detach();
    heir.send(token.expose());
    let record = heir.expect_line(PATIENCE);
    assert_ne!(record, token.expose());
    let monitor = Monitor::on(&server);
    let adopted = Instant::now();
    eventually("it has been renewed more than once", PATIENCE, || {
        assert_eq!(server.get(KEY).as_ref(), Some(&record));
        2 * TTL < adopted.elapsed()
    });
    for command in monitor.commands() {
        let token = String::from(token.expose());
        assert!(
            !command.contains(&token),
            "it is renewed no more: {command:?}"
        );
    }
    heir.send("release");
    assert_eq!(heir.expect_line(PATIENCE), "released");
    assert_eq!(server.get(KEY), None);
    heir.send("end");
    assert!(heir.wait(PATIENCE).success());
}

#[test]
fn of_two_processes_that_adopt_one_token_at_a_time_one_wins() {
    let server = Server::start();
    let mut heirs = [heir(&server), heir(&server)];
    let lock = patient(&server.url()).lock(KEY).build().unwrap();
    for _ in 0..20 {
        let token = take(&lock).detach();
        for heir in &mut heirs {
            heir.send(token.expose());
        }
        let records = heirs.each_mut().map(|heir| heir.expect_line(PATIENCE));
        let winner = records.iter().position(|record| record != "none").unwrap();
        assert_eq!(records[1 - winner], "none", "{records:?}");
        assert_eq!(server.get(KEY).as_ref(), Some(&records[winner]));
        heirs[winner].send("release");
        assert_eq!(heirs[winner].expect_line(PATIENCE), "released");
        assert_eq!(server.get(KEY), None);
    }
}

#[test]
fn adopts_what_it_is_told() {
    let Some(parent) = children::parent() else {
        return;
    };
    let lock = patient(&parent.var("URL")).lock(KEY).ttl(TTL);
    let lock = lock.build().unwrap();
    let mut lease = None;
    parent.say("ready");
    while let Some(line) = parent.hear().filter(|line| line != "end") {
        if let Ok(token) = line.parse() {
            lease = lock.adopt(token).unwrap();
            parent.say(
                lease
                    .as_ref()
                    .map_or("none", |lease| lease.token().expose()),
            );
        } else {
            lease.take().unwrap().release().unwrap();
            parent.say("released");
        }
    }
}

#[test]
fn the_holder_whose_token_was_adopted_is_told_at_the_next_renewal() {
    let server = Server::start();
    let client = patient(&server.url());
    let (told, losses) = channel();
    let given = client.lock(KEY).ttl(2 * TTL).fenced().on_lost(move |loss| {
        let _ = told.send((loss.cause(), loss.fence(), loss.watch().state()));
    });
    let given = take(&given.build().unwrap());
    let heir = client.lock(KEY).fenced().build().unwrap();
    let heir = heir.adopt(given.token().clone()).unwrap().unwrap();
    assert_eq!(
        losses.recv_timeout(PATIENCE).unwrap(),
        (LossCause::TakenOver, given.fence(), LeaseState::Lost)
    );
    assert!(given.check().unwrap_err().is_lost());
    assert!(given.release().unwrap_err().is_lost());
    assert_eq!(server.get(KEY).as_deref(), Some(heir.token().expose()));
    heir.check().unwrap();
    heir.release().unwrap();
    assert!(losses.try_recv().is_err(), "told once");
}
