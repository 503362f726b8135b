//! Connections that are refused, that end too early, and that have ended unnoticed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use leasehold::{Client, Error, Lease};
use parking_lot::Mutex;

use super::{HASTE, NEARLY_HASTE, hasty, patient};
use crate::bad_input::{in_one_line, said};
use crate::support::children::{self, Child};
use crate::support::{Matcher, PATIENCE, Proxy, Scripted, Server, Step, eventually};
use crate::waiting::{Aside, SLACK};

fn acquire(client: &Client) -> Result<Option<Lease>, Error> {
    client.lock("order:1").build().unwrap().try_acquire()
}

/// A way to the server for `connections`, each with what becomes of the chunks of its commands
/// and of its replies: how much of one is passed on.
fn relay<C, R>(server: SocketAddr, connections: Vec<(C, R)>) -> String
where
    C: FnMut(&[u8]) -> usize + Send + 'static,
    R: FnMut(&[u8]) -> usize + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (commands, replies) in connections {
            let client = Arc::new(listener.accept().unwrap().0);
            let server = Arc::new(TcpStream::connect(server).unwrap());
            let (from, to) = (Arc::clone(&client), Arc::clone(&server));
            thread::spawn(move || pass(&from, &to, commands));
            thread::spawn(move || pass(&server, &client, replies));
        }
    });
    url
}

/// Passes bytes on for as long as whole chunks of them go through; then ends both connections.
fn pass(mut from: &TcpStream, mut to: &TcpStream, mut passed: impl FnMut(&[u8]) -> usize) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        let passed = passed(&chunk[..count]);
        if to.write_all(&chunk[..passed]).is_err() || passed < count {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn is_set(chunk: &[u8]) -> bool {
    chunk.windows(5).any(|word| word == b"SET\r\n")
}

/// Two connections to the server, the first of which ends in order when so many bytes of the
/// reply to its `SET` have gone through.
fn cut_after(bytes: usize, server: SocketAddr) -> String {
    let connections = (0..2).map(|number| {
        let seen = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&seen);
        let commands = move |chunk: &[u8]| {
            set.fetch_or(is_set(chunk) && number == 0, Ordering::SeqCst);
            chunk.len()
        };
        let mut left = bytes;
        let replies = move |chunk: &[u8]| {
            if !seen.load(Ordering::SeqCst) {
                return chunk.len();
            }
            let passed = left.min(chunk.len());
            left -= passed;
            passed
        };
        (commands, replies)
    });
    relay(server, connections.collect())
}

#[test]
fn a_connection_that_ends_before_or_within_the_reply_costs_no_lock() {
    for bytes in 0.."+OK\r\n".len() {
        let server = Server::start();
        let client = patient(&cut_after(bytes, server.addr()));
        let lease = acquire(&client).unwrap().expect("its command has run");
        assert_eq!(
            server.get("order:1").as_deref(),
            Some(lease.token().expose())
        );
        lease.release().unwrap();
        let stats = client.stats();
        assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (1, 0));
        assert_eq!(
            (stats.acquired, stats.released, stats.reconnects),
            (1, 1, 1)
        );
    }
}

#[test]
fn a_connection_that_is_reset_before_or_after_the_command_costs_no_lock() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    proxy.reset_after(Matcher::command("SET").once());
    let lease = acquire(&client).unwrap().expect("its command has run");
    assert_eq!(
        server.get("order:1").as_deref(),
        Some(lease.token().expose())
    );
    proxy.reset_after(Matcher::evalsha().once());
    lease.release().unwrap();
    assert_eq!(server.get("order:1"), None);

    // The same run of the server has no such connection any more: that is a barrier too, so
    // that what has not run is proven, and tried again.
    proxy.reset_before(Matcher::command("SET").once());
    acquire(&client).unwrap().unwrap().release().unwrap();
    let lease = acquire(&client).unwrap().unwrap();
    proxy.reset_before(Matcher::evalsha().once());
    lease.release().unwrap();
    assert_eq!(server.get("order:1"), None);
}

