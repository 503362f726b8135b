//! A primary that has been turned into a replica: it gives the answers of one, and none of those
//! that mean "not yours" is to be believed.

use std::thread;
use std::time::Duration;

use leasehold::{Error, LeaseState};

use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::{acquisition, client_with, lock, records_set, settling, take};

const KEY: &str = "order:1";

/// The timeouts where a release runs into its bound.
const SHORT: Duration = Duration::from_millis(150);

/// Its primary is nowhere, so that its data stays.
fn demote(server: &Server) {
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
}

fn promote(server: &Server) {
    server.cmd(&["REPLICAOF", "NO", "ONE"]);
}

/// What stands at the key instead of our record when the primary is demoted.
const INSTEAD: [Option<&str>; 2] = [None, Some("theirs")];

fn replace_record(server: &Server, instead: Option<&str>) {
    match instead {
        None => server.cmd(&["DEL", KEY]),
        Some(theirs) => server.cmd(&["SET", KEY, theirs, "PX", "60000"]),
    };
}

#[test]
fn a_release_believes_no_zero_of_a_replica() {
    let server = Server::start();
    let lock = client_with(&server.url(), SHORT).lock(KEY).build().unwrap();
    for instead in INSTEAD {
        let lease = take(&lock);
        replace_record(&server, instead);
        demote(&server);
        let error = lease.release().unwrap_err();
        assert!(error.is_unknown() && !error.is_lost(), "{error:?}");
        assert!(error.may_hold_until().is_some());
        promote(&server);
        server.cmd(&["DEL", KEY]);
    }
    // Nor can it delete what is still ours there.
    let lease = take(&lock);
    demote(&server);
    let error = lease.release().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    promote(&server);
    assert!(server.get(KEY).is_some());
}

#[test]
fn a_release_is_settled_when_the_replica_is_a_primary_again() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = lock(&proxy.url(), KEY);
    for instead in [None, Some("theirs"), Some("ours")] {
        let lease = take(&lock);
        if instead != Some("ours") {
            replace_record(&server, instead);
        }
        demote(&server);
        let asked = proxy.count("EVALSHA");
        let release = thread::spawn(move || lease.release());
        proxy.wait_for("EVALSHA", asked + 3);
        promote(&server);
        let outcome = release.join().unwrap();
        match instead {
            Some("ours") => outcome.unwrap(),
            _ => assert!(outcome.unwrap_err().is_lost()),
        }
        assert_eq!(
            server.get(KEY).as_deref(),
            instead.filter(|what| *what != "ours")
        );
        server.cmd(&["DEL", KEY]);
    }
}

#[test]
fn a_release_without_a_reply_does_not_take_a_replicas_zero_for_its_own_work() {
    let server = Server::start();
    for instead in INSTEAD {
        let proxy = Proxy::to(&server);
        let lock = client_with(&proxy.url(), SHORT).lock(KEY).build();
        let lease = take(&lock.unwrap());
        replace_record(&server, instead);
        demote(&server);
        proxy.swallow(Matcher::evalsha().once());
        let error = lease.release().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        promote(&server);
        server.cmd(&["DEL", KEY]);
    }
}

#[test]
fn an_unknown_acquisition_is_not_settled_by_a_replica() {
    let server = Server::start();
    for fenced in [false, true] {
        for instead in INSTEAD {
            let proxy = Proxy::to(&server);
            let lock = client_with(&proxy.url(), SHORT).lock(KEY);
            let lock = if fenced { lock.fenced() } else { lock };
            let lock = lock.build().unwrap();
            take(&lock).release().unwrap();
            replace_record(&server, instead);
            demote(&server);
            proxy.swallow(acquisition().once());
            let error = lock.try_acquire().unwrap_err();
            assert!(error.is_unknown(), "{error:?}");
            promote(&server);
            // The token is not set again, whatever the replica said.
            let unknown = records_set(&proxy.commands()).pop().unwrap();
            server.cmd(&["DEL", KEY]);
            let lease = take(&lock);
            assert_ne!(lease.token().expose(), unknown);
            assert_ne!(records_set(&proxy.commands()).pop().unwrap(), unknown);
            lease.release().unwrap();
        }
    }
}

#[test]
fn verify_and_renew_are_unavailable_on_a_replica_and_the_lease_stands() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    for instead in INSTEAD {
        let lease = take(&lock);
        replace_record(&server, instead);
        demote(&server);
        for asked in [lease.verify(), lease.renew(), lease.verify()] {
            let error = asked.unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
            assert_eq!(lease.state(), LeaseState::Held);
        }
        lease.check().unwrap();
        promote(&server);
        assert!(lease.verify().unwrap_err().is_lost());
        assert_eq!(lease.state(), LeaseState::Lost);
        server.cmd(&["DEL", KEY]);
    }
    let lease = take(&lock);
    demote(&server);
    assert!(lease.verify().unwrap_err().is_unavailable());
    let before = lease.remaining();
    assert!(lease.renew().unwrap_err().is_unavailable());
    assert!(lease.remaining() <= before, "nothing was confirmed");
    promote(&server);
    lease.renew().unwrap();
    lease.verify().unwrap();
    lease.release().unwrap();
}

