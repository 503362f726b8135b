//! Cases in which an answer lies near and must not be given: each was given once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Canceller, Client, Lock};

use crate::support::{Matcher, PATIENCE, Proxy, Server, within};
use crate::wire::{acquisition, records_set};

const KEY: &str = "order:1";
const LEAST_RIGHTS: &str =
    "user app on >secret ~order:* +set +eval +evalsha +get +del +pexpire +pttl";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn client(url: &str, timeout: Duration) -> Client {
    Client::builder(url)
        .connect_timeout(timeout)
        .command_timeout(timeout)
        .build()
        .unwrap()
}

fn lock(url: &str, timeout: Duration) -> Lock {
    client(url, timeout).lock(KEY).build().unwrap()
}

#[test]
fn a_release_that_was_told_not_yours_is_not_inferred_from_a_reply_lost_afterwards() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lease = lock(&proxy.url(), ms(300)).acquire().unwrap();
    server.cmd(&["SET", KEY, "somebody"]);
    // The first answer says "another's"; it is asked again behind `ROLE`, and that is lost.
    let lost = proxy.drop_reply(Matcher::evalsha().nth(2));
    assert!(lease.release().unwrap_err().is_lost());
    assert_eq!(lost.hits(), 1);
    assert_eq!(server.get(KEY).as_deref(), Some("somebody"));
}

#[test]
fn a_late_reply_to_a_load_is_not_taken_for_the_next_answer() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lease = lock(&proxy.url(), ms(300)).acquire().unwrap();
    server.cmd(&["SCRIPT", "FLUSH"]);
    server.cmd(&["SET", KEY, "somebody"]);
    let held = proxy.hold_reply(Matcher::command("SCRIPT LOAD").once());
    let release = thread::spawn(move || lease.release());
    held.wait();
    let error = within(PATIENCE, move || release.join().unwrap()).unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    held.deliver();
    assert_eq!(server.get(KEY).as_deref(), Some("somebody"));
}

#[test]
fn a_wait_for_nobody_ends_as_unknown() {
    let server = Server::with(&[LEAST_RIGHTS]);
    let proxy = Proxy::to(&server);
    let swallowed = proxy.swallow(acquisition());
    let lock = lock(&proxy.url_as("app", "secret"), ms(100));
    let error = within(PATIENCE, move || lock.acquire()).unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_eq!(swallowed.hits(), 2, "a second token was tried once");
    let records = records_set(&proxy.commands());
    assert_ne!(records[0], records[1]);
}

#[test]
fn a_lock_that_came_too_late_and_could_not_be_given_back_is_unknown() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client(&proxy.url(), ms(400));
    client.ping().unwrap();
    // Nearly all of the ttl is danger zone, so that any delay is too much.
    let lock = client.lock(KEY).ttl(ms(30_000)).danger(ms(29_690));
    let lock = lock.without_renewal().build().unwrap();
    proxy.delay_replies(ms(60));
    proxy.swallow(Matcher::evalsha());
    let error = within(PATIENCE, move || lock.try_acquire()).unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(server.get(KEY).is_some(), "which is why");
}

#[test]
fn a_cancelled_wait_remembers_that_an_earlier_attempt_is_unsettled() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let first = proxy.hold(acquisition().once());
    let second = proxy.hold(acquisition().nth(2));
    let lock = lock(&proxy.url(), ms(600));
    let canceller = Canceller::new();
    let waits = canceller.clone();
    let wait = thread::spawn(move || lock.acquire_cancellable(None, &waits));
    first.wait();
    second.wait();
    canceller.cancel();
    second.deliver();
    let error = within(PATIENCE, move || wait.join().unwrap()).unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    first.discard();
}

#[test]
fn a_refusal_is_told_to_each_who_waits_for_a_link() {
    let server = Server::with(&["user app on >secret ~* +@all"]);
    let proxy = Proxy::to(&server);
    proxy.delay_commands(ms(20));
    let client = Client::builder(&proxy.url_as("app", "wrong")).max_links(1);
    let client = client.build().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|own| {
            let lock = client.lock(format!("order:{own}")).build().unwrap();
            thread::spawn(move || lock.try_acquire())
        })
        .collect();
    for thread in threads {
        let error = thread.join().unwrap().unwrap_err();
        assert!(error.is_refused(), "{error:?}");
    }
}

#[test]
fn one_callers_impatience_does_not_make_the_server_away_for_the_others() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = Client::builder(&proxy.url()).max_links(1).build().unwrap();
    let short = client.lock("order:short").ttl(ms(300)).without_renewal();
    let lease = short.build().unwrap().acquire().unwrap();
    // A renewal has 30 ms for a new link, and the server is 40 ms away.
    proxy.delay_replies(ms(40));
    proxy.reset_all();
    let renewal = thread::spawn(move || lease.renew());
    let threads: Vec<_> = (0..4)
        .map(|own| {
            let lock = client.lock(format!("order:{own}")).build().unwrap();
            thread::spawn(move || lock.acquire().map(drop))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    let _ = renewal.join().unwrap();
}

#[test]
fn a_wait_that_can_be_cancelled_does_not_starve_while_links_turn_over() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.delay_replies(ms(15));
    let client = Client::builder(&proxy.url())
        .command_timeout(ms(200))
        .max_links(1)
        .build()
        .unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for own in 0..12 {
            let lock = client.lock(format!("busy:{own}")).build().unwrap();
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let _ = lock.acquire().map(drop);
                }
            });
        }
        let lock = client.lock(KEY).build().unwrap();
        let taken = within(PATIENCE, move || {
            lock.acquire_cancellable(None, &Canceller::new())
        });
        over.store(true, Ordering::Relaxed);
        assert!(taken.unwrap().is_some());
    });
}
