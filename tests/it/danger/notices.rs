//! What a notice says.

use leasehold::{DangerCause, LeaseState, LossCause};

use super::{SLACK, What, Why, heard, ms};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually, logs};
use crate::wire::{client_with, take};

#[test]
fn danger_and_loss_tell_key_fence_cause_and_what_is_left_and_have_a_watch() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock("order:1").label("night shift").ttl(ms(1_800));
    let (lock, ear) = heard(lock.without_renewal().fenced().danger(ms(1_600)));
    let lease = take(&lock.build().unwrap());
    let danger = ear.next();
    let (cause, remaining, why) = danger.danger();
    assert_eq!(
        (danger.key.as_str(), danger.fence),
        ("order:1", lease.fence())
    );
    assert!(danger.fence.is_some());
    assert_eq!(cause, DangerCause::Unrenewed);
    assert!(why.is_none(), "nothing was tried");
    assert!(
        remaining <= ms(1_600) && ms(1_600) < remaining + SLACK,
        "{remaining:?}"
    );
    assert_eq!(danger.state, LeaseState::Danger);
    assert!(danger.watch.remaining() <= remaining);
    let loss = ear.next();
    assert_eq!((loss.key.as_str(), loss.fence), ("order:1", lease.fence()));
    assert_eq!(loss.lost(), LossCause::Expired);
    for watch in [danger.watch, loss.watch] {
        assert_eq!(watch.state(), LeaseState::Lost);
        assert!(watch.check().unwrap_err().is_lost());
    }
    for shown in [danger.shown, loss.shown] {
        assert!(shown.contains("order:1"), "{shown}");
        assert!(!shown.contains(&lease.token().expose()[..40]));
    }
    assert_eq!(cause.to_string(), "it is not renewed in the background");
}

/// What the danger of a renewed lease says of the last renewal, after `fault` has begun; and what
/// was said aloud of that.
fn why_in_danger(server: &Server, url: &str, fault: impl FnOnce()) -> (Why, Vec<String>) {
    // The log is everybody's: a key that nobody else has.
    let key = format!("why:{}", server.port());
    let client = client_with(url, ms(1_000));
    let (lock, ear) = heard(client.lock(&key).ttl(ms(2_400)).danger(ms(1_000)));
    let lease = take(&lock.build().unwrap());
    eventually("it has been renewed", PATIENCE, || {
        0 < client.stats().renewals_ok
    });
    let mark = logs::mark();
    fault();
    let danger = ear.next();
    // Not dropped: a release would take its time with what goes on here.
    let token = lease.detach();
    let What::Danger { cause, why, .. } = danger.what else {
        panic!("{danger:?}")
    };
    assert_eq!(cause, DangerCause::Unconfirmed);
    let why = why.expect("why the last renewal has failed");
    assert!(!why.text.contains(token.expose()) && !danger.shown.contains(token.expose()));
    assert!(why.text.contains(&key), "{}", why.text);
    let said = logs::containing(mark, &format!("`{key}`"));
    let warnings = said
        .iter()
        .filter(|line| line.target == "leasehold::renew" && line.level == log::Level::Warn);
    (why, warnings.map(|line| line.text.clone()).collect())
}

#[test]
fn danger_says_that_a_renewal_was_sent_and_not_answered() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let (why, _) = why_in_danger(&server, &proxy.url(), || {
        proxy.drop_reply("EVALSHA");
    });
    assert!(why.is_unknown && !why.is_unavailable, "{why:?}");
}

#[test]
fn danger_says_what_a_server_has_answered_that_cannot_renew_now() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let (why, warnings) = why_in_danger(&server, &proxy.url(), || {
        proxy.answer("EVALSHA", "-BUSY running a script of somebody else\r\n");
    });
    assert!(why.is_unavailable && why.text.contains("BUSY"), "{why:?}");
    assert_eq!(warnings, Vec::<String>::new(), "it may pass");
}

#[test]
fn danger_says_that_a_right_is_missing_and_the_log_has_said_so_once() {
    let server = Server::with(&["user app on >secret ~* +@all"]);
    let url = server.url_as("app", "secret");
    let (why, warnings) = why_in_danger(&server, &url, || {
        server.cmd(&["ACL", "SETUSER", "app", "-evalsha", "-eval"]);
    });
    assert!(why.is_refused && why.text.contains("NOPERM"), "{why:?}");
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
}

#[test]
fn danger_says_that_nobody_could_be_connected_to_and_where() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let (why, _) = why_in_danger(&server, &proxy.url(), || {
        proxy.refuse_connections();
        proxy.reset_all();
    });
    let address = proxy.addr().to_string();
    assert!(why.is_unavailable && why.text.contains(&address), "{why:?}");
    assert!(why.text.contains("refused"), "{why:?}");
}

#[test]
fn a_lease_that_has_come_back_does_not_blame_an_old_failure() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    // Renewed until max_hold forbids it; danger is then not for want of a confirmation.
    let lock = client.lock("order:1").ttl(ms(1_500)).danger(ms(700));
    let (lock, ear) = heard(lock.max_hold(ms(3_000)));
    let lease = take(&lock.build().unwrap());
    server.stop();
    let danger = ear.next();
    assert!(danger.danger().2.is_some(), "{danger:?}");
    server.cont();
    eventually("it is held again", PATIENCE, || {
        lease.state() != LeaseState::Danger
    });
    assert_eq!(lease.state(), LeaseState::Held);
    let danger = ear.next();
    let (cause, _, why) = danger.danger();
    assert_eq!(cause, DangerCause::MaxHold);
    assert!(why.is_none(), "{why:?}");
    lease.release().unwrap();
}