#[test]
fn a_replica_can_neither_be_locked_nor_say_that_another_holds_the_lock() {
    let server = Server::start();
    let client = patient(&server.url());
    let plain = client.lock(KEY).build().unwrap();
    let fenced = client.lock(KEY).fenced().build().unwrap();
    let counter = "order:1:leasehold:fence";
    for (instead, counted) in [
        (None, false),
        (Some("theirs"), false),
        (Some("theirs"), true),
    ] {
        replace_record(&server, instead);
        if counted {
            server.cmd(&["SET", counter, "7"]);
        }
        demote(&server);
        for lock in [&plain, &fenced] {
            let mut outcomes = vec![lock.try_acquire().map(|lease| lease.is_some())];
            outcomes.push(lock.acquire().map(|_| true));
            outcomes.push(
                lock.acquire_timeout(Duration::from_millis(50))
                    .map(|_| true),
            );
            for outcome in outcomes {
                assert!(
                    outcome.as_ref().is_err_and(Error::is_unavailable),
                    "{outcome:?} with {instead:?}"
                );
            }
        }
        let error = client.inspect(KEY).unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        promote(&server);
        assert_eq!(server.get(KEY).as_deref(), instead);
    }
    server.cmd(&["DEL", KEY]);
    // The same client, and a primary again.
    for lock in [&plain, &fenced] {
        let lease = take(lock);
        assert!(client.inspect(KEY).unwrap().is_some());
        lease.renew().unwrap();
        lease.verify().unwrap();
        lease.release().unwrap();
        assert_eq!(client.inspect(KEY).unwrap(), None);
    }
}

#[test]
fn a_wait_outlives_the_time_as_a_replica() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = lock(&proxy.url(), KEY);
    demote(&server);
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    proxy.wait_for("SET", 3);
    promote(&server);
    let lease = attempt.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}

#[test]
fn a_replica_whose_data_was_replaced_by_its_primarys_is_not_believed_either() {
    let primary = Server::with(&["repl-diskless-sync-delay 0"]);
    let server = Server::start();
    let lock = client_with(&server.url(), SHORT).lock(KEY).build().unwrap();
    let lease = take(&lock);
    primary.cmd(&["SET", "of the primary", "1"]);
    server.cmd(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    eventually("it has the data of its primary", PATIENCE, || {
        // It answers LOADING while it takes it over.
        let got = server.try_cmd(&["GET", "of the primary"]);
        got.is_ok_and(|value| value != redis::Value::Nil)
    });
    assert_eq!(server.get(KEY), None);
    assert!(lease.verify().unwrap_err().is_unavailable());
    assert_eq!(lease.state(), LeaseState::Held);
    let error = lease.release().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
}

/// Without `+role` nobody can tell a primary from a replica.
const USER: &str = "user app on >secret ~order:* +set +eval +evalsha +get +del +pexpire +pttl \
                    +time +client|info +client|kill +script|load";

#[test]
fn without_the_right_to_role_a_renewal_fails_closed() {
    let server = Server::with(&[USER]);
    let lock = lock(&server.url_as("app", "secret"), KEY);
    for instead in INSTEAD {
        for ask in [leasehold::Lease::renew, leasehold::Lease::verify] {
            let lease = take(&lock);
            replace_record(&server, instead);
            demote(&server);
            let error = ask(&lease).unwrap_err();
            assert!(error.is_lost(), "{error:?}");
            assert_eq!(lease.state(), LeaseState::Lost);
            promote(&server);
            server.cmd(&["DEL", KEY]);
        }
    }
}

#[test]
fn without_the_right_to_role_a_release_is_not_settled_by_a_zero() {
    let server = Server::with(&[USER]);
    let proxy = Proxy::to(&server);
    let url = proxy.url_as("app", "secret");
    let lock = settling(&url).lock(KEY).build().unwrap();
    // It ran, on a primary even, and its reply was lost.
    let lease = take(&lock);
    proxy.drop_reply(Matcher::evalsha().once());
    let error = lease.release().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(error.may_hold_until().is_some());
    for instead in INSTEAD {
        let lease = take(&lock);
        replace_record(&server, instead);
        let error = lease.release().unwrap_err();
        assert!(error.is_unknown() && !error.is_lost(), "{error:?}");
        server.cmd(&["DEL", KEY]);
    }
    // Where the record was found and deleted, there is nothing to doubt.
    take(&lock).release().unwrap();
    proxy.hold(Matcher::evalsha().once());
    let lease = take(&lock);
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn without_the_right_to_role_an_unknown_acquisition_stays_unknown_unless_it_is_ours() {
    let server = Server::with(&[USER]);
    let proxy = Proxy::to(&server);
    let url = proxy.url_as("app", "secret");
    let lock = settling(&url).lock(KEY).build().unwrap();
    proxy.drop_reply(Matcher::command("SET").once());
    take(&lock).release().unwrap();
    let held = proxy.hold(Matcher::command("SET").once());
    let error = lock.try_acquire().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(!held.deliver(), "the barrier stands all the same");
}

/// `BUSY` and the like are not "you may not ask": what such a server says of a record may still
/// be a replica's word.
#[test]
fn a_server_that_cannot_tell_its_role_now_is_not_believed_either() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = lock(&proxy.url(), KEY);
    let lease = lock.acquire().unwrap();
    server.cmd(&["DEL", KEY]);
    let cannot = proxy.answer("ROLE", "-MASTERDOWN link with the master is down\r\n");
    let error = lease.renew().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    lease.check().unwrap();
    cannot.end();
    assert!(lease.renew().unwrap_err().is_lost());
}
