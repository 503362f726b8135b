//! What goes over the wire: as much as is needed, and never what must not.

mod asked;
mod memory_use;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use leasehold::{Client, Lease, Lock};
use redis::Value;

use crate::links::patient;
use crate::support::{Matcher, Monitor, PATIENCE, Proxy, Script, Server, logs};

/// How long a client waits for a reply where a test lets it wait in vain.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);

/// What a starved machine may add to a bound.
pub(crate) const SLACK: Duration = Duration::from_millis(1_500);

/// A client that soon gives a reply up for lost, and has all the time to settle it.
pub(crate) fn settling(url: &str) -> Client {
    let builder = Client::builder(url).connect_timeout(PATIENCE);
    builder.command_timeout(TIMEOUT).build().unwrap()
}

/// A client with this timeout, to connect and for a command.
pub(crate) fn client_with(url: &str, timeout: Duration) -> Client {
    let builder = Client::builder(url).connect_timeout(timeout);
    builder.command_timeout(timeout).build().unwrap()
}

/// A lock for 30 s of a patient client of its own.
pub(crate) fn lock(url: &str, key: &str) -> Lock {
    patient(url).lock(key).build().unwrap()
}

/// Takes a lock that is free, with the patience that a client with short timeouts lacks.
#[track_caller]
pub(crate) fn take(lock: &Lock) -> Lease {
    lock.acquire_timeout(PATIENCE).expect("the lock is free")
}

/// The records that were to be set, each time that one was: by `SET`, or by one of the scripts
/// that take a lock.
pub(crate) fn records_set(commands: &[Vec<String>]) -> Vec<String> {
    let record = |words: &Vec<String>| {
        if let [set, _, record, nx, ..] = &words[..]
            && (set.as_str(), nx.as_str()) == ("SET", "NX")
        {
            return Some(record.clone());
        }
        let call = Script::called(words)?;
        match call.script {
            Script::AcquireFenced | Script::Wait => Some(call.arguments[0].clone()),
            Script::Adopt => Some(call.arguments[1].clone()),
            Script::Read | Script::Release | Script::Renew => None,
        }
    };
    commands.iter().filter_map(record).collect()
}

/// The commands that [`records_set`] looks at.
pub(crate) fn acquisition() -> Matcher {
    Matcher::when(|words| !records_set(&[words.to_vec()]).is_empty())
}

/// No command deletes a key or sets its expiry unconditionally; only scripts do, after they have
/// compared.
#[track_caller]
pub(crate) fn assert_nothing_unconditional(commands: &[Vec<String>]) {
    for words in commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_known = match words[..] {
            ["SET", _, _, "NX", "PX", ttl] => ttl.parse::<u64>().is_ok(),
            ["EVALSHA" | "EVAL", ..] | ["SCRIPT", "LOAD", _] => true,
            // That somebody waits, and the wake-up: never without an end.
            ["SET", key, _, "PX", ttl] => {
                key.ends_with(":leasehold:waiting") && ttl.parse::<u64>().is_ok()
            }
            ["BLPOP", key, seconds] => {
                key.ends_with(":leasehold:wake")
                    && seconds.parse().is_ok_and(|seconds: f64| 0.0 < seconds)
            }
            ["CLIENT", "INFO"]
            | ["INFO", "server" | "replication"]
            | ["ROLE"]
            | ["HELLO"]
            | ["AUTH", ..] => true,
            ["CLIENT", "KILL", "ID", _, "ADDR", _] => true,
            _ => false,
        };
        assert!(is_known, "{words:?}");
    }
}

const CYCLES: usize = 50;

/// The flag that somebody waits, and the list that he blocks on.
const WAITING: &str = "order:1:leasehold:waiting";
const WAKE: &str = "order:1:leasehold:wake";

/// Fifty cycles on a fresh client, and everything that the server saw of them.
fn fifty_cycles(url: &str, server: &Server) -> Vec<Vec<String>> {
    let monitor = Monitor::on(server);
    let lock = patient(url).lock("order:1").label("night shift");
    let lock = lock.ttl(Duration::from_millis(12_345)).build().unwrap();
    for _ in 0..CYCLES {
        let lease = take(&lock);
        lease.check().unwrap();
        lease.release().unwrap();
    }
    let of_scripts = monitor.commands_of_scripts();
    assert_eq!(
        of_scripts,
        [["GET", "order:1"], ["DEL", "order:1"], ["GET", WAITING]].repeat(CYCLES)
    );
    monitor.commands()
}

