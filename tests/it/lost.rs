//! Leases that come to their end: by the clock, by others, by the server's word.

use std::error::Error as _;
use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use leasehold::{Client, Error, Lease, LeaseState, LockBuilder};

use crate::support::{Matcher, PATIENCE, Proxy, Scripted, Server, Step, eventually, logs, within};
use crate::wire::{client, client_with, lock, records_set, take};

const KEY: &str = "order:1";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A lock without renewal, for leases that end soon.
fn brief(client: &Client, key: &str, ttl: Duration) -> LockBuilder {
    client.lock(key).ttl(ttl).without_renewal()
}

/// A lease that has expired while another acquisition holds the lock; and that one.
fn expired_and_retaken(server: &Server, key: &str, seen_to_expire: bool) -> (Lease, Lease) {
    let old = take(&brief(&client(&server.url()), key, ms(30)).build().unwrap());
    eventually("the old record expires", PATIENCE, || {
        server.get(key).is_none()
    });
    if seen_to_expire {
        assert_eq!(old.state(), LeaseState::Lost);
    }
    (old, take(&lock(&server.url(), key)))
}

#[test]
fn the_release_of_an_expired_and_retaken_lock_is_lost_and_the_new_record_stands() {
    let server = Server::start();
    for (key, seen_to_expire) in [("lost:unseen", false), ("lost:seen", true)] {
        let mark = logs::mark();
        let (old, new) = expired_and_retaken(&server, key, seen_to_expire);
        let error = old.release().unwrap_err();
        assert!(error.is_lost(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(key), None));
        assert_eq!(server.get(key).as_deref(), Some(new.token().expose()));
        assert!(20_000 < server.pttl(key));
        assert_eq!(new.state(), LeaseState::Held);
        the_log_says_once_that_it_is_lost(mark, key);
        new.release().unwrap();
    }
}

#[test]
fn the_drop_of_an_expired_and_retaken_lock_leaves_the_new_record_alone() {
    let server = Server::start();
    for (key, seen_to_expire) in [("lost:drop-unseen", false), ("lost:drop-seen", true)] {
        let mark = logs::mark();
        let (old, new) = expired_and_retaken(&server, key, seen_to_expire);
        drop(old);
        assert_eq!(server.get(key).as_deref(), Some(new.token().expose()));
        assert!(20_000 < server.pttl(key));
        the_log_says_once_that_it_is_lost(mark, key);
        new.release().unwrap();
    }
}

#[track_caller]
fn the_log_says_once_that_it_is_lost(mark: logs::Mark, key: &str) {
    let said = logs::containing(mark, &format!("`{key}`"));
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_eq!(said[0].level, log::Level::Warn);
    assert!(said[0].text.contains("lost"), "{said:?}");
}

#[test]
fn a_lease_goes_from_held_through_danger_to_lost_by_the_clock_alone() {
    let server = Server::start();
    let danger = ms(500);
    let lock = brief(&client(&server.url()), KEY, ms(1_500)).danger(danger);
    let lease = take(&lock.build().unwrap());
    let watch = lease.watch();
    let mut seen = Vec::new();
    let mut last = Duration::MAX;
    eventually("the lease is lost", PATIENCE, || {
        // In this order: whoever finds the record gone finds the lease lost.
        let is_gone = server.get(KEY).is_none();
        let before = lease.remaining();
        let state = lease.state();
        let (check, is_held) = (lease.check(), lease.is_held());
        let (of_watch, check_of_watch) = (watch.state(), watch.check());
        let after = lease.remaining();
        assert!(after <= before && before <= last);
        assert!(!is_gone || state == LeaseState::Lost);
        match state {
            LeaseState::Held => assert!(danger < before),
            LeaseState::Danger => assert!(after <= danger),
            LeaseState::Lost => assert_eq!(after, Duration::ZERO),
            LeaseState::Released => panic!("nobody has released it"),
        }
        // The clock goes on between two questions; what was the same after is right for all.
        if lease.state() == state {
            for check in [check, check_of_watch] {
                match state {
                    LeaseState::Held => check.unwrap(),
                    LeaseState::Danger => assert!(check.unwrap_err().is_endangered()),
                    _ => assert!(check.unwrap_err().is_lost()),
                }
            }
            assert_eq!(of_watch, state);
            assert_eq!(is_held, state != LeaseState::Lost);
        }
        if seen.last() != Some(&state) {
            seen.push(state);
        }
        last = after;
        state == LeaseState::Lost
    });
    assert_eq!(
        seen,
        [LeaseState::Held, LeaseState::Danger, LeaseState::Lost]
    );
}

