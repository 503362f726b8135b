//! A primary that is turned into a replica under a live lease: none of its zeros ends the lease,
//! and nothing that it says lengthens it.

use std::thread;

use leasehold::{Client, DangerCause, LeaseState, LockBuilder, LossCause};

use super::{KEY, Told, loss_heard, ms, renewed, telling};
use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::take;

/// Its primary is nowhere, so that its data stays.
fn demote(server: &Server) {
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
}

fn promote(server: &Server) {
    server.cmd(&["REPLICAOF", "NO", "ONE"]);
}

fn lock_of_2_s(client: &Client) -> LockBuilder {
    client.lock(KEY).ttl(ms(2_000)).renew_every(ms(600))
}

#[test]
fn a_lease_on_a_demoted_primary_runs_on_to_its_deadline_and_expires() {
    // What stands on the server when it becomes a replica.
    thread::scope(|scope| {
        for instead in ["ours", "theirs", "nothing"] {
            scope.spawn(move || expires(instead));
        }
    });
}

fn expires(instead: &str) {
    let server = Server::start();
    let client = patient(&server.url());
    let (lock, heard) = telling(lock_of_2_s(&client));
    let lease = take(&lock.build().unwrap());
    renewed(&client, &lease, 1);
    // The next one is due in 600 ms.
    match instead {
        "ours" => {}
        "nothing" => drop(server.cmd(&["DEL", KEY])),
        theirs => drop(server.cmd(&["SET", KEY, theirs])),
    }
    demote(&server);
    let confirmed = client.stats().renewals_ok;
    let next = || heard.recv_timeout(PATIENCE);
    assert_eq!(next(), Ok(Told::Danger(DangerCause::Unconfirmed)));
    assert_eq!(next(), Ok(Told::Lost(LossCause::Expired)), "{instead}");
    assert_eq!(lease.state(), LeaseState::Lost);
    let stats = client.stats();
    assert_eq!(stats.renewals_ok, confirmed);
    assert!(1 < stats.renewals_failed, "it is tried again and again");
    promote(&server);
}

#[test]
fn a_lease_on_a_primary_that_is_promoted_again_in_time_lives_on() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let (lock, heard) = telling(client.lock(KEY).ttl(ms(4_000)).renew_every(ms(500)));
    let lease = take(&lock.build().unwrap());
    renewed(&client, &lease, 1);
    demote(&server);
    eventually("renewals fail", PATIENCE, || {
        2 <= client.stats().renewals_failed
    });
    promote(&server);
    renewed(&client, &lease, 2);
    assert!(ms(2_500) < lease.remaining());
    lease.release().unwrap();
    assert!(!heard.try_iter().any(|told| matches!(told, Told::Lost(_))));
}

#[test]
fn a_zero_counts_where_the_server_does_not_tell_its_role() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let (lock, heard) = telling(lock_of_2_s(&client));
    let lease = take(&lock.build().unwrap());
    let refused = proxy.answer(Matcher::command("ROLE"), "-NOPERM no rights\r\n");
    renewed(&client, &lease, 1);
    server.cmd(&["DEL", KEY]);
    assert_eq!(loss_heard(&heard), LossCause::Vanished);
    assert!(0 < refused.hits());
}

#[test]
fn a_zero_of_a_server_that_cannot_tell_its_role_now_does_not_count() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let (lock, heard) = telling(lock_of_2_s(&client));
    let lease = take(&lock.build().unwrap());
    renewed(&client, &lease, 1);
    let loading = "-LOADING Redis is loading the dataset in memory\r\n";
    let refused = proxy.answer(Matcher::command("ROLE"), loading);
    server.cmd(&["DEL", KEY]);
    assert_eq!(loss_heard(&heard), LossCause::Expired);
    assert!(0 < refused.hits());
    assert!(lease.check().unwrap_err().is_lost());
}
