//! A wait ends when it was to end, whatever wakes it and whatever does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Canceller, Client, Error, Lock};

use super::{AMPLE, KEY, THEIRS, WAKE, let_pass, lock_of, ms, wait_until_blocked};
use crate::links::{HASTE, hasty, patient};
use crate::support::{Monitor, PATIENCE, Proxy, Server};
use crate::waiting::{Aside, SLACK};

/// A wait with a budget.
type Budgeted = fn(&Lock, Duration) -> Result<(), Error>;

const BUDGETED: [Budgeted; 3] = [
    |lock, budget| lock.acquire_timeout(budget).map(drop),
    |lock, budget| lock.acquire_deadline(Instant::now() + budget).map(drop),
    |lock, budget| {
        let deadline = Some(Instant::now() + budget);
        let taken = lock.acquire_cancellable(deadline, &Canceller::new());
        taken.map(drop)
    },
];

#[test]
fn a_wait_that_is_woken_in_vain_again_and_again_ends_in_time_and_does_not_spin() {
    const BUDGET: Duration = ms(500);
    let server = Server::start();
    server.cmd(&["SET", KEY, THEIRS, "PX", "600000"]);
    for wait in BUDGETED {
        let proxy = Proxy::to(&server);
        let client = hasty(&proxy.url());
        client.ping().unwrap();
        let lock = lock_of(&client);
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let waiter = Aside::start(move || {
            let begun = Instant::now();
            let error = wait(&lock, BUDGET).unwrap_err();
            seen.store(true, Ordering::Relaxed);
            (error, begun.elapsed())
        });
        let mut pushes = 0;
        while !over.load(Ordering::Relaxed) && pushes < 500 {
            server.cmd(&["LPUSH", WAKE, "1"]);
            pushes += 1;
            let_pass(ms(20));
        }
        let (error, took) = waiter.value();
        assert!(error.is_timeout(), "{error:?}");
        let most = BUDGET + HASTE + SLACK;
        assert!(BUDGET <= took && took < most, "{took:?}");
        // Each wake-up is worth one look; and the last tenth of a second is polled.
        let looks = proxy.count("EVALSHA");
        assert!(looks <= pushes + 60, "{looks} looks for {pushes} wake-ups");
        let blocked = proxy.count("BLPOP");
        assert!(blocked <= looks, "asleep {blocked} times for {looks} looks");
        server.cmd(&["DEL", WAKE]);
    }
}

