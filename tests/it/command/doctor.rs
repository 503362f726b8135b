//! `leasehold doctor`: what it sees on servers that are as they should be, and on others.

use std::time::Instant;

use redis::Value as Reply;
use serde_json::Value;

use super::{Ended, Running, leasehold};
use crate::support::{Matcher, PATIENCE, Proxy, Server};

/// The least rights for a plain lock.
const PLAIN: [&str; 7] = [
    "+set", "+eval", "+evalsha", "+get", "+del", "+pexpire", "+pttl",
];

/// The rights that help.
const MORE: [&str; 9] = [
    "+blpop",
    "+exists",
    "+lpush",
    "+time",
    "+script|load",
    "+client|info",
    "+client|kill",
    "+info",
    "+role",
];

/// A server that has nothing to be warned of.
fn healthy() -> Server {
    Server::with(&["appendonly yes"])
}

/// The user `app` with the password `hunter2` and these rights, on `order:*` alone.
fn with_rights(rights: &[&str]) -> Server {
    let rights = rights.join(" ");
    Server::with(&[&format!("user app on >hunter2 ~order:* {rights}")])
}

fn app(server: &Server) -> String {
    server.url_as("app", "hunter2")
}

/// Runs it to its end, which a server that does not answer puts off.
#[track_caller]
fn ran(words: &[&str]) -> Ended {
    Running::start(&mut leasehold(words)).end_within(3 * PATIENCE)
}

/// The findings of `--json`, as `level look: found`.
struct Report {
    code: Option<i32>,
    lines: Vec<String>,
    json: Value,
}

#[track_caller]
fn report(url: &str, more: &[&str]) -> Report {
    let ran = ran(&[&["doctor", "--json", "--url", url], more].concat());
    assert_eq!(ran.err, "");
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let lines = findings.iter().map(|finding| {
        assert_ne!(text(finding, "means"), "");
        let [level, look, found] = ["level", "look", "found"].map(|field| text(finding, field));
        format!("{level} {look}: {found}")
    });
    let lines = lines.collect();
    Report {
        code: ran.code,
        lines,
        json,
    }
}

impl Report {
    #[track_caller]
    fn says(&self, begin: &str, words: &str) {
        let mut lines = self.lines.iter();
        let is = |line: &String| line.starts_with(begin) && line.contains(words);
        assert!(lines.any(is), "{begin} … {words}: {:#?}", self.lines);
    }

    #[track_caller]
    fn says_nothing_of(&self, begin: &str) {
        let mut lines = self.lines.iter();
        assert!(
            !lines.any(|line| line.starts_with(begin)),
            "{begin}: {:#?}",
            self.lines
        );
    }
}

#[track_caller]
fn assert_empty(server: &Server) {
    assert_eq!(server.cmd(&["DBSIZE"]), Reply::Int(0));
}

