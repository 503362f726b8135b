//! Answers byte by byte.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use super::{A_MOMENT, Plain};
use crate::support::{Scripted, Server, Step};

#[test]
fn the_script_decides_over_every_byte_and_the_connections_end() {
    let server = Scripted::start(
        |connection, command| match (connection, command[0].as_str()) {
            (_, "SET") => Step::split("+OK\r\n", 2, A_MOMENT),
            (_, "GET") => Step::trickle("$-1\r\n", A_MOMENT),
            (_, "DEL") => Step::reply("garbage"),
            (1, "EVALSHA") => Step::Close,
            (_, "EVALSHA") => Step::Reset,
            (_, "WAIT") => Step::Nothing,
            _ => Step::Healthy,
        },
    );
    let mut client = Plain::to(server.addr());
    let start = Instant::now();
    assert_eq!(client.call(&["SET", "k", "v"]), "+OK\r\n");
    assert_eq!(client.call(&["GET", "k"]), "$-1\r\n");
    assert!(start.elapsed() >= 5 * A_MOMENT);
    client.send(&["WAIT", "1", "0"]);
    server.wait_for("WAIT", 1);
    assert!(client.hears_nothing());
    client.send(&["DEL", "k"]);
    let mut garbage = [0; 7];
    client
        .0
        .read_exact(&mut garbage)
        .expect("what the script says");
    assert_eq!(&garbage, b"garbage");
    client.send(&["EVALSHA"]);
    assert_eq!(client.ends_with(), ErrorKind::UnexpectedEof);
    let mut client = Plain::to(server.addr());
    client.send(&["EVALSHA"]);
    assert_eq!(client.ends_with(), ErrorKind::ConnectionReset);
    assert_eq!((server.count("EVALSHA"), server.connections()), (2, 2));
    assert_eq!(server.commands()[0], ["SET", "k", "v"]);
    assert_eq!(server.url(), format!("redis://{}", server.addr()));
}

#[test]
fn a_server_that_stops_reading_lets_the_client_write_until_the_buffers_are_full() {
    let server = Scripted::start(|_, _| Step::StopReading);
    let mut client = Plain::to(server.addr());
    client.send(&["PING"]);
    server.wait_for("PING", 1);
    client
        .0
        .set_write_timeout(Some(A_MOMENT))
        .expect("takes a timeout");
    let error = client
        .0
        .write_all(&[0; 32 << 20])
        .expect_err("32 MiB do not fit");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn the_healthy_answers_are_those_of_a_real_server() {
    let real = Server::start();
    let scripted = Scripted::start(|_, _| Step::Healthy);
    let (mut real, mut scripted) = (Plain::to(real.addr()), Plain::to(scripted.addr()));
    for words in [
        &["SELECT", "0"] as &[&str],
        &["PING"],
        &["ROLE"],
        &["CLIENT", "SETNAME", "x"],
    ] {
        assert_eq!(real.call(words), scripted.call(words), "{words:?}");
    }
    for length in [0, 1, 54, 55, 56, 63, 64, 119, 120, 200] {
        let script = format!("--{}", "x".repeat(length));
        let load = ["SCRIPT", "LOAD", &script];
        assert_eq!(real.call(&load), scripted.call(&load), "{load:?}");
    }
    for words in [&["HELLO", "2"] as &[&str], &["HELLO", "3"]] {
        let (real, scripted) = (real.call(words), scripted.call(words));
        assert_eq!(
            real.split_once('\n').map(|s| s.0),
            scripted.split_once('\n').map(|s| s.0)
        );
    }
    for client in [&mut real, &mut scripted] {
        let own = client.0.local_addr().expect("an address");
        assert!(
            client
                .call(&["CLIENT", "INFO"])
                .contains(&format!(" addr={own} "))
        );
        assert!(client.call(&["CLIENT", "ID"]).starts_with(':'));
    }
    assert_eq!(scripted.call(&["CLIENT", "KILL", "ID", "1"]), ":1\r\n");
    assert_eq!(scripted.call(&["AUTH", "x"]), "+OK\r\n");
}
