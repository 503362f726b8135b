//! How many tokens are reaped at a time, and for how long each of them.

use std::time::{Duration, Instant};

use leasehold::{Client, Lease};

use super::{KEY, LONG, brief, deletions, ms, without_a_barrier};
use crate::support::{Matcher, Monitor, PATIENCE, Proxy, Server, eventually, logs};
use crate::wire::{acquisition, client_with, take};

const MOST: usize = 1_024;

#[test]
fn of_too_many_tokens_the_oldest_are_left_to_their_expiry_with_a_warning() {
    const TOO_MANY: usize = 6;
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    let mark = logs::mark();
    // No deletion comes through for now.
    let busy = proxy.answer(Matcher::evalsha(), "-BUSY later\r\n");
    let key = |own: usize| format!("too-many:{own}");
    let leases: Vec<Lease> = (0..MOST + TOO_MANY)
        .map(|own| {
            let lock = client.lock(key(own)).ttl(LONG).without_renewal();
            take(&lock.danger(ms(100)).max_hold(ms(500)).build().unwrap())
        })
        .collect();
    let warnings = || {
        let said = logs::containing(mark, "too many tokens to reap");
        said.into_iter()
            .filter(|line| line.text.contains("`too-many:"))
            .collect::<Vec<_>>()
    };
    eventually("all of them are lost", PATIENCE, || {
        client.stats().lost == leases.len() as u64 && TOO_MANY <= warnings().len()
    });
    for (own, line) in warnings().iter().enumerate() {
        assert_eq!(
            (line.level, line.target.as_str()),
            (log::Level::Warn, "leasehold::reaper")
        );
        assert!(line.text.contains(&format!("`{}`", key(own))), "{line:?}");
        let token = leases[own].token().expose();
        assert!(!line.text.contains(token), "it shows a token");
    }
    busy.end();
    eventually("the others are deleted", PATIENCE, || {
        server.cmd(&["DBSIZE"]) == redis::Value::Int(TOO_MANY as i64)
    });
    assert_eq!(warnings().len(), TOO_MANY);
    for own in 0..TOO_MANY {
        assert!(server.get(&key(own)).is_some());
    }
}

/// When the server ran compare-and-deletes, by its own clock: commands of five words.
fn times_of_deletions(monitor: &Monitor) -> Vec<Duration> {
    let lines = monitor.lines();
    let deletions = lines
        .iter()
        .filter(|line| line.contains(" \"EVALSHA\" ") && line.matches('"').count() == 2 * 5);
    deletions
        .map(|line| {
            let time = line.trim_start_matches('+').split(' ').next();
            Duration::from_secs_f64(time.unwrap().parse().unwrap())
        })
        .collect()
}

/// Returns when there were no deletions for a second, which is many times the longest pause
/// between two.
#[track_caller]
fn wait_for_the_last_deletion(proxy: &Proxy) {
    let mut last = (deletions(proxy), Instant::now());
    eventually("no deletion comes any more", PATIENCE, || {
        let count = deletions(proxy);
        if count != last.0 {
            last = (count, Instant::now());
        }
        Duration::from_secs(1) < last.1.elapsed()
    });
}

#[test]
fn a_token_is_reaped_for_one_ttl_after_the_first_answer_and_no_longer() {
    let server = Server::start();
    let proxy = without_a_barrier(&server);
    let ttl = ms(1_500);
    let client = client_with(&proxy.url(), ms(150));
    let lock = client.lock(KEY).ttl(ttl).build().unwrap();
    let held = proxy.hold(acquisition().once());
    let monitor = Monitor::on(&server);
    let error = lock.try_acquire().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    eventually("it is reaped", PATIENCE, || 0 < deletions(&proxy));
    wait_for_the_last_deletion(&proxy);
    let times = times_of_deletions(&monitor);
    let span = *times.last().unwrap() - times[0];
    // The last one was sent within one pause and one patience of the ttl's end.
    assert!(ttl - ms(300) <= span, "{span:?}");
    assert!(span <= ttl + ms(500) + ms(300), "{span:?}");
    // Now it lands: nobody looks for it any more, and it is gone within its ttl all the same.
    let already = deletions(&proxy);
    assert!(held.deliver());
    assert!(server.get(KEY).is_some());
    let left = server.pttl(KEY);
    assert!(0 < left && left <= 1_500, "{left}");
    eventually("it expires", PATIENCE, || server.get(KEY).is_none());
    assert_eq!(deletions(&proxy), already);
}

