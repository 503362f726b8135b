//! What a server really ran.

use std::os::unix::net::UnixStream;

use super::Plain;
use crate::support::{Monitor, Server};

#[test]
fn the_monitor_tells_clients_from_scripts_and_from_the_test_itself() {
    let server = Server::start();
    let mut client = Plain::to(server.addr());
    let mut local = Plain(UnixStream::connect(server.socket()).expect("connects"));
    let monitor = Monitor::on(&server);
    client.call(&["SET", "a", "tab\t \"and\" \\ é"]);
    local.call(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "a"]);
    server.cmd(&["GET", "of the test"]);
    let script = "return redis.call('GET', KEYS[1])";
    let expected = [
        vec!["SET", "a", "tab\t \"and\" \\ é"],
        vec!["EVAL", script, "1", "a"],
    ];
    assert_eq!(monitor.commands(), expected);
    assert_eq!(monitor.commands_of_scripts(), [["GET", "a"]]);
    assert!(
        monitor
            .lines()
            .iter()
            .any(|line| line.contains("of the test"))
    );
    monitor.clear();
    client.call(&["CONFIG", "GET", "port"]);
    client.call(&["ECHO", "word"]);
    assert_eq!((monitor.count("echo"), monitor.count("SET")), (1, 0));
}
