//! The network that fails on demand.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{A_MOMENT, Plain};
use crate::support::{Faults, Held, Matcher, PATIENCE, Proxy, RuleHandle, Server, eventually};

#[test]
fn a_command_and_its_reply_pass_where_no_rule_is_set() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let mut client = Plain::to(proxy.addr());
    assert_eq!(client.call(&["SET", "k", "a\r\nb"]), "+OK\r\n");
    assert_eq!(client.call(&["GET", "k"]), "$4\r\na\r\nb\r\n");
    assert_eq!(
        proxy.commands(),
        [vec!["SET", "k", "a\r\nb"], vec!["GET", "k"]]
    );
    assert_eq!((proxy.count("set"), proxy.connections()), (1, 1));
}

#[test]
fn a_held_command_reaches_the_server_after_its_client_has_gone() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let held: Held = proxy.hold(Matcher::command("SET").once());
    let mut client = Plain::to(proxy.addr());
    client.send(&["SET", "k", "v"]);
    assert_eq!(held.wait(), ["SET", "k", "v"]);
    drop(client);
    assert_eq!(server.clients().len(), 1, "the server's side stays open");
    assert_eq!(server.get("k"), None);
    assert!(held.deliver());
    assert_eq!(server.get("k").as_deref(), Some("v"));
    eventually("the server sees the end of it", PATIENCE, || {
        server.clients().is_empty()
    });
}

#[test]
fn a_held_command_is_never_run_once_the_server_has_killed_its_connection() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let held = proxy.hold("SET");
    let mut client = Plain::to(proxy.addr());
    let info = client.call(&["CLIENT", "INFO"]);
    let addr = info
        .split_once(" addr=")
        .and_then(|(_, rest)| rest.split(' ').next());
    client.send(&["SET", "k", "v"]);
    held.wait();
    let mut second = Plain::to(proxy.addr());
    assert_eq!(
        second.call(&["CLIENT", "KILL", "ADDR", addr.expect("an address")]),
        ":1\r\n"
    );
    assert_eq!(client.ends_with(), ErrorKind::UnexpectedEof);
    assert!(!held.deliver());
    assert_eq!(server.get("k"), None);
}

#[test]
fn what_follows_a_held_command_waits_behind_it() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let held = proxy.hold("SET");
    let mut client = Plain::to(proxy.addr());
    client.send(&["SET", "k", "1"]);
    client.send(&["INCR", "k"]);
    client.send(&["SET", "k", "7"]);
    held.wait();
    assert!(client.hears_nothing());
    held.send();
    assert_eq!(client.reply().expect("of SET"), "+OK\r\n");
    assert_eq!(client.reply().expect("of INCR"), ":2\r\n");
    held.wait();
    assert_eq!(held.count(), 1);
    held.end();
    held.discard();
    assert_eq!(client.call(&["GET", "k"]), "$1\r\n2\r\n");
    assert_eq!(client.call(&["SET", "k", "9"]), "+OK\r\n");
}

#[test]
fn a_held_reply_is_late_and_the_command_done() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let held = proxy.hold_reply(Matcher::command("INCR").first(2));
    proxy.answer("ECHO", "+of the proxy\r\n");
    let mut client = Plain::to(proxy.addr());
    client.send(&["INCR", "k"]);
    client.send(&["ECHO", "second"]);
    client.send(&["INCR", "k"]);
    assert_eq!(held.wait(), ["INCR", "k"]);
    eventually("what follows is run meanwhile", PATIENCE, || {
        server.get("k").as_deref() == Some("2")
    });
    assert!(client.hears_nothing());
    assert!(held.deliver());
    assert_eq!(client.reply().expect("the late one"), ":1\r\n");
    held.wait();
    held.discard();
    assert_eq!(client.reply().expect("of the proxy"), "+of the proxy\r\n");
}