#[track_caller]
fn assert_away(ran: &Ended) {
    assert_eq!(ran.code, Some(69), "{} {}", ran.out, ran.err);
    assert_eq!(ran.out, "");
    assert!(ran.err.starts_with("leasehold: "), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}

#[test]
fn a_healthy_server_ends_with_0_and_is_left_as_it_was() {
    let server = healthy();
    let report = report(&server.url(), &[]);
    assert_eq!(report.code, Some(0));
    report.says_nothing_of("unsafe");
    for look in [
        "server",
        "mode",
        "role",
        "persistence",
        "eviction",
        "rights",
        "lock",
        "clock",
    ] {
        report.says(&format!("ok {look}: "), "");
    }
    report.says("note replicas: ", "none");
    // A starved machine may make a warning of it.
    report.says("", "round trips: p50 ");
    assert_empty(&server);
}

#[test]
fn the_report_fits_a_terminal_and_ends_with_a_summary() {
    let server = Server::with(&["maxmemory 100mb", "maxmemory-policy volatile-ttl"]);
    let url = server.url();
    for more in [&["--verbose"][..], &[]] {
        let ran = ran(&[&["doctor", "--url", &url], more].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        for line in ran.out.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let (_, summary) = ran.out.trim_end().rsplit_once("\n\n").unwrap();
        assert!(summary.starts_with("1 unsafe, "), "{summary}");
        assert!(summary.ends_with("eviction."), "{summary}");
        assert!(
            ran.out
                .contains("mend:  CONFIG SET maxmemory-policy noeviction")
        );
    }
    let ran = ran(&["doctor", "--quiet", "--url", &url]);
    assert_eq!(ran.code, Some(1));
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
}

#[test]
fn the_summary_for_programs_counts_the_findings() {
    let server = Server::with(&["maxmemory 100mb", "maxmemory-policy volatile-ttl"]);
    let report = report(&server.url(), &[]);
    for level in ["ok", "note", "warning", "unsafe"] {
        let begin = format!("{level} ");
        let count = report.lines.iter().filter(|line| line.starts_with(&begin));
        assert_eq!(report.json["summary"][level], count.count());
    }
    assert_eq!(report.json["server"], server.addr().to_string());
}

#[test]
fn a_policy_that_evicts_is_unsafe_and_without_a_limit_a_note() {
    for policy in ["volatile-lru", "allkeys-random"] {
        let policy = format!("maxmemory-policy {policy}");
        let server = Server::with(&["maxmemory 100mb", &policy]);
        let limited = report(&server.url(), &[]);
        assert_eq!(limited.code, Some(1));
        limited.says("unsafe eviction: ", &policy);
        server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
        let unlimited = report(&server.url(), &[]);
        assert_eq!(unlimited.code, Some(0));
        unlimited.says("note eviction: ", &policy);
    }
}

#[test]
fn a_server_whose_memory_is_full_is_unsafe() {
    let server = Server::with(&["maxmemory 100kb", "maxmemory-policy noeviction"]);
    let report = report(&server.url(), &[]);
    assert_eq!(report.code, Some(1));
    report.says("ok eviction: ", "noeviction");
    report.says("warning memory: ", "% of maxmemory");
    report.says("unsafe lock: one cannot be taken", "OOM");
    report.says("ok rights: ", "");
}

#[test]
fn a_replica_is_unsafe_even_if_it_can_be_written_to() {
    let server = healthy();
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    for read_only in ["yes", "no"] {
        server.cmd(&["CONFIG", "SET", "replica-read-only", read_only]);
        let report = report(&server.url(), &[]);
        assert_eq!(report.code, Some(1));
        report.says("unsafe role: ", "a replica of 127.0.0.1:1");
        report.says_nothing_of("ok lock");
        assert_empty(&server);
    }
}

#[test]
fn a_primary_that_does_not_wait_for_its_replicas_is_warned_of() {
    let primary = Server::with(&["appendonly yes", "repl-diskless-sync-delay 0"]);
    let replica = Server::start();
    replica.cmd(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    crate::support::eventually("the replica is in sync", PATIENCE, || {
        let answer = primary.cmd(&["WAIT", "1", "1"]);
        answer == Reply::Int(1)
    });
    let careless = report(&primary.url(), &[]);
    assert_eq!(careless.code, Some(0));
    careless.says("note replicas: ", "1, which follow");
    careless.says("warning failover: ", "not set");
    primary.cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let careful = report(&primary.url(), &[]);
    careful.says("ok failover: ", "min-replicas-to-write is 1");
    primary.cmd(&["CONFIG", "SET", "min-replicas-to-write", "2"]);
    let alone = report(&primary.url(), &[]);
    assert_eq!(alone.code, Some(1));
    alone.says("unsafe failover: ", "(1)");
    alone.says("unsafe lock: ", "NOREPLICAS");
    assert_empty(&primary);
}

#[test]
fn a_server_that_forgets_at_a_restart_is_warned_of() {
    let server = Server::start();
    let forgetful = report(&server.url(), &[]);
    assert_eq!(forgetful.code, Some(0));
    forgetful.says("warning persistence: ", "appendonly is off");
}

#[test]
fn a_node_of_a_cluster_is_unsafe() {
    let server = Server::with(&["cluster-enabled yes"]);
    let report = report(&server.url(), &[]);
    assert_eq!(report.code, Some(1));
    report.says("unsafe mode: ", "cluster");
}

#[test]
fn the_least_rights_are_enough_and_those_that_help_are_named() {
    let server = with_rights(&PLAIN);
    let report = report(&app(&server), &["--key", "order:"]);
    assert_eq!(report.code, Some(0));
    report.says("ok rights: ", "all that locks need");
    report.says("ok lock: ", "");
    for right in MORE {
        report.says("note rights: the user app lacks ", right);
    }
    // What INFO and TIME would have told is not taken for good.
    for look in ["persistence", "eviction", "replicas", "clock"] {
        report.says(&format!("note {look}: unknown"), "refused");
    }
    for finding in report.json["findings"].as_array().unwrap() {
        let unknown = finding["found"].as_str().unwrap().starts_with("unknown");
        assert_eq!(finding["known"], !unknown);
    }
    // That much is told to everybody.
    report.says("ok server: ", "");
    report.says("ok role: ", "");
    assert_empty(&server);
}

#[test]
fn all_rights_of_the_docs_leave_nothing_to_say() {
    let server = with_rights(&[&PLAIN[..], &MORE].concat());
    let report = report(&app(&server), &["--key", "order:1"]);
    assert_eq!(report.code, Some(0));
    report.says("ok rights: ", "all that helps");
    report.says_nothing_of("note rights");
    // CONFIG GET is not among them.
    report.says("warning persistence: ", "appendonly is off");
    assert_empty(&server);
}

#[test]
fn each_right_that_is_needed_and_missing_is_unsafe_and_named() {
    for missing in PLAIN {
        let rights: Vec<_> = PLAIN
            .into_iter()
            .filter(|other| *other != missing)
            .collect();
        let server = with_rights(&rights);
        let report = report(&app(&server), &["--key", "order:"]);
        assert_eq!(report.code, Some(1), "{missing}");
        report.says("unsafe rights: the user app lacks ", missing);
        report.says_nothing_of("ok rights");
        let unsafe_lines = report
            .lines
            .iter()
            .filter(|line| line.starts_with("unsafe"));
        assert_eq!(unsafe_lines.count(), 1, "{:#?}", report.lines);
        assert_empty(&server);
    }
}

#[test]
fn keys_that_the_user_may_not_use_are_unsafe_only_if_they_were_asked_for() {
    let server = with_rights(&PLAIN);
    let not_asked = report(&app(&server), &[]);
    assert_eq!(not_asked.code, Some(0));
    not_asked.says("note keys: ", "no lock was tried");
    not_asked.says_nothing_of("ok lock");
    let asked = report(&app(&server), &["--key", "invoice:"]);
    assert_eq!(asked.code, Some(1));
    asked.says("unsafe keys: ", "\"invoice:\"");
}

#[test]
fn a_user_with_a_right_to_the_locks_own_key_alone_is_told_what_that_costs() {
    let rights = [&PLAIN[..], &MORE].concat().join(" ");
    let server = Server::with(&[&format!("user app on >hunter2 ~order:1 {rights}")]);
    server.cmd(&["SET", "order:1", "theirs"]);
    let alone = report(&app(&server), &["--key", "order:1"]);
    assert_eq!(alone.code, Some(0));
    alone.says("note keys: no lock was tried: ", "\"order:1\"");
    alone.says_nothing_of("unsafe");
    let findings = alone.json["findings"].as_array().unwrap();
    let keys = findings.iter().find(|finding| finding["look"] == "keys");
    let mend = keys.unwrap()["mend"].as_str().unwrap();
    assert_eq!(mend, "ACL SETUSER app ~order:1:leasehold:*");
    assert_eq!(server.get("order:1").as_deref(), Some("theirs"));
    assert_eq!(server.pttl("order:1"), -1);
    // What it says about mending is true.
    let words: Vec<_> = mend.split(' ').collect();
    server.cmd(&words);
    let mended = report(&app(&server), &["--key", "order:1"]);
    mended.says("ok lock: ", "");
    mended.says_nothing_of("note keys");
    assert_eq!(server.cmd(&["DBSIZE"]), Reply::Int(1));
}

#[test]
fn a_right_to_wake_others_or_be_woken_that_is_missing_is_a_note_with_what_is_lost() {
    for (missing, lost) in [
        ("+blpop", "polls"),
        ("+exists", "whether others wait"),
        ("+lpush", "wakes nobody"),
    ] {
        let all = [&PLAIN[..], &MORE].concat();
        let others: Vec<_> = all.into_iter().filter(|right| *right != missing).collect();
        let server = with_rights(&others);
        let report = report(&app(&server), &["--key", "order:"]);
        assert_eq!(report.code, Some(0));
        report.says("note rights: the user app lacks ", missing);
        report.says("ok lock: ", "");
        let findings = report.json["findings"].as_array().unwrap();
        let notes = findings.iter().filter(|finding| finding["level"] == "note");
        let mut notes = notes.filter(|finding| finding["look"] == "rights");
        let means = notes.next().unwrap()["means"].as_str().unwrap();
        assert!(means.contains(lost), "{means}");
        assert_eq!(notes.next(), None);
        assert_empty(&server);
    }
}

#[test]
fn nothing_is_pushed_where_it_might_stay() {
    // Without these two nothing that was pushed would go again.
    let rights: Vec<_> = PLAIN
        .into_iter()
        .filter(|right| !["+del", "+pexpire"].contains(right))
        .collect();
    let server = with_rights(&[&rights[..], &MORE].concat());
    let report = report(&app(&server), &["--key", "order:"]);
    assert_eq!(report.code, Some(1));
    assert_empty(&server);
}

#[test]
fn a_command_that_is_not_there_is_told_from_a_right() {
    let server = Server::with(&["rename-command EVAL XEVAL"]);
    let report = report(&server.url(), &[]);
    assert_eq!(report.code, Some(1));
    report.says("unsafe rights: ", "there is no EVAL here");
}

#[test]
fn no_key_is_touched_but_its_own() {
    let server = healthy();
    let proxy = Proxy::to(&server);
    assert_eq!(report(&proxy.url(), &["--key", "order:1"]).code, Some(0));
    let mut writes = 0;
    for words in proxy.commands() {
        let key = match words[0].as_str() {
            "EVAL" | "EVALSHA" if words[2] == "0" => continue,
            "EVAL" | "EVALSHA" => &words[3],
            "SET" | "GET" | "DEL" | "PEXPIRE" | "PTTL" | "BLPOP" | "EXISTS" | "LPUSH" => &words[1],
            _ => continue,
        };
        assert!(key.starts_with("order:1:leasehold:doctor:"), "{words:?}");
        writes += 1;
    }
    assert!(5 < writes, "the proxy saw {writes} commands with a key");
}

#[test]
fn clocks_that_are_apart_are_warned_of() {
    let server = healthy();
    let proxy = Proxy::to(&server);
    proxy.answer("TIME", "*2\r\n$10\r\n1000000000\r\n$1\r\n0\r\n");
    let report = report(&proxy.url(), &[]);
    assert_eq!(report.code, Some(0));
    report.says("warning clock: ", "h behind ours");
}

#[test]
fn a_wrong_password_ends_with_69_and_is_not_repeated() {
    let server = Server::with(&["requirepass right"]);
    for url in [
        format!("redis://:hunter2@{}", server.addr()),
        format!("redis://app:hunter2@{}", server.addr()),
        format!("redis://hunter2@{}", server.addr()),
    ] {
        assert_away(&ran(&["doctor", "--url", &url]));
        assert_away(&ran(&["doctor", "--json", "--url", &url]));
    }
}

#[test]
fn a_password_is_shown_nowhere() {
    let server = Server::with(&["requirepass hunter2"]);
    for more in [&["--verbose"][..], &["--json"]] {
        let ran = ran(&[&["doctor", "--url", &server.url()], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"));
    }
    // Without a colon it is no password, and somebody will write it so all the same.
    let open = Server::with(&["user default on nopass ~order:* +@all -time"]);
    let url = format!("redis://hunter2@{}", open.addr());
    let ran = ran(&["doctor", "--verbose", "--url", &url]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("the user default lacks +time"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"));
}

#[test]
fn a_server_that_is_not_there_ends_with_69() {
    let server = Server::start();
    server.kill();
    for url in [server.url(), "unix:///no/such/socket".to_owned()] {
        assert_away(&ran(&["doctor", "--url", &url]));
    }
    let ran = ran(&["doctor", "--url", "http://127.0.0.1"]);
    assert_eq!(ran.code, Some(64), "{}", ran.err);
}

#[test]
fn a_server_that_hangs_ends_with_69_before_anybody_gives_up() {
    let server = healthy();
    server.stop();
    let begun = Instant::now();
    assert_away(&ran(&["doctor", "--url", &server.url()]));
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_server_that_stops_answering_in_the_middle_ends_with_69() {
    let server = healthy();
    let proxy = Proxy::to(&server);
    let reset = proxy.reset_before(Matcher::command("CONFIG").once());
    assert_away(&ran(&["doctor", "--url", &proxy.url()]));
    reset.wait();
    proxy.swallow(Matcher::command("CONFIG"));
    let begun = Instant::now();
    let ran = ran(&["doctor", "--url", &proxy.url()]);
    assert_away(&ran);
    assert!(ran.err.contains("timed out"), "{}", ran.err);
    assert!(begun.elapsed() < 2 * PATIENCE);
    proxy.heal();
    assert_empty(&server);
}

#[test]
fn a_unix_socket_is_looked_at_as_well() {
    let server = healthy();
    let report = report(&server.unix_url(), &[]);
    assert_eq!(report.code, Some(0));
    report.says("ok lock: ", "");
}