#[test]
fn a_lost_lease_stays_lost_though_its_record_still_stands() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = brief(&client(&proxy.url()), KEY, ms(100)).build().unwrap();
    let lease = take(&lock);
    // Somebody prolongs the record by hand: the server would confirm a renewal.
    server.cmd(&["PEXPIRE", KEY, "60000"]);
    eventually("the deadline passes", PATIENCE, || {
        lease.state() == LeaseState::Lost
    });
    let sent = proxy.commands().len();
    assert!(lease.renew().unwrap_err().is_lost());
    assert!(lease.ensure(ms(1)).unwrap_err().is_lost());
    assert!(lease.verify().unwrap_err().is_lost());
    assert!(lease.check().unwrap_err().is_lost());
    assert_eq!(proxy.commands().len(), sent, "there is nothing to ask for");
    assert_eq!(lease.state(), LeaseState::Lost);
    assert_eq!(
        server.get(KEY).as_deref(),
        Some(lease.token().expose()),
        "and it is still there to be released"
    );
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_renewal_that_is_confirmed_after_the_deadline_revives_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client(&proxy.url());
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
fn a_record_that_somebody_deletes_is_lost() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    let lease = take(&lock);
    lease.verify().unwrap();
    server.cmd(&["DEL", KEY]);
    assert_eq!(
        lease.state(),
        LeaseState::Held,
        "no clock can tell it, the server can"
    );
    assert!(lease.verify().unwrap_err().is_lost());
    assert_eq!(lease.state(), LeaseState::Lost);
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert!(lease.release().unwrap_err().is_lost());

    let lease = take(&lock);
    server.cmd(&["DEL", KEY]);
    assert!(lease.renew().unwrap_err().is_lost());
    assert_eq!(lease.state(), LeaseState::Lost);
    assert_eq!(server.get(KEY), None, "a renewal makes nothing anew");

    let lease = take(&lock);
    server.cmd(&["DEL", KEY]);
    assert!(lease.release().unwrap_err().is_lost());
}

#[test]
fn a_record_that_somebody_overwrites_is_lost_and_theirs_stands() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    let overwrite = |value: &str| server.cmd(&["SET", KEY, value, "PX", "60000"]);
    let lease = take(&lock);
    // The token alone is not the record: it is compared as a whole.
    let longer = format!("{} and more", lease.token().expose());
    overwrite(&longer);
    assert!(lease.verify().unwrap_err().is_lost());
    assert_eq!(lease.state(), LeaseState::Lost);
    assert!(lease.release().unwrap_err().is_lost());
    assert_eq!(server.get(KEY), Some(longer));
    server.cmd(&["DEL", KEY]);

    let lease = take(&lock);
    overwrite("theirs");
    assert!(lease.renew().unwrap_err().is_lost());
    drop(lease);
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
    server.cmd(&["DEL", KEY]);

    let lease = take(&lock);
    server.cmd(&["DEL", KEY]);
    server.cmd(&["RPUSH", KEY, "a list"]);
    assert!(lease.verify().unwrap_err().is_lost());
    assert!(lease.release().unwrap_err().is_lost());
    assert!(30_000 < server.pttl(KEY) || server.pttl(KEY) == -1);
}

#[test]
fn a_renewal_extends_the_lease_and_its_record() {
    let server = Server::start();
    let lease = take(
        &brief(&client(&server.url()), KEY, ms(3_000))
            .build()
            .unwrap(),
    );
    eventually("half a second has passed", PATIENCE, || {
        lease.remaining() < ms(2_400)
    });
    let before = server.pttl(KEY);
    lease.renew().unwrap();
    assert!(ms(2_400) < lease.remaining(), "{:?}", lease.remaining());
    assert!(
        lease.remaining() <= ms(2_968),
        "1 % and 2 ms are not its own"
    );
    assert!(before < server.pttl(KEY));
    assert!(server.pttl(KEY) <= 3_000);
}

#[test]
fn a_renewal_never_shortens_what_stands_on_the_server() {
    let server = Server::start();
    let lease = take(
        &brief(&client(&server.url()), KEY, ms(3_000))
            .build()
            .unwrap(),
    );
    server.cmd(&["PEXPIRE", KEY, "60000"]);
    lease.renew().unwrap();
    assert!(50_000 < server.pttl(KEY));
    assert!(lease.remaining() <= ms(2_968), "what is ours is the ttl");
}

