//! Private servers.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use super::Plain;
use crate::support::children::{self, Child};
use crate::support::{PATIENCE, Proxy, Server, eventually};

#[test]
fn a_stopped_server_answers_when_it_runs_on() {
    let server = Server::start();
    let mut client = Plain::to(server.addr());
    server.stop();
    client.send(&["SET", "k", "v", "PX", "60000"]);
    assert!(client.hears_nothing());
    server.cont();
    assert_eq!(client.reply().expect("late, but there"), "+OK\r\n");
    assert!((1..=60_000).contains(&server.pttl("k")));
}

#[test]
fn a_restarted_server_comes_back_empty_on_its_port_and_its_socket() {
    let server = Server::start();
    server.cmd(&["SET", "k", "v"]);
    let mut client = Plain::to(server.addr());
    assert_eq!(client.call(&["PING"]), "+PONG\r\n");
    server.kill();
    client.reply().expect_err("the server is dead");
    let refusal = TcpStream::connect(server.addr()).expect_err("nobody listens");
    assert_eq!(refusal.kind(), ErrorKind::ConnectionRefused);
    server.restart();
    assert_eq!(server.get("k"), None);
    let mut local = Plain(UnixStream::connect(server.socket()).expect("connects"));
    assert_eq!(local.call(&["PING"]), "+PONG\r\n");
    assert!(
        server
            .unix_url()
            .ends_with(&server.socket().display().to_string())
    );
}

#[test]
fn a_server_comes_back_when_its_port_is_free_again() {
    let server = Server::start();
    server.kill();
    let squatter = TcpListener::bind(server.addr()).expect("the port is free");
    let log = directory_of(&server).join("log");
    let was_refused = || {
        let log = fs::read_to_string(&log);
        log.is_ok_and(|text| text.contains("Address already in use"))
    };
    thread::scope(|scope| {
        scope.spawn(|| server.restart());
        eventually("the server finds its port taken", PATIENCE, was_refused);
        drop(squatter);
    });
    server.cmd(&["PING"]);
}

#[test]
fn lines_of_configuration_are_obeyed() {
    let app = "user app on >secret ~order:* +set";
    let server = Server::with(&["requirepass word", app, "appendonly yes", "timeout 1"]);
    assert_eq!(
        server.url(),
        format!("redis://:word@127.0.0.1:{}", server.port())
    );
    assert!(server.unix_url().ends_with("/socket?pass=word"));
    assert_eq!(
        server.url_as("app", "x"),
        format!("redis://app:x@127.0.0.1:{}", server.port())
    );
    let proxy = Proxy::to(&server);
    assert_eq!(proxy.url(), format!("redis://:word@{}", proxy.addr()));
    assert_eq!(
        proxy.url_as("app", "x"),
        format!("redis://app:x@{}", proxy.addr())
    );
    let mut client = Plain::to(proxy.addr());
    assert!(client.call(&["GET", "k"]).starts_with("-NOAUTH"));
    assert_eq!(client.call(&["AUTH", "app", "secret"]), "+OK\r\n");
    assert!(client.call(&["GET", "order:1"]).starts_with("-NOPERM"));
    assert_eq!(client.call(&["SET", "order:1", "v"]), "+OK\r\n");
    server.restart();
    assert_eq!(
        server.get("order:1").as_deref(),
        Some("v"),
        "appendonly keeps it"
    );
    let error = server
        .try_cmd(&["LPUSH", "order:1", "v"])
        .expect_err("a wrong type");
    assert!(error.starts_with("WRONGTYPE"), "{error}");
}

#[test]
#[should_panic(expected = "no-such-line")]
fn a_line_that_the_server_does_not_know_is_told_with_its_log() {
    Server::with(&["no-such-line 1"]);
}

#[test]
fn a_server_and_its_directory_go_with_the_handle() {
    let server = Server::start();
    let (addr, directory) = (server.addr(), directory_of(&server));
    server.stop();
    drop(server);
    assert!(!directory.exists());
    TcpStream::connect(addr).expect_err("nobody listens");
}

#[test]
fn a_server_does_not_outlive_a_test_process_that_is_killed() {
    let mut child = Child::run("support::selftest::server::starts_a_server_in_a_child", &[]);
    let port: u16 = child.expect_line(PATIENCE).parse().expect("a port");
    let directory = PathBuf::from(child.expect_line(PATIENCE));
    assert!(directory.exists());
    assert!(!child.kill().success());
    eventually("its directory is gone", PATIENCE, || !directory.exists());
    eventually("nobody listens", PATIENCE, || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}

#[test]
fn a_missing_binary_is_told_with_the_way_to_install_it() {
    let role = "support::selftest::server::starts_a_server_in_a_child";
    let mut child = Child::run(role, &[("LEASEHOLD_TEST_REDIS", "/no/such/server")]);
    let said = child.expect_line(PATIENCE);
    assert!(
        said.contains("/no/such/server") && said.contains("apt install"),
        "{said}"
    );
    assert!(child.wait(PATIENCE).success());
}

#[test]
fn starts_a_server_in_a_child() {
    let Some(parent) = children::parent() else {
        return;
    };
    // The parent is told; the output of a run without faults should not look like one with.
    std::panic::set_hook(Box::new(|_| ()));
    match catch_unwind(Server::start) {
        Ok(server) => {
            parent.say(&server.port().to_string());
            parent.say(&directory_of(&server).display().to_string());
            parent.hear();
        }
        Err(panic) => parent.say(panic.downcast_ref::<String>().expect("a message")),
    }
}

fn directory_of(server: &Server) -> PathBuf {
    server
        .socket()
        .parent()
        .map(Path::to_path_buf)
        .expect("a directory")
}
