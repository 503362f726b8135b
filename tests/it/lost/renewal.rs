//! Lengthening a lease, and when that is of no use any more.

use leasehold::LeaseState;

use super::{KEY, brief, ms};
use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually, logs, within};
use crate::wire::{SLACK, client_with, lock, take};

#[test]
fn a_renewal_extends_the_lease_and_its_record() {
    let server = Server::start();
    let lease = take(&lock(&server.url(), KEY));
    eventually("a second has passed", PATIENCE, || {
        lease.remaining() < ms(28_600)
    });
    let before = (lease.remaining(), server.pttl(KEY));
    lease.renew().unwrap();
    let after = (lease.remaining(), server.pttl(KEY));
    assert!(before < after, "{before:?} and then {after:?}");
    // 1 % and 2 ms are not its own.
    assert!(after <= (ms(29_698), 30_000), "{after:?}");
}

#[test]
fn a_renewal_never_shortens_what_stands_on_the_server() {
    let server = Server::start();
    let lease = take(&lock(&server.url(), KEY));
    server.cmd(&["PEXPIRE", KEY, "120000"]);
    lease.renew().unwrap();
    assert!(60_000 < server.pttl(KEY));
    assert!(lease.remaining() <= ms(29_698), "what is ours is the ttl");
}

#[test]
fn a_renewal_that_is_confirmed_after_the_deadline_revives_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    // τ is 200 ms: the confirmation comes within it, and after the deadline.
    let lease = take(&brief(&client, KEY, ms(2_000)).build().unwrap());
    eventually("the deadline is near", PATIENCE, || {
        lease.remaining() < ms(80)
    });
    proxy.delay_replies(ms(100));
    let error = lease.renew().unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    assert_eq!(lease.state(), LeaseState::Lost);
    let stats = client.stats();
    assert_eq!((stats.renewals_ok, stats.lost), (0, 1));
}

#[test]
fn a_renewal_whose_reply_is_lost_is_made_again_on_a_new_link() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    let lease = take(&client.lock(KEY).build().unwrap());
    proxy.drop_reply(Matcher::evalsha().once());
    lease.renew().unwrap();
    assert_eq!((proxy.count("EVALSHA"), proxy.connections()), (2, 2));
    let stats = client.stats();
    assert_eq!((stats.renewals_ok, stats.renewals_failed), (1, 1));
    lease.release().unwrap();
}

#[test]
fn a_renewal_or_verification_without_an_answer_is_back_in_time_and_the_lease_stands() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let timeout = ms(250);
    let lease = take(
        &client_with(&proxy.url(), timeout)
            .lock(KEY)
            .build()
            .unwrap(),
    );
    proxy.swallow_everything();
    let (error, lease) = within(timeout * 2 + SLACK, move || (lease.renew(), lease));
    let error = error.unwrap_err();
    assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
    let (error, lease) = within(timeout * 2 + SLACK, move || (lease.verify(), lease));
    assert!(error.unwrap_err().is_unavailable());
    assert_eq!(lease.state(), LeaseState::Held);
}

#[test]
fn ensure_renews_when_too_little_is_left_and_only_then() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lease = take(&lock(&proxy.url(), KEY));
    let sent = proxy.commands().len();
    lease.ensure(ms(15_000)).unwrap();
    assert_eq!(proxy.commands().len(), sent);
    eventually("a second has passed", PATIENCE, || {
        lease.remaining() < ms(28_600)
    });
    lease.ensure(ms(28_600)).unwrap();
    assert_eq!(proxy.commands().len(), sent + 1);
    let error = lease.ensure(ms(29_698)).unwrap_err();
    assert!(error.is_config(), "no lease of 30 s is valid for that long");
}

#[test]
fn ensure_says_so_where_it_cannot_renew_and_the_lease_stands_as_it_was() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(150));
    let lease = take(&client.lock(KEY).build().unwrap());
    proxy.swallow_everything();
    eventually("half a second has passed", PATIENCE, || {
        lease.remaining() < ms(29_200)
    });
    let error = lease.ensure(ms(29_200)).unwrap_err();
    assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
    assert_eq!(lease.state(), LeaseState::Held);
    lease.ensure(ms(15_000)).unwrap();
}

#[test]
fn ensure_leaves_the_danger_zone_and_says_so_where_max_hold_forbids_it() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = brief(&client, KEY, ms(6_000)).danger(ms(5_000));
    let lease = take(&lock.build().unwrap());
    eventually("the danger zone", PATIENCE, || {
        lease.state() == LeaseState::Danger
    });
    assert!(lease.check().unwrap_err().is_endangered());
    lease.ensure(ms(10)).unwrap();
    assert_eq!(lease.state(), LeaseState::Held);
    lease.release().unwrap();

    let lock = client.lock(KEY).danger(ms(100)).max_hold(ms(4_000));
    let lease = take(&lock.build().unwrap());
    let error = lease.ensure(ms(5_000)).unwrap_err();
    assert!(error.is_endangered(), "{error:?}");
    lease.check().unwrap();
}

#[test]
fn max_hold_ends_a_lease_whatever_is_renewed() {
    let server = Server::start();
    let mark = logs::mark();
    let key = "lost:max-hold";
    let lock = patient(&server.url()).lock(key).danger(ms(600));
    let lease = take(&lock.max_hold(ms(1_500)).build().unwrap());
    assert!(lease.remaining() <= ms(1_500));
    let mut seen = Vec::new();
    eventually("max_hold is over", PATIENCE, || {
        let before = lease.remaining();
        let renewed = lease.renew();
        assert!(lease.remaining() <= before, "no renewal goes past it");
        let state = lease.state();
        assert!(renewed.is_ok() || state == LeaseState::Lost);
        if seen.last() != Some(&state) {
            seen.push(state);
        }
        state == LeaseState::Lost
    });
    assert_eq!(
        seen,
        [LeaseState::Held, LeaseState::Danger, LeaseState::Lost]
    );
    let said = logs::containing(mark, key);
    assert!(said.iter().any(|line| line.text.contains("max_hold")));
    // Nobody has to release it, and it does not wait for its expiry.
    eventually("the loss releases", PATIENCE, || server.get(key).is_none());
    assert!(lease.release().unwrap_err().is_lost());
}
