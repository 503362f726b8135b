//! Questions to a client: who holds a lock, is the server there, what has been done.

use std::time::Duration;

use leasehold::{Client, Stats};

use super::{SLACK, TIMEOUT, client_with, settling, take};
use crate::links::patient;
use crate::support::{Matcher, Monitor, PATIENCE, Proxy, Server, eventually, within};

#[test]
fn inspect_tells_who_holds_a_lock_and_for_how_long() {
    let server = Server::start();
    let client = patient(&server.url());
    assert_eq!(client.inspect("order:1").unwrap(), None);

    let lock = client.lock("order:1").label("night shift").build().unwrap();
    let lease = take(&lock);
    let holder = client.inspect("order:1").unwrap().unwrap();
    assert_eq!(holder.fingerprint(), lease.token().fingerprint());
    assert_eq!(holder.label(), Some("night shift"));
    let remaining = holder.remaining().unwrap();
    assert!(remaining <= Duration::from_secs(30) && Duration::from_secs(20) < remaining);
    lease.release().unwrap();

    server.cmd(&["SET", "order:2", "somebody else's"]);
    let holder = client.inspect("order:2").unwrap().unwrap();
    assert_eq!((holder.label(), holder.remaining()), (None, None));
    server.cmd(&["RPUSH", "order:3", "a list"]);
    assert!(client.inspect("order:3").unwrap_err().is_wrong_type());
    assert!(client.inspect("").unwrap_err().is_config());
}

#[test]
fn ping_is_one_command_that_rights_for_locks_allow() {
    let server = Server::with(&["user app on >secret ~order:* +set"]);
    let client = patient(&server.url_as("app", "secret"));
    let monitor = Monitor::on(&server);
    client.ping().unwrap();
    monitor.clear();
    let took = client.ping().unwrap();
    assert!(!took.is_zero() && took < PATIENCE);
    assert_eq!(monitor.commands(), [["HELLO"]]);
}

#[test]
fn a_question_to_a_silent_server_is_unavailable_within_both_timeouts() {
    let server = Server::start();
    for link_is_open in [true, false] {
        for ask in [
            |client: &Client| client.inspect("order:1").map(drop),
            |client: &Client| client.ping().map(drop),
        ] {
            let proxy = Proxy::to(&server);
            let client = client_with(&proxy.url(), TIMEOUT / 5);
            if link_is_open {
                eventually("it answers", PATIENCE, || client.ping().is_ok());
            }
            proxy.swallow_everything();
            let error = within(TIMEOUT / 5 * 2 + SLACK, move || ask(&client)).unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
        }
    }
}

#[test]
fn stats_add_up() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = settling(&proxy.url());
    assert_eq!(client.stats(), Stats::default());
    let lock = client.lock("order:1").build().unwrap();

    let lease = take(&lock);
    assert!(lock.try_acquire().unwrap().is_none());
    assert!(lock.acquire_timeout(Duration::ZERO).is_err());
    lease.renew().unwrap();
    lease.release().unwrap();
    let stats = client.clone().stats();
    assert_eq!((stats.acquired, stats.released, stats.lost), (1, 1, 0));
    assert_eq!((stats.contended, stats.timed_out), (2, 1));
    assert_eq!((stats.renewals_ok, stats.renewals_failed), (1, 0));
    let margin = stats.smallest_margin.unwrap();
    assert!(margin < Duration::from_secs(30) && Duration::from_secs(15) < margin);
    assert_eq!((stats.unknown_resolved, stats.reconnects), (0, 0));

    let lease = take(&lock);
    server.cmd(&["DEL", "order:1"]);
    assert!(lease.renew().unwrap_err().is_lost());
    assert!(lease.release().unwrap_err().is_lost());
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.released, stats.lost), (2, 1, 1));
    assert_eq!((stats.renewals_ok, stats.renewals_failed), (1, 1));

    proxy.drop_reply(Matcher::command("SET").once());
    take(&lock).release().unwrap();
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.released, stats.lost), (3, 2, 1));
    assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (1, 0));
    assert_eq!(stats.reconnects, 1);

    proxy.refuse_connections();
    proxy.swallow("SET");
    assert!(lock.try_acquire().unwrap_err().is_unknown());
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.unknown_unresolved), (3, 1));
}