/// What was to be slept for, by the key and the timeout of each `BLPOP`.
fn sleeps(monitor: &Monitor<'_>) -> Vec<(String, f64)> {
    let blocks = monitor.commands().into_iter();
    let blocks = blocks.filter(|words| words[0] == "BLPOP");
    blocks
        .map(|words| match &words[..] {
            [_, wake, span] => (wake.clone(), span.parse().unwrap()),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn nobody_sleeps_for_ever_or_beyond_his_budget() {
    let server = Server::start();
    let client = Client::builder(&server.url())
        .connect_timeout(PATIENCE)
        .command_timeout(PATIENCE)
        .max_waiting_links(128);
    let client = client.build().unwrap();
    let monitor = Monitor::on(&server);
    let mut waits = Vec::new();
    let mut wait = |client: &Client, key: String, budget: Duration, canceller: bool| {
        let lock = client.lock(key).build().unwrap();
        waits.push(Aside::start(move || {
            let outcome = if canceller {
                let deadline = Some(Instant::now() + budget);
                let taken = lock.acquire_cancellable(deadline, &Canceller::new());
                taken.map(drop)
            } else {
                lock.acquire_timeout(budget).map(drop)
            };
            if let Err(error) = outcome {
                assert!(!error.is_refused(), "{error:?}");
            }
        }));
    };
    let budgets = [
        1, 5, 9, 10, 11, 50, 99, 100, 101, 109, 110, 111, 112, 120, 150, 300, 1000, 1100, 1200,
    ];
    for budget in budgets {
        for (name, expiry) in [("far", &["PX", "600000"] as &[&str]), ("never", &[])] {
            let key = format!("{budget}:{name}");
            server.cmd(&[&["SET", &key, THEIRS], expiry].concat());
            wait(&client, key, ms(budget), false);
        }
    }
    for left in budgets {
        let key = format!("{left}:left");
        server.cmd(&["SET", &key, THEIRS, "PX", &left.to_string()]);
        wait(&client, key, ms(1300), false);
    }
    // A wait that can be cancelled sleeps for half a command timeout at most.
    let mut others = Vec::new();
    for timeout in [2, 10, 20, 100, 199, 200, 219, 220, 240, 2000] {
        let key = format!("1300:canceller:{timeout}");
        server.cmd(&["SET", &key, THEIRS, "PX", "600000"]);
        let short = Client::builder(&server.url())
            .connect_timeout(PATIENCE)
            .command_timeout(ms(timeout));
        let short = short.build().unwrap();
        wait(&short, key, ms(1300), true);
        others.push(short);
    }
    for wait in waits {
        wait.value();
    }
    let sleeps = sleeps(&monitor);
    assert!(20 <= sleeps.len(), "{sleeps:?}");
    for (wake, span) in &sleeps {
        let most: f64 = wake.split(':').next().unwrap().parse().unwrap();
        // Servers answer up to a tenth of a second late.
        let (span, most) = (span * 1000.0, (most - 100.0).min(900.0));
        assert!(9.5 <= span && span <= most + 0.5, "{wake}: {span} ms");
    }
}

#[test]
fn a_server_that_falls_silent_does_not_carry_those_asleep_past_their_budgets() {
    let server = Server::start();
    server.cmd(&["SET", KEY, THEIRS, "PX", "600000"]);
    for wait in BUDGETED {
        // The sleep ends before the budget, and its answer is waited for beyond it.
        let budget = ms(700);
        let proxy = Proxy::to(&server);
        let client = Client::builder(&proxy.url())
            .connect_timeout(2 * PATIENCE)
            .command_timeout(ms(600));
        let client = client.build().unwrap();
        client.ping().unwrap();
        let lock = lock_of(&client);
        let waiter = Aside::start(move || {
            let begun = Instant::now();
            (wait(&lock, budget).unwrap_err(), begun.elapsed())
        });
        proxy.wait_for("BLPOP", 1);
        proxy.swallow_everything();
        let (error, took) = waiter.value();
        let said = error.is_timeout() || error.is_unavailable() || error.is_unknown();
        assert!(said, "{error:?}");
        let most = budget + ms(600) + SLACK;
        assert!(budget <= took && took < most, "{took:?}");
    }
}

#[test]
fn a_sleep_that_is_never_answered_does_not_outlast_its_cancelling_by_more_than_a_command() {
    const COMMAND: Duration = Duration::from_secs(4);
    let server = Server::start();
    server.cmd(&["SET", KEY, THEIRS, "PX", "600000"]);
    let proxy = Proxy::to(&server);
    let client = Client::builder(&proxy.url()).command_timeout(COMMAND);
    let lock = lock_of(&client.build().unwrap());
    let canceller = Canceller::new();
    let own = canceller.clone();
    let waiter = Aside::start(move || lock.acquire_cancellable(None, &own));
    proxy.wait_for("BLPOP", 1);
    proxy.swallow_everything();
    let cancelled = Instant::now();
    canceller.cancel();
    assert!(waiter.value().unwrap().is_none());
    let took = cancelled.elapsed();
    assert!(took < COMMAND + ms(500), "{took:?}");
}

#[test]
fn a_polled_wait_keeps_to_its_budget_too() {
    let server = Server::start();
    server.cmd(&["SET", KEY, THEIRS, "PX", "600000"]);
    for wait in BUDGETED {
        let client = Client::builder(&server.url())
            .connect_timeout(HASTE)
            .command_timeout(HASTE)
            .max_waiting_links(0);
        let lock = lock_of(&client.build().unwrap());
        for budget in [ms(20), ms(300)] {
            let begun = Instant::now();
            let error = wait(&lock, budget).unwrap_err();
            let took = begun.elapsed();
            assert!(error.is_timeout(), "{error:?}");
            let most = budget + HASTE + SLACK;
            assert!(budget <= took && took < most, "{took:?}");
        }
    }
}

/// Nobody is asleep any more for whom nobody waits.
#[test]
fn a_wait_that_has_ended_leaves_nobody_asleep() {
    let server = Server::start();
    server.cmd(&["SET", KEY, THEIRS, "PX", "600000"]);
    let client = patient(&server.url());
    let (lock, canceller) = (lock_of(&client), Canceller::new());
    let own = canceller.clone();
    let waiter = Aside::start(move || lock.acquire_cancellable(None, &own));
    wait_until_blocked(&server, 1);
    canceller.cancel();
    assert!(waiter.value().unwrap().is_none());
    let error = lock_of(&client).acquire_timeout(ms(300)).unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    let asleep = super::blocked(&server);
    assert!(asleep.is_empty(), "{asleep:?}");
    // Nor has anybody left a wake-up or a token of his behind.
    server.cmd(&["DEL", KEY]);
    let lease = lock_of(&client).acquire_timeout(AMPLE).unwrap();
    lease.release().unwrap();
}