#[test]
fn a_renewal_whose_reply_is_lost_is_made_again_on_a_new_link() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client(&proxy.url());
    let lease = take(&brief(&client, KEY, ms(5_000)).build().unwrap());
    proxy.drop_reply(Matcher::evalsha().once());
    server.cmd(&["PEXPIRE", KEY, "1000"]);
    lease.renew().unwrap();
    assert!(3_000 < server.pttl(KEY));
    assert_eq!((proxy.count("EVALSHA"), proxy.connections()), (2, 2));
    let stats = client.stats();
    assert_eq!((stats.renewals_ok, stats.renewals_failed), (1, 1));
    lease.release().unwrap();
}

#[test]
fn a_renewal_or_verification_without_an_answer_is_back_in_time_and_the_lease_stands() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(250));
    let lease = take(&brief(&client, KEY, ms(8_000)).build().unwrap());
    proxy.swallow_everything();
    let slack = ms(500);
    let (error, lease) = within(ms(2 * 250) + slack, move || (lease.renew(), lease));
    let error = error.unwrap_err();
    assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
    let (error, lease) = within(ms(2 * 250) + slack, move || (lease.verify(), lease));
    assert!(error.unwrap_err().is_unavailable());
    assert_eq!(lease.state(), LeaseState::Held);
}

#[test]
fn ensure_renews_when_too_little_is_left_and_only_then() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(250));
    let lease = take(&client.lock(KEY).build().unwrap());
    let sent = proxy.commands().len();
    lease.ensure(ms(20_000)).unwrap();
    assert_eq!(proxy.commands().len(), sent);
    eventually("half a second has passed", PATIENCE, || {
        lease.remaining() < ms(29_200)
    });
    lease.ensure(ms(29_200)).unwrap();
    assert_eq!(proxy.commands().len(), sent + 1);
    assert!(ms(29_100) < lease.remaining());
    let error = lease.ensure(ms(29_698)).unwrap_err();
    assert!(error.is_config(), "no lease of 30 s is valid for that long");

    proxy.swallow_everything();
    eventually("half a second has passed", PATIENCE, || {
        lease.remaining() < ms(29_200)
    });
    let error = lease.ensure(ms(29_200)).unwrap_err();
    assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
    assert_eq!(lease.state(), LeaseState::Held, "it stands as it was");
    lease.ensure(ms(20_000)).unwrap();
}

#[test]
fn ensure_leaves_the_danger_zone_and_says_so_where_max_hold_forbids_it() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = brief(&client, KEY, ms(1_000)).danger(ms(600));
    let lease = take(&lock.build().unwrap());
    eventually("the danger zone", PATIENCE, || {
        lease.state() == LeaseState::Danger
    });
    assert!(lease.check().unwrap_err().is_endangered());
    lease.ensure(ms(10)).unwrap();
    assert_eq!(lease.state(), LeaseState::Held);
    lease.release().unwrap();

    let lock = client.lock(KEY).danger(ms(100)).max_hold(ms(2_000));
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
    let lock = client(&server.url()).lock(key).danger(ms(200));
    let lease = take(&lock.max_hold(ms(800)).build().unwrap());
    assert!(lease.remaining() <= ms(800));
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
    lease.release().unwrap();
    assert_eq!(server.get(key), None);
}

#[test]
fn a_watch_follows_its_lease_from_another_thread_to_the_end() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    for by_drop in [false, true] {
        let lease = take(&lock);
        let watch = lease.watch();
        assert_eq!(watch.state(), LeaseState::Held);
        watch.check().unwrap();
        assert!(watch.remaining() <= ms(29_698) && ms(20_000) < watch.remaining());
        let elsewhere = thread::spawn({
            let watch = watch.clone();
            move || {
                eventually("the lease is released", PATIENCE, || {
                    watch.state() == LeaseState::Released
                });
            }
        });
        if by_drop {
            drop(lease);
        } else {
            lease.release().unwrap();
        }
        elsewhere.join().unwrap();
        assert_eq!(watch.state(), LeaseState::Released);
        assert_eq!(watch.remaining(), Duration::ZERO);
        assert!(watch.check().unwrap_err().is_lost());
    }
    let lease = take(&lock);
    let watch = lease.watch();
    server.cmd(&["DEL", KEY]);
    assert!(lease.verify().is_err());
    assert_eq!(watch.state(), LeaseState::Lost);
}