#[test]
fn a_scripted_end_in_place_of_the_reply_is_settled_on_another_link() {
    for ends in [|| Step::Close, || Step::Reset] {
        let server =
            Scripted::start(
                move |connection, command| match (connection, command[0].as_str()) {
                    (1, "SET") | (2, "EVALSHA") => ends(),
                    (_, "EVALSHA") => Step::reply(":1\r\n"),
                    _ => Step::Healthy,
                },
            );
        let lease = acquire(&patient(&server.url())).unwrap().unwrap();
        assert_eq!((server.connections(), server.count("SET")), (3, 1));
        // Killed once: the second try finds the barrier standing.
        assert_eq!(server.count("CLIENT KILL"), 1);
        lease.release().unwrap();
    }
}

#[test]
fn a_connection_that_the_server_ends_between_two_calls_costs_no_lock() {
    let server = Server::start();
    let client = patient(&server.url());
    for _ in 0..3 {
        let lease = acquire(&client).unwrap().unwrap();
        server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]);
        lease.release().unwrap();
        assert_eq!(server.get("order:1"), None);
        assert_eq!(client.stats().unknown_unresolved, 0);
    }
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_unavailable_after_the_connect_timeout() {
    let server = Scripted::start(|_, _| Step::Nothing);
    let client = Client::builder(&server.url())
        .connect_timeout(HASTE)
        .command_timeout(2 * PATIENCE)
        .build()
        .unwrap();
    let lock = client.lock("order:1").build().unwrap();
    let calls: [&dyn Fn() -> Option<Error>; 4] = [
        &|| lock.try_acquire().err(),
        &|| lock.acquire().err(),
        &|| client.ping().err(),
        &|| client.inspect("order:1").err(),
    ];
    for call in calls {
        let start = Instant::now();
        let error = call().unwrap();
        let took = start.elapsed();
        assert!(error.is_unavailable() && !error.is_unknown(), "{error:?}");
        said(&error);
        assert!(NEARLY_HASTE <= took && took < HASTE + SLACK, "{took:?}");
    }
    assert_eq!((server.count("SET"), server.count("EVALSHA")), (0, 0));
}

#[test]
fn a_server_that_closes_what_it_has_accepted_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = patient(&format!("redis://{}", listener.local_addr().unwrap()));
    thread::spawn(move || listener.incoming().for_each(drop));
    for error in [acquire(&client).unwrap_err(), client.ping().unwrap_err()] {
        assert!(error.is_unavailable() && !error.is_unknown(), "{error:?}");
        said(&error);
    }
}

#[test]
fn a_server_with_too_many_clients_is_unavailable_until_one_goes() {
    let server = Server::with(&["maxclients 3"]);
    let client = patient(&server.url());
    let others = [(); 3].map(|()| TcpStream::connect(server.addr()).unwrap());
    for error in [acquire(&client).unwrap_err(), client.ping().unwrap_err()] {
        assert!(error.is_unavailable(), "{error:?}");
        said(&error);
    }
    drop(others);
    let lock = client.lock("order:1").build().unwrap();
    lock.acquire_timeout(PATIENCE).unwrap().release().unwrap();

    // A real server may end the connection before its words are read; here they are.
    let full = Scripted::start(|_, _| Step::reply("-ERR max number of clients reached\r\n"));
    let error = acquire(&patient(&full.url())).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(
        in_one_line(&error).contains("max number of clients"),
        "{error:?}"
    );
    assert_eq!((full.count("SET"), full.connections()), (0, 1));
}

#[test]
fn a_server_that_is_loading_its_data_is_waited_for() {
    let is_ready = Arc::new(AtomicBool::new(false));
    let ready = Arc::clone(&is_ready);
    let server = Scripted::start(move |_, command| match command[0].as_str() {
        "SET" if ready.load(Ordering::SeqCst) => Step::reply("+OK\r\n"),
        "EVALSHA" if ready.load(Ordering::SeqCst) => Step::reply(":1\r\n"),
        _ if ready.load(Ordering::SeqCst) => Step::Healthy,
        _ => Step::reply("-LOADING Redis is loading the dataset in memory\r\n"),
    });
    let client = patient(&server.url());
    assert!(acquire(&client).unwrap_err().is_unavailable());
    let lock = client.lock("order:1").build().unwrap();
    let waiter = Aside::start(move || lock.acquire_timeout(PATIENCE));
    server.wait_for("SET", 3);
    is_ready.store(true, Ordering::SeqCst);
    waiter.value().unwrap().release().unwrap();
}