fn assert_one_set_and_one_evalsha_per_cycle(commands: &[Vec<String>]) {
    let first = commands.iter().position(|words| words[0] == "SET").unwrap();
    let (handshake, cycles) = commands.split_at(first);
    for words in handshake {
        assert!(
            matches!(words[0].as_str(), "CLIENT" | "INFO" | "SCRIPT"),
            "{words:?}"
        );
    }
    assert_eq!(cycles.len(), 2 * CYCLES, "{cycles:#?}");
    // Of the client, by which it knows its own waiters: the same in each cycle.
    let name = cycles[1].last().unwrap();
    assert!(name.len() == 16 && !cycles[0][2].contains(name), "{name}");
    for cycle in cycles.chunks(2) {
        let [set, release] = cycle else {
            panic!("a cycle is a pair")
        };
        let record = &set[2];
        let (digits, label) = record.split_once(' ').unwrap();
        assert!(digits.len() == 40 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_eq!(label, "night shift");
        assert_eq!(*set, ["SET", "order:1", record, "NX", "PX", "12345"]);
        assert!(Script::Release.is_called(release), "{release:?}");
        assert_eq!(
            release[2..],
            ["3", "order:1", WAITING, WAKE, record, "1000", name]
        );
    }
    let mut records = records_set(cycles);
    records.sort_unstable();
    records.dedup();
    assert_eq!(records.len(), CYCLES, "a token of its own for each cycle");
}

#[test]
fn a_cycle_is_one_set_and_one_evalsha_and_nothing_else_over_tcp() {
    let server = Server::start();
    // MONITOR hides administrative commands and the proxy hides none.
    let proxy = Proxy::to(&server);
    assert_one_set_and_one_evalsha_per_cycle(&fifty_cycles(&proxy.url(), &server));
    assert_one_set_and_one_evalsha_per_cycle(&proxy.commands());
    assert_eq!(proxy.connections(), 1);
}

#[test]
fn a_cycle_is_one_set_and_one_evalsha_and_nothing_else_over_a_unix_socket() {
    let server = Server::start();
    assert_one_set_and_one_evalsha_per_cycle(&fifty_cycles(&server.unix_url(), &server));
}

#[test]
fn times_to_live_are_sent_in_whole_milliseconds() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = patient(&proxy.url()).lock("order:1").fenced();
    let lock = lock.ttl(Duration::from_nanos(2_345_678_901_234));
    let lease = take(&lock.build().unwrap());
    lease.renew().unwrap();
    let calls = proxy.commands();
    let calls: Vec<_> = calls.iter().filter(|words| words[0] == "EVALSHA").collect();
    let token = lease.token().expose();
    let thirty_days = (30_u64 * 24 * 60 * 60 * 1000).to_string();
    assert_eq!(
        calls[0][2..],
        [
            "2",
            "order:1",
            "order:1:leasehold:fence",
            token,
            "2345678",
            &thirty_days
        ]
    );
    assert_eq!(calls[1][2..], ["1", "order:1", token, "2345678"]);
}

/// Every call that speaks to a server, with `before` ahead of each.
fn every_call(url: &str, mut before: impl FnMut()) {
    for fenced in [false, true] {
        let client = patient(url);
        let lock = client.lock("order:1");
        let lock = if fenced { lock.fenced() } else { lock };
        let lock = lock.build().unwrap();
        before();
        let lease = take(&lock);
        assert_eq!(lease.fence().is_some(), fenced);
        before();
        assert!(lock.try_acquire().unwrap().is_none());
        before();
        lease.renew().unwrap();
        before();
        lease.verify().unwrap();
        before();
        assert!(client.inspect("order:1").unwrap().is_some());
        before();
        client.ping().unwrap();
        before();
        lease.release().unwrap();
        before();
        assert!(client.inspect("order:1").unwrap().is_none());
        let stats = client.stats();
        assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (0, 0));
        assert_eq!((stats.reconnects, stats.renewals_failed), (0, 0));
    }
}

#[test]
fn a_script_flush_between_any_two_calls_goes_unnoticed() {
    let server = Server::start();
    let monitor = Monitor::on(&server);
    every_call(&server.url(), || {
        server.cmd(&["SCRIPT", "FLUSH"]);
    });
    assert!(0 < monitor.count("EVAL"), "the flushes were met");
    assert_nothing_unconditional(&monitor.commands());
    // Loaded again, not only evaluated: newer servers evict what came by `EVAL` alone.
    let lock = lock(&server.url(), "order:1");
    take(&lock).release().unwrap();
    server.cmd(&["SCRIPT", "FLUSH"]);
    monitor.clear();
    take(&lock).release().unwrap();
    let commands = monitor.commands();
    let [_, _, eval, load] = &commands[..] else {
        panic!("SET, EVALSHA, EVAL and SCRIPT LOAD, and not {commands:?}");
    };
    assert_eq!(*load, ["SCRIPT", "LOAD", &eval[1]]);
    monitor.clear();
    take(&lock).release().unwrap();
    assert_eq!((monitor.count("EVALSHA"), monitor.count("EVAL")), (1, 0));
}

