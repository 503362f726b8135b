//! Holders that end in other ways than by a release: the next one goes on within their time.

use std::mem;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use leasehold::{Client, LossCause};

use super::{KEY, in_line, lock, ms, wait_until_blocked};
use crate::links::patient;
use crate::support::{PATIENCE, Server, eventually};
use crate::waiting::{Aside, SLACK};
use crate::wire::take;

/// Somebody who waits in memory for the lock that `client` holds, and gives it back.
#[track_caller]
fn next(client: &Client) -> Aside<Instant> {
    let lock = lock(client);
    in_line(move || {
        let lease = take(&lock);
        let taken = Instant::now();
        lease.verify().unwrap();
        lease.release().unwrap();
        taken
    })
}

#[test]
fn a_loss_that_a_renewal_has_found_lets_the_next_go_on_before_the_deadline() {
    let server = Server::start();
    let client = Client::builder(&server.url()).build().unwrap();
    let (told, losses) = channel();
    // Its deadline is three times as far away as the patience of this test.
    let lock = client.lock(KEY).ttl(3 * PATIENCE).renew_every(ms(1_000));
    let lock = lock.on_lost(move |loss| {
        let _ = told.send(loss.cause());
    });
    let lock = lock.build().unwrap();
    let holder = take(&lock);
    let wait = next(&client);
    server.cmd(&["DEL", KEY]);
    let _ = wait.value();
    assert_eq!(losses.recv_timeout(PATIENCE).unwrap(), LossCause::Vanished);
    assert!(holder.release().unwrap_err().is_lost());
}

#[test]
fn a_loss_that_the_holder_has_found_lets_the_next_go_on_before_the_deadline() {
    let server = Server::start();
    let client = patient(&server.url());
    for taken_over in [false, true] {
        let holder = take(&client.lock(KEY).without_renewal().build().unwrap());
        let wait = next(&client);
        if taken_over {
            server.cmd(&["SET", KEY, "somebody else's", "PX", "300"]);
        } else {
            server.cmd(&["DEL", KEY]);
        }
        assert!(holder.verify().unwrap_err().is_lost());
        let _ = wait.value();
        assert!(holder.release().unwrap_err().is_lost());
    }
}

#[test]
fn a_lease_that_runs_out_at_a_stopped_server_lets_the_next_go_on() {
    let server = Server::start();
    let client = Client::builder(&server.url()).build().unwrap();
    let holder = take(&client.lock(KEY).ttl(ms(1_000)).build().unwrap());
    let wait = next(&client);
    server.stop();
    eventually("the lease runs out", PATIENCE, || !holder.is_held());
    server.cont();
    let _ = wait.value();
    assert!(holder.release().unwrap_err().is_lost());
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_release_that_a_stopped_server_does_not_answer_lets_the_next_go_on() {
    let server = Server::start();
    let short = ms(200);
    let client = Client::builder(&server.url()).connect_timeout(short);
    let client = client.command_timeout(short).build().unwrap();
    let holder = take(&lock(&client));
    let wait = next(&client);
    server.stop();
    assert!(holder.release().unwrap_err().is_unknown());
    server.cont();
    let _ = wait.value();
}

#[test]
fn the_most_a_lock_may_be_held_lets_the_next_go_on() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).max_hold(ms(300)).danger(ms(50));
    let holder = take(&lock.build().unwrap());
    let _ = next(&client).value();
    assert!(holder.release().unwrap_err().is_lost());
}

#[test]
fn whoever_gives_its_token_away_is_waited_for_at_the_server() {
    let server = Server::start();
    let client = patient(&server.url());
    let begun = Instant::now();
    for _ in 0..10 {
        let holder = take(&lock(&client));
        let wait = next(&client);
        let token = holder.detach();
        // Nobody here knows when it is given back.
        wait_until_blocked(&server, 1);
        lock(&client).release(token).unwrap();
        let _ = wait.value();
    }
    // Who is not told looks after a second.
    let took = begun.elapsed();
    assert!(took < ms(6_000), "{took:?}");
}

#[test]
fn whoever_adopts_a_lock_is_waited_for_in_memory() {
    let server = Server::start();
    let client = patient(&server.url());
    let token = take(&lock(&patient(&server.url()))).detach();
    let adopted = lock(&client).adopt(token).unwrap().unwrap();
    let wait = next(&client);
    wait_until_blocked(&server, 0);
    adopted.release().unwrap();
    let _ = wait.value();
}

/// Each lease is forgotten, so that nothing but its time ends it.
#[test]
fn leases_that_are_forgotten_are_waited_for_until_their_end_and_no_longer() {
    const TTL: Duration = Duration::from_millis(100);
    const COUNT: u32 = 15;
    let server = Server::start();
    let client = patient(&server.url());
    let short = client.lock(KEY).ttl(TTL).danger(ms(20)).without_renewal();
    let short = short.build().unwrap();
    let begun = Instant::now();
    mem::forget(take(&short));
    let waits: Vec<_> = (0..COUNT)
        .map(|_| {
            let short = short.clone();
            Aside::start(move || {
                let lease = take(&short);
                assert!(lease.is_held());
                mem::forget(lease);
            })
        })
        .collect();
    waits.into_iter().for_each(Aside::value);
    let took = begun.elapsed();
    // Each of them is held for nearly its ttl, one after the other.
    assert!(TTL * (COUNT - 1) <= took, "{took:?}");
    // Whoever looked once a second only would take 15 seconds.
    assert!(took < TTL * COUNT * 2 + SLACK, "{took:?}");
}
