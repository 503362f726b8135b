//! A server that answers "not now" or "no", or has forgotten the scripts: the lease outlives it.

use std::thread;

use leasehold::{Client, Lease, LeaseState};

use super::{KEY, count, is_renewal, lives_for, ms, renewal_of, renewed};
use crate::links::patient;
use crate::support::{Monitor, PATIENCE, Proxy, Server, eventually, logs};
use crate::wire::{client_with, take};

/// A lease that is renewed ten times until its deadline.
fn lease_of_3_s(client: &Client, key: &str) -> Lease {
    let lock = client.lock(key).ttl(ms(3_000)).danger(ms(300));
    take(&lock.renew_every(ms(300)).build().unwrap())
}

/// What the renewal thread has logged about `key` at this level.
fn logged(mark: logs::Mark, key: &str, level: log::Level) -> Vec<logs::Record> {
    let mut records = logs::containing(mark, key);
    records.retain(|record| record.target == "leasehold::renew" && record.level == level);
    records
}

#[test]
fn a_lease_outlives_a_script_of_somebody_else_that_does_not_end() {
    let server = Server::with(&["lua-time-limit 20"]);
    let (key, mark) = ("order:busy", logs::mark());
    let client = patient(&server.url());
    let lease = lease_of_3_s(&client, key);
    renewed(&client, &lease, 1);
    thread::scope(|scope| {
        // It is told of its end by an error.
        scope.spawn(|| server.try_cmd(&["EVAL", "while true do end", "0"]));
        eventually("renewals are refused", PATIENCE, || {
            let debug = logged(mark, key, log::Level::Debug);
            debug.iter().any(|record| record.text.contains("BUSY"))
        });
        lives_for(&lease, ms(500));
        server.cmd(&["SCRIPT", "KILL"]);
    });
    renewed(&client, &lease, 2);
    assert!(ms(1_500) < lease.remaining());
    assert!(0 < client.stats().renewals_failed);
    lease.release().unwrap();
}

#[test]
fn a_lease_outlives_answers_that_mean_not_now() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for answer in [
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-MISCONF Redis is configured to save RDB snapshots\r\n",
        "-NOREPLICAS Not enough good replicas to write.\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-ERR a word that nobody knows\r\n",
        "+OK\r\n",
    ] {
        let client = client_with(&proxy.url(), ms(1_000));
        let lease = lease_of_3_s(&client, KEY);
        let told = proxy.answer(renewal_of(&lease).first(3), answer);
        // The first retry is made at once, and the second one after 10 ms.
        eventually("it is told three times", ms(2_000), || told.hits() == 3);
        assert_eq!(lease.state(), LeaseState::Held, "{answer}");
        renewed(&client, &lease, 1);
        assert!(3 <= client.stats().renewals_failed, "{answer}");
        lease.release().unwrap();
    }
}

#[test]
fn a_lease_outlives_a_full_memory_and_a_loss_of_scripts_in_it() {
    let server = Server::with(&["maxmemory-policy noeviction"]);
    let client = patient(&server.url());
    let lease = lease_of_3_s(&client, KEY);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = server.try_cmd(&["SET", "another", "key"]).unwrap_err();
    assert!(full.starts_with("OOM"), "{full}");
    renewed(&client, &lease, 2);
    server.cmd(&["SCRIPT", "FLUSH"]);
    renewed(&client, &lease, 3);
    assert_eq!(client.stats().renewals_failed, 0);
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn scripts_that_are_flushed_are_sent_once_and_loaded_again() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = |number: u64| {
        let lock = client.lock(format!("order:{number}")).ttl(ms(10_000));
        take(&lock.renew_every(ms(1_000)).build().unwrap())
    };
    let leases: Vec<Lease> = (0..100).map(lock).collect();
    renewed(&client, &leases[0], 100);
    let monitor = Monitor::on(&server);
    server.cmd(&["SCRIPT", "FLUSH"]);
    renewed(&client, &leases[0], 200);
    let commands = monitor.commands();
    let load = ["SCRIPT", "LOAD"].map(String::from);
    let texts = |words: &[String]| is_renewal(words) && words[0] == "EVAL";
    assert_eq!(count(&commands, texts), 1, "not one for each lease");
    let digest = |words: &&Vec<String>| is_renewal(words) && words[0] == "EVALSHA";
    let digest = &commands.iter().find(digest).unwrap()[1];
    let known = server.cmd(&["SCRIPT", "EXISTS", digest]);
    assert_eq!(known, redis::Value::Array(vec![redis::Value::Int(1)]));
    assert_eq!(count(&commands, |words| words.starts_with(&load)), 1);
    assert_eq!(client.stats().renewals_failed, 0);
}

#[test]
fn a_lease_outlives_flushes_where_scripts_may_not_be_loaded() {
    let server = Server::with(&["user app on >secret ~* +@all -script"]);
    let client = patient(&server.url_as("app", "secret"));
    let lease = lease_of_3_s(&client, KEY);
    let monitor = Monitor::on(&server);
    for _ in 0..3 {
        server.cmd(&["SCRIPT", "FLUSH"]);
        renewed(&client, &lease, 2);
    }
    let texts = |words: &[String]| is_renewal(words) && words[0] == "EVAL";
    assert_eq!(count(&monitor.commands(), texts), 3);
    assert_eq!(client.stats().renewals_failed, 0);
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_lease_outlives_a_right_that_is_taken_away_and_given_back_and_logs_it_once() {
    let server = Server::with(&["user app on >secret ~* +@all"]);
    for right in ["evalsha", "pexpire"] {
        let (key, mark) = (format!("order:without-{right}"), logs::mark());
        let client = patient(&server.url_as("app", "secret"));
        let lease = lease_of_3_s(&client, &key);
        renewed(&client, &lease, 1);
        let change = |sign: &str| server.cmd(&["ACL", "SETUSER", "app", &format!("{sign}{right}")]);
        change("-");
        eventually("it is refused several times", PATIENCE, || {
            assert_eq!(lease.state(), LeaseState::Held);
            4 <= client.stats().renewals_failed
        });
        change("+");
        renewed(&client, &lease, 2);
        assert!(ms(1_500) < lease.remaining());
        let warned = logged(mark, &key, log::Level::Warn);
        assert_eq!(warned.len(), 1, "{warned:#?}");
        assert!(warned[0].text.contains("refuses"), "{warned:?}");
        assert!(!warned[0].text.contains(lease.token().expose()));
        lease.release().unwrap();
    }
}