/// Nothing is read any more from the first bytes of the `SET` on, and there are more of them
/// than the buffers of both sides take.
#[test]
fn an_incomplete_command_has_not_been_sent() {
    let server = Server::start();
    let (until_here, end_of_test) = channel::<()>();
    let end_of_test = Arc::new(Mutex::new(end_of_test));
    let connections = (0..2).map(|_| {
        let end_of_test = Arc::clone(&end_of_test);
        let commands = move |chunk: &[u8]| {
            if is_set(chunk) {
                let _ = end_of_test.lock().recv();
            }
            chunk.len()
        };
        (commands, |chunk: &[u8]| chunk.len())
    });
    let client = hasty(&relay(server.addr(), connections.collect()));
    let lock = client.lock("x".repeat(32 << 20)).build().unwrap();
    let error = lock.try_acquire().unwrap_err();
    assert!(
        error.is_unavailable() && !error.is_unknown(),
        "it cannot run"
    );
    assert_eq!(client.stats().unknown_unresolved, 0);
    drop(until_here);
}

#[test]
fn a_link_that_idles_past_the_timeout_of_the_server_goes_unnoticed() {
    let server = Server::with(&["timeout 1"]);
    let client = patient(&server.url());
    let lease = acquire(&client).unwrap().unwrap();
    eventually("the server has closed the link", PATIENCE, || {
        server.clients().is_empty()
    });
    lease.release().unwrap();
    acquire(&client).unwrap().unwrap().release().unwrap();
    let stats = client.stats();
    assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (0, 0));
    assert_eq!(stats.reconnects, 1);
}

#[test]
fn a_server_that_was_killed_and_restarted_is_used_again_at_once() {
    let server = Server::start();
    for url in [server.url(), server.unix_url()] {
        let client = patient(&url);
        let lease = acquire(&client).unwrap().unwrap();
        server.restart();
        // Its record is gone with the server, and not by this release, even where the command
        // that would have told has been lost.
        let error = lease.release().unwrap_err();
        assert!(error.is_lost() || error.is_unknown(), "{error:?}");
        acquire(&client).unwrap().unwrap().release().unwrap();

        server.restart();
        match acquire(&client) {
            Ok(taken) => taken.expect("nobody else wants it").release().unwrap(),
            Err(error) => assert!(error.is_unknown() || error.is_unavailable(), "{error:?}"),
        }
        acquire(&client).unwrap().unwrap().release().unwrap();
        assert_eq!(server.get("order:1"), None);
    }
}

#[test]
fn links_that_ended_together_do_not_each_cost_a_call() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    // Four links: each of four calls is on its way at the same time.
    let held = proxy.hold(Matcher::command("SET").first(4));
    let calls: Vec<_> = (0..4)
        .map(|own| {
            let lock = client.lock(format!("order:{own}")).build().unwrap();
            Aside::start(move || lock.try_acquire())
        })
        .collect();
    eventually("four commands are on their way", PATIENCE, || {
        held.count() == 4
    });
    (0..4).for_each(|_| assert!(held.deliver()));
    for call in calls {
        call.value().unwrap().unwrap().release().unwrap();
    }
    assert_eq!(server.clients().len(), 4);
    proxy.reset_all();
    // The first one to be used tells of all: the next try is made on a new one.
    acquire(&client).unwrap().unwrap().release().unwrap();
    assert_eq!(proxy.connections(), 5);
    assert_eq!(client.stats().unknown_unresolved, 0);
}

/// A process that is stopped and goes on has its system calls interrupted where they have a
/// timeout, as by a signal handler.
#[test]
fn an_interrupted_read_goes_on() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let held = proxy.hold_reply(Matcher::command("SET").once());
    let role = "links::endings::takes_a_lock_while_it_is_interrupted";
    let mut child = Child::run(role, &[("URL", &proxy.url())]);
    held.wait();
    for _ in 0..5 {
        child.stop();
        child.cont();
    }
    assert!(held.deliver());
    assert_eq!(child.expect_line(PATIENCE), "taken with 0 unknown");
    assert_eq!(proxy.count("SET"), 1);
    assert!(child.wait(PATIENCE).success());
}

#[test]
fn takes_a_lock_while_it_is_interrupted() {
    let Some(parent) = children::parent() else {
        return;
    };
    let client = patient(&parent.var("URL"));
    let lease = acquire(&client).unwrap().unwrap();
    let stats = client.stats();
    let unknown = stats.unknown_resolved + stats.unknown_unresolved;
    parent.say(&format!("taken with {unknown} unknown"));
    lease.release().unwrap();
}