/// What somebody who looks at values and errors gets to see.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn value(&mut self, value: &impl Debug) {
        self.0.push(format!("{value:?} {value:#?}"));
    }

    fn outcome<T: Debug>(&mut self, outcome: &Result<T, Error>) {
        self.value(outcome);
        let Err(error) = outcome else { return };
        self.0.push(error.to_string());
        let mut cause = error.source();
        while let Some(deeper) = cause {
            self.0.push(format!("{deeper} {deeper:?}"));
            cause = deeper.source();
        }
    }

    /// All calls, whatever comes of them.
    fn everything(&mut self, url: &str, key: &str) {
        // Whatever comes of it: the timeouts may be as short as they like.
        let client = client_with(url, ms(30));
        for fenced in [false, true] {
            let lock = client.lock(key).label("night shift").ttl(ms(2_000));
            let lock = if fenced { lock.fenced() } else { lock };
            self.value(&lock);
            let lock = lock.build().unwrap();
            self.value(&lock);
            let taken = lock.try_acquire();
            self.outcome(&taken);
            self.outcome(&lock.acquire_timeout(ms(1)));
            let Ok(Some(lease)) = taken else { continue };
            self.value(lease.token());
            self.value(&lease.watch());
            self.outcome(&lease.renew());
            self.outcome(&lease.verify());
            self.outcome(&client.inspect(key));
            self.value(&lease);
            self.outcome(&lease.release());
        }
        self.value(&client);
        self.value(&client.stats());
    }
}

#[track_caller]
fn assert_no_token_is_shown(shown: &Shown, mark: logs::Mark, commands: &[Vec<String>]) {
    let records = records_set(commands);
    assert!(!records.is_empty());
    let lines = logs::since(mark);
    for record in records {
        let digits = &record[..40];
        for text in shown.0.iter().chain(lines.iter().map(|line| &line.text)) {
            assert!(!text.contains(digits), "{text}");
        }
    }
}

#[test]
fn no_token_is_shown_by_debug_errors_or_the_log_whatever_goes_wrong() {
    let server = Server::start();
    let mark = logs::mark();
    let mut shown = Shown::default();
    let key = "lost:shown";
    let faults: [&dyn Fn(&Proxy); 7] = [
        &|_| {},
        &|proxy| {
            proxy.drop_reply("SET");
        },
        &|proxy| {
            proxy.drop_reply(Matcher::evalsha().nth(3));
            proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
        },
        &|proxy| {
            proxy.swallow("SET");
            proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
        },
        &|proxy| {
            proxy.reset_after(Matcher::any_of(&["SET", "EVALSHA"]));
        },
        &|proxy| {
            proxy.answer("SET", "-OOM no memory\r\n");
            proxy.answer(Matcher::evalsha(), "-BUSY later\r\n");
        },
        &|proxy| {
            proxy.answer("SET", "!garbage\r\n");
            proxy.answer(Matcher::evalsha().nth(2), "+unheard of\r\n");
        },
    ];
    let mut commands = Vec::new();
    for fault in faults {
        let proxy = Proxy::to(&server);
        fault(&proxy);
        shown.everything(&proxy.url(), key);
        commands.extend(proxy.commands());
        server.cmd(&["DEL", key]);
    }
    // Lost ones, too.
    let lock = lock(&server.url(), key);
    let lease = take(&lock);
    server.cmd(&["SET", key, "theirs"]);
    shown.outcome(&lease.release());
    for outcome in ["Held", "Unknown", "Unavailable", "Lost"] {
        assert!(shown.0.iter().any(|text| text.contains(outcome)));
    }
    assert!(logs::any_containing(mark, key));
    assert_no_token_is_shown(&shown, mark, &commands);
}

#[test]
fn no_token_is_shown_where_the_server_repeats_the_command_it_was_sent() {
    let mark = logs::mark();
    let mut shown = Shown::default();
    let mut commands = Vec::new();
    let echoes: [fn(&[String]) -> String; 5] = [
        |words| {
            let (name, arguments) = (&words[0], words[1..].join("' '"));
            format!("-ERR unknown command '{name}', with args beginning with: '{arguments}' \r\n")
        },
        |words| {
            let (name, arguments) = (&words[0], words[1..].join("`, `"));
            format!("-ERR unknown command `{name}`, with args beginning with: `{arguments}`, \r\n")
        },
        |words| format!("-ERR nobody has heard of this: {}\r\n", words.join(" ")),
        |words| format!("-OOM no memory for {}\r\n", words.join(" ")),
        |words| format!("+{}\r\n", words.join(" ")),
    ];
    for echo in echoes {
        for echoed in ["SET", "EVALSHA"] {
            let server = Scripted::start(move |_, words| match words[0].as_str() {
                name if name == echoed => Step::reply(&echo(words)),
                "SET" => Step::reply("+OK\r\n"),
                _ => Step::Healthy,
            });
            shown.everything(&server.url(), "lost:echoed");
            commands.extend(server.commands());
        }
    }
    assert_no_token_is_shown(&shown, mark, &commands);
}
