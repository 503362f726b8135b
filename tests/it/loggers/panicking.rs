//! A logger that panics at every record: it costs nobody but itself.

use std::collections::BTreeSet;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use leasehold::{Client, LeaseState, LossCause};

use super::install;
use crate::danger::{heard, ms, soon_in_danger};
use crate::links::{hasty, patient};
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::threads::alone;
use crate::wire::take;

/// What the logger panics with.
struct OfTheLogger;

/// From here on every record panics; how many have.
fn panic_at_every_record() -> Arc<AtomicUsize> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<OfTheLogger>() {
            usual(panic);
        }
    }));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    install(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        panic::panic_any(OfTheLogger);
    });
    count
}

/// Waits until the logger has panicked once more.
fn panics_again(count: &AtomicUsize) {
    let before = count.load(Ordering::SeqCst);
    eventually("the logger panics", PATIENCE, || {
        before < count.load(Ordering::SeqCst)
    });
}

/// Waits until renewals are confirmed that had not been sent yet.
fn is_renewed(client: &Client) {
    let before = client.stats().renewals_ok;
    eventually("renewals go on", PATIENCE, || {
        before + 1 < client.stats().renewals_ok
    });
}

#[test]
fn leases_are_renewed_on_though_the_logger_panics_at_what_the_renewal_thread_says() {
    alone(&[], || {
        let panics = panic_at_every_record();
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = patient(&proxy.url());
        let lock = client.lock("order:1").ttl(ms(3_000)).renew_every(ms(400));
        let lease = take(&lock.build().unwrap());
        is_renewed(&client);
        for _ in 0..3 {
            let seen = panics.load(Ordering::SeqCst);
            server.cmd(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            is_renewed(&client);
            assert!(seen < panics.load(Ordering::SeqCst), "the log says so");
        }
        let busy = proxy.answer("EVALSHA", "-BUSY a script of the test's own\r\n");
        panics_again(&panics);
        busy.end();
        is_renewed(&client);
        assert_eq!(lease.state(), LeaseState::Held);
        lease.release().unwrap();
        assert_eq!(server.get("order:1"), None);
    });
}

#[test]
fn danger_and_loss_are_told_though_the_logger_panics_at_them() {
    alone(&[], || {
        let panics = panic_at_every_record();
        let server = Server::start();
        let client = Client::builder(&server.url()).connect_timeout(PATIENCE);
        let client = client.command_timeout(ms(200)).build().unwrap();
        let (lock, ear) = heard(client.lock("order:1").ttl(ms(2_000)).danger(ms(1_000)));
        let lease = take(&lock.build().unwrap());
        server.stop();
        let told = ear.next();
        let (_, _, why) = told.danger();
        assert!(why.is_some(), "renewals have failed before");
        assert_eq!(ear.next().lost(), LossCause::Expired);
        server.cont();
        assert!(0 < panics.load(Ordering::SeqCst));
        assert_eq!(client.stats().lost, 1);
        drop(lease);
        assert_eq!(ear.rest().len(), 0);
    });
}

#[test]
fn a_thread_that_unwinds_with_a_lease_in_hand_ends_no_process_though_the_logger_panics() {
    alone(&[], || {
        let panics = panic_at_every_record();
        let server = Server::start();
        let client = hasty(&server.url());
        let lease = take(&client.lock("order:1").build().unwrap());
        server.kill();
        let unwinding = thread::spawn(move || {
            let _lease = lease;
            panic::panic_any(OfTheLogger);
        });
        assert!(unwinding.join().is_err());
        assert!(0 < panics.load(Ordering::SeqCst), "the drop says so");
    });
}

#[test]
fn a_callback_thread_goes_on_though_the_logger_panics_at_what_it_says() {
    alone(&[], || {
        let panics = panic_at_every_record();
        let server = Server::start();
        let client = patient(&server.url());
        let (saying, said) = channel();
        let leases = (0..8).map(|own| {
            let saying = saying.clone();
            let lock = soon_in_danger(&client, &format!("order:{own}")).on_danger(move |_| {
                let _ = saying.send(rustix::thread::gettid());
                // Of which the log is told, where the logger panics in its turn.
                panic::panic_any(OfTheLogger);
            });
            let lease = take(&lock.build().unwrap());
            eventually("the logger panics", PATIENCE, || {
                panics.load(Ordering::SeqCst) == own + 1
            });
            lease
        });
        let leases: Vec<_> = leases.collect();
        let threads: BTreeSet<_> = said.try_iter().map(|id| id.as_raw_nonzero()).collect();
        // A second one where the first had yet to come back when the next lease was taken.
        assert!(threads.len() <= leases.len() / 2, "{threads:?}");
        for lease in leases {
            lease.release().unwrap();
        }
    });
}
