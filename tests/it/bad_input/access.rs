//! Servers that are not there, and servers that do not let us in or not everywhere.

use leasehold::{Client, Error};

use super::{in_one_line, said};
use crate::links::patient;
use crate::support::{PATIENCE, Server, within};

/// The least rights for a plain lock without renewal by script loading, `ROLE` and `CLIENT`.
const PLAIN: &str = "+set +eval +evalsha +get +del +pexpire +pttl";

/// The user `app` with the password `secret` and these rights, on `order:*` alone.
fn with_rights(rights: &str) -> Server {
    Server::with(&[&format!("user app on >secret ~order:* {rights}")])
}

fn app(server: &Server) -> Client {
    patient(&server.url_as("app", "secret"))
}

/// `PLAIN` less one right.
fn without(right: &str) -> String {
    PLAIN
        .split(' ')
        .filter(|other| *other != right)
        .collect::<Vec<_>>()
        .join(" ")
}

#[track_caller]
fn assert_refused(error: &Error, command: &str) {
    assert!(error.is_refused() && !error.is_unavailable(), "{error:?}");
    let text = said(error)[0].clone();
    assert!(text.contains(command), "{text}");
}

#[test]
fn a_host_that_nobody_knows_is_unavailable_at_the_first_use() {
    let client = Client::open("redis://no-such-host.invalid:6379").unwrap();
    let lock = client.lock("order:1").build().unwrap();
    // The name lookup has no timeout of ours, hence a bound that leaves the system its own.
    let errors = within(3 * PATIENCE, move || {
        let alone = lock.try_acquire().unwrap_err();
        let waiting = lock.acquire().unwrap_err();
        [
            alone,
            waiting,
            client.ping().unwrap_err(),
            client.inspect("order:1").unwrap_err(),
        ]
    });
    for error in errors {
        assert!(error.is_unavailable() && !error.is_unknown(), "{error:?}");
        assert!(
            in_one_line(&error).contains("no-such-host.invalid"),
            "{error:?}"
        );
    }
}

#[test]
fn a_port_and_a_socket_where_nobody_listens_are_unavailable() {
    let server = Server::start();
    server.kill();
    for url in [server.url(), String::from("unix:///no/such/socket")] {
        let client = patient(&url);
        let lock = client.lock("order:1").build().unwrap();
        for error in [lock.try_acquire().unwrap_err(), lock.acquire().unwrap_err()] {
            assert!(error.is_unavailable() && !error.is_unknown(), "{error:?}");
            assert_eq!(error.key(), Some("order:1"));
            said(&error);
        }
    }
}

