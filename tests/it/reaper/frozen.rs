//! Servers that stand still, or cannot be heard, while something is given back or taken.

use leasehold::Lease;

use super::{KEY, assert_deleted_long_before_its_ttl, brief, plain_and_fenced};
use crate::support::{Monitor, PATIENCE, Proxy, Server, eventually};
use crate::wire::{TIMEOUT, client_with, take};

/// Gives a lease back in vain: by its release and by its drop.
const WAYS: [fn(Lease); 2] = [
    |lease| {
        let error = lease.release().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
    },
    |lease| drop(lease),
];

#[test]
fn what_is_given_back_while_the_server_stands_still_is_deleted_when_it_wakes() {
    let server = Server::start();
    let client = brief(&server.url());
    for lock in plain_and_fenced(&client) {
        for give_back in WAYS {
            let lease = take(&lock.clone().build().unwrap());
            // On an open link the deletion would wait in the kernel for the server to wake.
            server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]);
            eventually("no link is open", PATIENCE, || server.clients().is_empty());
            server.stop();
            give_back(lease);
            server.cont();
            assert_deleted_long_before_its_ttl(&server);
        }
    }
}

#[test]
fn what_is_given_back_while_no_packet_comes_through_is_deleted_when_they_do() {
    let server = Server::start();
    for fenced in [0, 1] {
        for give_back in WAYS {
            let proxy = Proxy::to(&server);
            let client = brief(&proxy.url());
            let lock = plain_and_fenced(&client)[fenced].clone().build().unwrap();
            let lease = take(&lock);
            proxy.swallow_everything();
            give_back(lease);
            assert!(server.get(KEY).is_some(), "nothing has reached it");
            proxy.heal();
            assert_deleted_long_before_its_ttl(&server);
        }
    }
}

#[test]
fn what_was_taken_while_the_server_stood_still_is_deleted_when_it_wakes() {
    let server = Server::start();
    let client = client_with(&server.url(), TIMEOUT);
    for lock in plain_and_fenced(&client) {
        let lock = lock.build().unwrap();
        // The link is open, so that the command waits in the kernel.
        take(&lock).release().unwrap();
        let monitor = Monitor::on(&server);
        server.stop();
        let error = lock.try_acquire().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        server.cont();
        let was_run = |name: &str| {
            let (of_clients, of_scripts) = (monitor.commands(), monitor.commands_of_scripts());
            let mut all = of_clients.iter().chain(&of_scripts);
            all.any(|words| words[0] == name && words[1] == KEY)
        };
        // Fenced, it is a script that sets it.
        eventually("the command is run", PATIENCE, || was_run("SET"));
        eventually("its record is deleted", PATIENCE, || was_run("DEL"));
        assert_eq!(server.get(KEY), None);
        take(&lock).release().unwrap();
    }
}
