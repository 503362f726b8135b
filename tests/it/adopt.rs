//! A lock that goes from one handle to the next by its token.

use std::time::Duration;

use leasehold::{Client, Lock, Token};

use crate::support::{Matcher, Proxy, Server};

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