#[test]
fn where_a_reply_is_not_waited_for_as_long_as_the_shortest_pause_is_a_token_is_reaped_as_well() {
    let key = "order:brief";
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let builder = Client::builder(&proxy.url()).connect_timeout(PATIENCE);
    let client = builder.command_timeout(ms(8)).build().unwrap();
    // The longest pause would be the timeout, or a hundredth of the ttl.
    let lock = client.lock(key).ttl(ms(950)).without_renewal();
    let lock = lock.max_hold(ms(600)).danger(ms(50)).build().unwrap();
    let mark = logs::mark();
    let mut lease = None;
    eventually("a reply comes in time", PATIENCE, || {
        lease = lock.acquire_timeout(PATIENCE).ok();
        lease.is_some()
    });
    server.cmd(&["DEL", key]);
    eventually("it is reaped", PATIENCE, || 3 < deletions(&proxy));
    wait_for_the_last_deletion(&proxy);
    // Nothing has gone wrong on the thread that renews and reaps.
    let first = logs::containing(mark, &format!("reaping a record of `{key}`")).pop();
    let mut errors = logs::since(mark);
    let thread = first.unwrap().thread;
    errors.retain(|line| line.thread == thread && line.level == log::Level::Error);
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_refused_deletion_is_tried_for_one_ttl_and_no_longer() {
    let server = Server::with(&["user app on >secret ~order:* +set +role"]);
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url_as("app", "secret"), ms(150));
    let lock = client.lock(KEY).ttl(ms(1_000)).build().unwrap();
    proxy.swallow(acquisition().once());
    let error = lock.try_acquire().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    eventually("it is tried again", PATIENCE, || 3 < deletions(&proxy));
    wait_for_the_last_deletion(&proxy);
}

#[test]
fn a_right_that_is_given_back_in_time_is_used() {
    let rights = "+set +role +get +del +pexpire +pttl +script|load";
    let server = Server::with(&[&format!("user app on >secret ~order:* {rights}")]);
    let proxy = Proxy::to(&server);
    let client = brief(&proxy.url_as("app", "secret"));
    let lock = client.lock(KEY).ttl(LONG).build().unwrap();
    let held = proxy.hold(acquisition().once());
    assert!(lock.try_acquire().unwrap_err().is_unknown());
    assert!(held.deliver());
    eventually("it is refused", PATIENCE, || 3 < deletions(&proxy));
    assert!(server.get(KEY).is_some());
    server.cmd(&["ACL", "SETUSER", "app", "+eval", "+evalsha"]);
    super::assert_deleted_long_before_its_ttl(&server);
}

/// A lease for this long whose record stands for ever: somebody has made it last, as a step of
/// the server's clock would.
fn everlasting(server: &Server, client: &Client, ttl: Duration) -> Lease {
    let lock = client.lock(KEY).ttl(ttl).without_renewal();
    let lease = take(&lock.build().unwrap());
    server.cmd(&["PERSIST", KEY]);
    lease
}

#[track_caller]
fn let_pass(time: Duration) {
    let begun = Instant::now();
    eventually("time passes", PATIENCE, || time < begun.elapsed());
}

#[test]
fn a_server_that_is_down_for_longer_than_the_ttl_does_not_end_it() {
    let server = Server::with(&["appendonly yes", "appendfsync always"]);
    let ttl = ms(400);
    let client = brief(&server.url());
    let lease = everlasting(&server, &client, ttl);
    server.cmd(&["SET", "witness", "what is written comes back"]);
    server.kill();
    drop(lease);
    let_pass(ttl * 4);
    server.restart();
    assert!(server.get("witness").is_some());
    super::assert_deleted_long_before_its_ttl(&server);
}

#[test]
fn a_server_that_answers_nothing_for_longer_than_the_ttl_does_not_end_it() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let ttl = ms(400);
    let client = brief(&proxy.url());
    let lease = everlasting(&server, &client, ttl);
    let unheard = proxy.swallow(Matcher::evalsha());
    drop(lease);
    let_pass(ttl * 4);
    assert!(server.get(KEY).is_some());
    unheard.end();
    super::assert_deleted_long_before_its_ttl(&server);
}