#[test]
fn a_user_without_rights_to_script_load_client_info_and_role_can_do_everything() {
    let user = "user app on >secret ~order:* +set +eval +evalsha +get +del +pexpire +pttl +time";
    let server = Server::with(&[user]);
    every_call(&server.url_as("app", "secret"), || {
        server.cmd(&["SCRIPT", "FLUSH"]);
    });
}

#[test]
fn a_proxy_that_knows_neither_script_nor_client_goes_unnoticed() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let unknown = "-ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' \r\n";
    let rule = proxy.answer(Matcher::any_of(&["SCRIPT", "CLIENT"]), unknown);
    every_call(&proxy.url(), || {
        server.cmd(&["SCRIPT", "FLUSH"]);
    });
    assert!(2 < rule.hits());
}

#[test]
fn no_failure_makes_a_client_delete_or_prolong_unconditionally() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.drop_reply(Matcher::any_of(&["SET", "EVALSHA"]).nth(2));
    proxy.reset_after(Matcher::any_of(&["SET", "EVALSHA"]).nth(5));
    proxy.reset_before(Matcher::any_of(&["SET", "EVALSHA"]).nth(9));
    proxy.answer(Matcher::evalsha().nth(4), "-BUSY later\r\n");
    proxy.answer(Matcher::evalsha().nth(6), "-NOSCRIPT\r\n");
    let lock = settling(&proxy.url()).lock("order:1").build().unwrap();
    for _ in 0..8 {
        let lease = lock.acquire_timeout(PATIENCE).unwrap();
        // Whatever comes of it: here only the words count.
        let _ = lease.renew();
        let _ = lease.release();
        server.cmd(&["DEL", "order:1"]);
    }
    assert_nothing_unconditional(&proxy.commands());
    assert!(8 <= proxy.count("SET") && 8 <= proxy.count("EVALSHA"));
}

#[test]
fn a_panic_in_the_critical_section_releases_the_lock_and_aborts_nothing() {
    let server = Server::start();
    let lock = lock(&server.url(), "order:1");
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _lease = take(&lock);
        panic!("on purpose, under the lock");
    }));
    assert!(caught.is_err());
    assert_eq!(server.get("order:1"), None);
    let elsewhere = lock.clone();
    let thread = thread::spawn(move || {
        let _lease = take(&elsewhere);
        panic!("on purpose, in a thread");
    });
    assert!(thread.join().is_err());
    assert_eq!(server.get("order:1"), None);
    take(&lock).release().unwrap();
}

#[test]
fn a_panic_while_the_server_is_gone_aborts_nothing_either() {
    let server = Server::start();
    let mark = logs::mark();
    let key = "order:panic-without-server";
    let lock = client_with(&server.url(), TIMEOUT).lock(key).build();
    let lock = lock.unwrap();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _lease = take(&lock);
        server.kill();
        panic!("on purpose, under the lock");
    }));
    assert!(caught.is_err());
    assert!(logs::any_containing(mark, key), "what drop cannot return");
}

#[test]
fn a_record_of_the_documented_pattern_is_respected_and_so_is_ours() {
    let server = Server::start();
    let lock = lock(&server.url(), "order:1");
    let foreign = ["SET", "order:1", "5e1f a uuid", "NX", "PX", "60000"];
    let compare_and_delete = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                              return redis.call('del', KEYS[1]) else return 0 end";
    let delete = ["EVAL", compare_and_delete, "1", "order:1", foreign[2]];

    server.cmd(&foreign);
    assert!(lock.try_acquire().unwrap().is_none());
    let timeout = lock.acquire_timeout(Duration::from_millis(30)).unwrap_err();
    assert!(timeout.is_timeout(), "{timeout:?}");
    assert_eq!(server.get("order:1").as_deref(), Some(foreign[2]));
    assert_eq!(server.cmd(&delete), Value::Int(1));

    let lease = take(&lock);
    assert_eq!(server.cmd(&foreign), Value::Nil);
    assert_eq!(server.cmd(&delete), Value::Int(0));
    assert_eq!(
        server.get("order:1").as_deref(),
        Some(lease.token().expose())
    );
    lease.release().unwrap();
    assert_eq!(server.cmd(&foreign), Value::Okay);
}