#[test]
fn a_dropped_reply_leaves_the_command_done_and_no_other_reply_comes_behind_it() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let dropped: RuleHandle = proxy.drop_reply(Matcher::command("SET").with_arg("k").once());
    let mut client = Plain::to(proxy.addr());
    assert_eq!(client.call(&["SET", "other", "v"]), "+OK\r\n");
    client.send(&["SET", "k", "v"]);
    client.send(&["SET", "other", "w"]);
    dropped.wait();
    eventually("the commands are done", PATIENCE, || {
        server.get("k").is_some() && server.get("other").as_deref() == Some("w")
    });
    assert!(client.hears_nothing());
    let mut client = Plain::to(proxy.addr());
    assert_eq!(
        client.call(&["SET", "k", "w"]),
        "+OK\r\n",
        "once means once"
    );
    assert_eq!(dropped.hits(), 1);
}

#[test]
fn a_swallowed_command_is_not_done_nor_is_what_follows_and_the_connection_stays_open() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let rule = proxy.swallow(Matcher::evalsha().nth(2));
    let mut client = Plain::to(proxy.addr());
    let script = ["SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"];
    let sha = client.call(&script)[5..45].to_string();
    let evalsha = ["EVALSHA", sha.as_str(), "1", "k"];
    assert_eq!(client.call(&evalsha), ":1\r\n");
    client.send(&evalsha);
    client.send(&["SET", "k", "7"]);
    proxy.wait_for("SET", 1);
    assert!(client.hears_nothing());
    let mut client = Plain::to(proxy.addr());
    assert_eq!(client.call(&evalsha), ":2\r\n");
    assert_eq!(rule.hits(), 1);
}

#[test]
fn a_reset_comes_before_the_command_or_after_it() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.reset_before(Matcher::any_of(&["SET", "DEL"]).with_arg("before").first(2));
    proxy.reset_after(Matcher::when(|command| command[0] == "APPEND").once());
    let mut client = Plain::to(proxy.addr());
    client.send(&["SET", "before", "v"]);
    assert_eq!(client.ends_with(), ErrorKind::ConnectionReset);
    let mut client = Plain::to(proxy.addr());
    client.send(&["DEL", "before"]);
    assert_eq!(client.ends_with(), ErrorKind::ConnectionReset);
    let mut client = Plain::to(proxy.addr());
    client.send(&["APPEND", "after", "v"]);
    proxy.wait_for("APPEND", 1);
    assert_eq!(client.ends_with(), ErrorKind::ConnectionReset);
    assert_eq!(
        (server.get("before"), server.get("after").as_deref()),
        (None, Some("v"))
    );
}

#[test]
fn an_answer_of_the_proxy_takes_its_place_among_the_servers() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let refused = proxy.answer(Matcher::any().nth(2), "-NOPERM no rights\r\n");
    let mut client = Plain::to(proxy.addr());
    client.send(&["PING"]);
    client.send(&["SCRIPT", "LOAD", "return 1"]);
    client.send(&["ECHO", "last"]);
    assert_eq!(client.reply().expect("of the server"), "+PONG\r\n");
    assert_eq!(
        client.reply().expect("of the proxy"),
        "-NOPERM no rights\r\n"
    );
    assert_eq!(client.reply().expect("of the server"), "$4\r\nlast\r\n");
    refused.end();
    assert!(
        client
            .call(&["SCRIPT", "LOAD", "return 1"])
            .starts_with("$40")
    );
}

#[test]
fn in_the_silence_nothing_passes_and_nobody_is_told() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let mut old = Plain::to(proxy.addr());
    assert_eq!(old.call(&["PING"]), "+PONG\r\n");
    proxy.swallow_everything();
    let mut new = Plain::to(proxy.addr());
    old.send(&["SET", "k", "old"]);
    new.send(&["SET", "k", "new"]);
    proxy.wait_for("SET", 2);
    assert!(old.hears_nothing() && new.hears_nothing());
    drop((old, new));
    assert_eq!(server.get("k"), None);
    assert_eq!(
        server.clients().len(),
        1,
        "the server's side of the old connection"
    );
    proxy.heal();
    assert_eq!(Plain::to(proxy.addr()).call(&["PING"]), "+PONG\r\n");
}