#[test]
fn a_wrong_password_is_refused_by_name_and_not_repeated() {
    let server = Server::with(&["requirepass right", "user app on >secret ~order:* +@all"]);
    let address = server.addr();
    for url in [
        format!("redis://:hunter2@{address}"),
        format!("redis://app:hunter2@{address}"),
        format!("redis://nobody:hunter2@{address}"),
        format!("redis+unix://{}?pass=hunter2", server.socket().display()),
    ] {
        let client = patient(&url);
        let lock = client.lock("order:1").build().unwrap();
        for error in [
            lock.try_acquire().unwrap_err(),
            lock.acquire().unwrap_err(),
            lock.acquire_timeout(PATIENCE).unwrap_err(),
            client.inspect("order:1").unwrap_err(),
            client.ping().unwrap_err(),
        ] {
            assert_refused(&error, "AUTH");
            let shown = format!("{} {error:?}", in_one_line(&error));
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    patient(&server.url()).ping().unwrap();
    patient(&server.unix_url()).ping().unwrap();
}

#[test]
fn a_missing_password_is_refused_by_the_name_of_what_was_asked() {
    let server = Server::with(&["requirepass right"]);
    let client = patient(&format!("redis://{}", server.addr()));
    let lock = client.lock("order:1").build().unwrap();
    assert_refused(&lock.try_acquire().unwrap_err(), "SET");
    assert_refused(&lock.acquire_timeout(PATIENCE).unwrap_err(), "SET");
    let fenced = client.lock("order:1").fenced().build().unwrap();
    assert_refused(&fenced.acquire().unwrap_err(), "EVALSHA");
    assert_refused(&client.inspect("order:1").unwrap_err(), "EVALSHA");
    assert_refused(&client.ping().unwrap_err(), "HELLO");
    assert_eq!(server.get("order:1"), None);
}

#[test]
fn a_password_that_the_server_does_not_ask_for_is_refused() {
    let server = Server::start();
    let client = patient(&format!("redis://:superfluous@{}", server.addr()));
    assert_refused(&client.ping().unwrap_err(), "AUTH");
}

#[test]
fn a_database_that_the_server_does_not_have_is_refused() {
    let server = Server::with(&["databases 2"]);
    for database in ["2", "9223372036854775807"] {
        let client = patient(&format!("{}/{database}", server.url()));
        let lock = client.lock("order:1").build().unwrap();
        assert_refused(&lock.acquire().unwrap_err(), "SELECT");
    }
    let lock = patient(&format!("{}/1", server.url()))
        .lock("order:1")
        .build()
        .unwrap();
    let lease = lock.acquire().unwrap();
    assert_eq!(server.get("order:1"), None, "it is in the other database");
    lease.release().unwrap();
}

#[test]
fn a_user_without_set_is_refused_by_that_name_and_a_wait_ends_at_once() {
    let server = with_rights(&without("+set"));
    let lock = app(&server).lock("order:1").build().unwrap();
    assert_refused(&lock.try_acquire().unwrap_err(), "SET");
    assert_refused(&lock.acquire().unwrap_err(), "SET");
    let outcome = within(PATIENCE, move || lock.acquire_timeout(3 * PATIENCE));
    assert_refused(&outcome.unwrap_err(), "SET");
    assert_eq!(server.get("order:1"), None);
}

#[test]
fn a_user_without_evalsha_takes_a_lock_and_is_told_that_it_stands() {
    let server = with_rights(&without("+evalsha"));
    let client = app(&server);
    let lock = client.lock("order:1").build().unwrap();
    let lease = lock.try_acquire().unwrap().unwrap();
    let record = lease.token().expose().to_owned();
    assert_refused(&lease.renew().unwrap_err(), "EVALSHA");
    assert_refused(&lease.verify().unwrap_err(), "EVALSHA");
    lease.check().unwrap();
    assert_refused(&client.inspect("order:1").unwrap_err(), "EVALSHA");
    assert_refused(&lease.release().unwrap_err(), "EVALSHA");
    assert_eq!(server.get("order:1"), Some(record));
    let fenced = client.lock("order:2").fenced().build().unwrap();
    assert_refused(&fenced.acquire_timeout(PATIENCE).unwrap_err(), "EVALSHA");
    assert_eq!(server.get("order:2"), None);
}

/// Where the rights end inside a script, the server names no command: the script is named.
#[test]
fn a_right_that_is_missing_inside_a_script_is_a_refusal_and_nothing_is_half_done() {
    // What works without the right: renewing, looking, releasing.
    for (right, renews, looks, releases) in [
        ("+get", false, false, false),
        ("+del", true, true, false),
        ("+pexpire", false, true, true),
        ("+pttl", false, false, true),
    ] {
        let server = with_rights(&without(right));
        let client = app(&server);
        let lock = client.lock("order:1").build().unwrap();
        let lease = lock.try_acquire().unwrap().unwrap();
        let record = lease.token().expose().to_owned();
        let judge = |works: bool, outcome: Result<(), Error>| match outcome {
            Ok(()) => assert!(works, "without {right}"),
            Err(error) => {
                assert!(!works, "without {right}: {error:?}");
                assert_refused(&error, "EVALSHA");
            }
        };
        judge(renews, lease.renew());
        lease.check().unwrap();
        judge(looks, lease.verify());
        judge(looks, client.inspect("order:1").map(drop));
        assert_eq!(server.get("order:1"), Some(record.clone()));
        assert!(0 < server.pttl("order:1"));
        judge(releases, lease.release());
        let left = if releases { None } else { Some(record) };
        assert_eq!(server.get("order:1"), left, "without {right}");
    }
}

#[test]
fn a_user_with_the_least_rights_can_lock_what_its_pattern_covers_and_nothing_else() {
    let server = with_rights(PLAIN);
    let client = app(&server);
    let lock = client.lock("order:1").label("least").build().unwrap();
    client.ping().unwrap();
    for _ in 0..2 {
        let lease = lock.acquire_timeout(PATIENCE).unwrap();
        lease.renew().unwrap();
        lease.verify().unwrap();
        assert!(lock.try_acquire().unwrap().is_none());
        let holder = client.inspect("order:1").unwrap().unwrap();
        assert_eq!(holder.label(), Some("least"));
        assert_eq!(holder.fingerprint(), lease.token().fingerprint());
        lease.release().unwrap();
        assert_eq!(client.inspect("order:1").unwrap(), None);
    }
    let other = client.lock("other:1").build().unwrap();
    assert_refused(&other.try_acquire().unwrap_err(), "SET");
    assert_refused(&other.acquire().unwrap_err(), "SET");
    assert_refused(&client.inspect("other:1").unwrap_err(), "EVALSHA");
    assert_eq!(server.get("other:1"), None);
    // A refusal of one key takes nothing away from another.
    lock.acquire().unwrap().release().unwrap();
    assert_eq!(client.stats().unknown_unresolved, 0);
}

#[test]
fn a_fenced_lock_needs_time_and_its_sibling_which_the_same_pattern_covers() {
    let server = with_rights(&format!("{PLAIN} +time"));
    let client = app(&server);
    let lock = client.lock("order:1").fenced().build().unwrap();
    let lease = lock.acquire_timeout(PATIENCE).unwrap();
    let first = lease.fence().unwrap();
    lease.renew().unwrap();
    assert!(client.inspect("order:1").unwrap().is_some());
    lease.release().unwrap();
    let lease = lock.acquire().unwrap();
    assert!(first < lease.fence().unwrap());
    lease.release().unwrap();
    let other = client.lock("other:1").fenced().build().unwrap();
    assert_refused(&other.acquire_timeout(PATIENCE).unwrap_err(), "EVALSHA");

    let server = with_rights(PLAIN);
    let lock = app(&server).lock("order:1").fenced().build().unwrap();
    assert_refused(&lock.acquire_timeout(PATIENCE).unwrap_err(), "EVALSHA");
    assert_eq!(server.get("order:1"), None);
    assert_eq!(server.get("order:1:leasehold:fence"), None);
}

#[test]
fn rights_that_are_taken_away_and_given_back_lose_nothing() {
    let server = with_rights(PLAIN);
    let client = app(&server);
    let lock = client.lock("order:1").build().unwrap();
    let lease = lock.acquire().unwrap();
    server.cmd(&["ACL", "SETUSER", "app", "-evalsha"]);
    assert_refused(&lease.renew().unwrap_err(), "EVALSHA");
    lease.check().unwrap();
    server.cmd(&["ACL", "SETUSER", "app", "+evalsha"]);
    lease.renew().unwrap();
    lease.release().unwrap();
    assert_eq!(server.get("order:1"), None);
}