#[test]
fn connections_are_refused_until_the_proxy_heals() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let mut open = Plain::to(proxy.addr());
    assert_eq!(open.call(&["PING"]), "+PONG\r\n");
    proxy.refuse_connections();
    let refusal = TcpStream::connect(proxy.addr()).expect_err("refused");
    assert_eq!(refusal.kind(), ErrorKind::ConnectionRefused);
    let taken = TcpListener::bind(proxy.addr()).expect_err("it stays the proxy's");
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    assert_eq!(open.call(&["PING"]), "+PONG\r\n", "the open one lives on");
    proxy.heal();
    assert_eq!(Plain::to(proxy.addr()).call(&["PING"]), "+PONG\r\n");
    proxy.reset_all();
    assert_eq!(open.ends_with(), ErrorKind::ConnectionReset);
}

#[test]
fn replies_come_in_pieces_and_late() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let mut client = Plain::to(proxy.addr());
    let mut takes = |least: u64| {
        let start = Instant::now();
        assert_eq!(client.call(&["PING"]), "+PONG\r\n");
        assert!(
            start.elapsed() >= Duration::from_millis(least),
            "{:?}",
            start.elapsed()
        );
    };
    proxy.trickle_replies(1, A_MOMENT);
    takes(6 * 5);
    proxy.split_replies_at(&[1, 6], A_MOMENT);
    takes(2 * 5);
    proxy.heal();
    proxy.delay_commands(A_MOMENT);
    proxy.delay_replies(A_MOMENT);
    takes(2 * 5);
}

#[test]
fn a_reply_that_is_delayed_at_random_comes_and_what_follows_waits_behind_it() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let late = proxy.random_faults("INCR", Faults::seeded(2).delays(1.0, PATIENCE / 100));
    let mut client = Plain::to(proxy.addr());
    for turn in 1..=3 {
        client.send(&["INCR", "k"]);
        client.send(&["ECHO", "behind"]);
        assert_eq!(client.reply().expect("late"), format!(":{turn}\r\n"));
        assert_eq!(client.reply().expect("behind"), "$6\r\nbehind\r\n");
    }
    assert_eq!(late.hits(), 3);
}

#[test]
fn random_faults_are_the_same_for_the_same_seed() {
    let server = Server::start();
    let play = |faults: Faults| {
        let proxy = Proxy::to(&server);
        let rule = proxy.random_faults("SET", faults);
        let mut client = Plain::to(proxy.addr());
        let turns = (1..=40).map(|turn| {
            let hits = rule.hits();
            client.send(&["SET", "k", "v"]);
            // Decided on when it is counted.
            proxy.wait_for("SET", turn);
            let is_hit = hits < rule.hits();
            if is_hit {
                client = Plain::to(proxy.addr());
            } else {
                assert_eq!(client.reply().expect("of SET"), "+OK\r\n");
            }
            is_hit
        });
        turns.collect::<Vec<_>>()
    };
    let faults = Faults::seeded(7).drop_replies(0.3).resets(0.2);
    let hits = play(faults.clone());
    assert_eq!(hits, play(faults));
    assert!(hits.contains(&true) && hits.contains(&false), "{hits:?}");
}

#[test]
fn random_faults_are_dropped_replies_or_resets() {
    let server = Server::start();
    let (proxy, mut dropped) = faulty(&server, Faults::seeded(7).drop_replies(1.0));
    dropped.send(&["SET", "k", "v"]);
    proxy.wait_for("SET", 1);
    eventually("it is done", PATIENCE, || server.get("k").is_some());
    assert!(dropped.hears_nothing());
    let (_proxy, mut reset) = faulty(&server, Faults::seeded(7).resets(1.0));
    reset.send(&["SET", "k", "v"]);
    assert_eq!(reset.ends_with(), ErrorKind::ConnectionReset);
}

fn faulty(server: &Server, faults: Faults) -> (Proxy, Plain) {
    let proxy = Proxy::to(server);
    proxy.random_faults("SET", faults);
    let client = Plain::to(proxy.addr());
    (proxy, client)
}
