//! What is not told any more once a lease has been ended, and how a callback ends its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use leasehold::{Client, Lease, LeaseState, LossCause};
use parking_lot::Mutex;

use super::{Gate, OpenedAtLast, block, heard, ms, soon_in_danger};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually, within};
use crate::wire::take;

type Ending = fn(Lease);

const ENDINGS: [Ending; 3] = [
    |lease| drop(lease.release()),
    |lease| drop(lease),
    |lease| drop(lease.detach()),
];

#[test]
fn a_danger_that_waits_for_a_thread_is_not_told_of_a_lease_that_was_ended_meanwhile() {
    let server = Server::start();
    for (own, end) in ENDINGS.into_iter().enumerate() {
        let client = patient(&server.url());
        let gate = Gate::default();
        let opened = OpenedAtLast(gate.clone());
        let blocked = block(&client, 64, &gate);
        let (lock, ear) = heard(soon_in_danger(&client, &format!("order:{own}")));
        let lock = lock.build().unwrap();
        let lease = take(&lock);
        let before = client.stats().danger;
        eventually("it is in danger", PATIENCE, || {
            lease.state() == LeaseState::Danger && before < client.stats().danger
        });
        end(lease);
        opened.0.open();
        drop(lock);
        assert_eq!(ear.rest().len(), 0, "{own}");
        drop(blocked);
    }
}

#[test]
fn a_loss_that_waits_for_a_thread_is_not_told_of_a_lease_that_was_ended_meanwhile() {
    let server = Server::start();
    for (own, end) in ENDINGS.into_iter().enumerate() {
        let client = patient(&server.url());
        let gate = Gate::default();
        let opened = OpenedAtLast(gate.clone());
        let blocked = block(&client, 64, &gate);
        let lock = client.lock(format!("order:{own}")).ttl(ms(100));
        let (lock, ear) = heard(lock.without_renewal());
        let lock = lock.build().unwrap();
        let lease = take(&lock);
        eventually("it is lost", PATIENCE, || client.stats().lost == 1);
        end(lease);
        opened.0.open();
        drop(lock);
        assert_eq!(ear.rest().len(), 0, "{own}");
        drop(blocked);
    }
}

/// Many leases that are ended just when they come into danger, while their notices stand in line
/// for the one thread that is left: nothing is told of one whose end has returned.
#[test]
fn no_callback_starts_after_a_lease_was_ended_however_close_the_two_come() {
    let server = Server::start();
    // Replies that take a while: between the moment at which a callback is decided on and its
    // first statement no thread rests for that long, unless the machine is starved.
    let proxy = Proxy::to(&server);
    proxy.delay_replies(ms(4));
    let client = patient(&proxy.url());
    let gate = Gate::default();
    let opened = OpenedAtLast(gate.clone());
    let blocked = block(&client, 63, &gate);
    let (told, late): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
    thread::scope(|scope| {
        for thread in 0..6 {
            let (client, told, late) = (&client, &told, &late);
            scope.spawn(move || {
                for cycle in 0..30 {
                    end_in_danger(client, &format!("order:{thread}"), cycle, (told, late));
                }
            });
        }
    });
    opened.0.open();
    drop(blocked);
    let (told, late) = (told.load(Ordering::SeqCst), late.load(Ordering::SeqCst));
    assert!(10 < told, "only {told} were told at all");
    assert_eq!(late, 0, "of {told}");
}

/// Counts what is told, and what is told after the end of the lease has returned.
fn end_in_danger(
    client: &Client,
    key: &str,
    cycle: usize,
    (told, late): (&Arc<AtomicUsize>, &Arc<AtomicUsize>),
) {
    let ended = Arc::new(AtomicBool::new(false));
    let tell = {
        let (ended, told, late) = (Arc::clone(&ended), Arc::clone(told), Arc::clone(late));
        move || {
            late.fetch_add(usize::from(ended.load(Ordering::SeqCst)), Ordering::SeqCst);
            told.fetch_add(1, Ordering::SeqCst);
            // The others have to wait.
            Gate::default().pass_within(ms(12));
        }
    };
    let (of_danger, of_loss) = (tell.clone(), tell);
    // Valid for 57 ms, and in danger after 17.
    let lock = client
        .lock(key)
        .ttl(ms(60))
        .without_renewal()
        .danger(ms(40));
    let lock = lock
        .on_danger(move |_| of_danger())
        .on_lost(move |_| of_loss());
    let Ok(lease) = lock.build().unwrap().acquire_timeout(PATIENCE) else {
        // It had been in danger by the time it was confirmed.
        return;
    };
    lease.watch().wait_danger(PATIENCE);
    ENDINGS[cycle % 2](lease);
    ended.store(true, Ordering::SeqCst);
}

#[test]
fn a_callback_may_end_its_own_lease_in_every_way() {
    let server = Server::start();
    let client = patient(&server.url());
    for of_danger in [true, false] {
        for (own, end) in ENDINGS.into_iter().enumerate() {
            let slot: Arc<Mutex<Option<Lease>>> = Arc::default();
            let ended = Arc::new(AtomicBool::new(false));
            let act = {
                let (slot, ended) = (Arc::clone(&slot), Arc::clone(&ended));
                move || {
                    eventually("the lease is there", PATIENCE, || slot.lock().is_some());
                    let lease = slot.lock().take();
                    end(lease.unwrap());
                    ended.store(true, Ordering::SeqCst);
                }
            };
            let lock = client.lock("order:1").without_renewal();
            let lock = if of_danger {
                lock.ttl(ms(3_000))
                    .danger(ms(2_900))
                    .on_danger(move |_| act())
            } else {
                lock.ttl(ms(150)).on_lost(move |_| act())
            };
            let lease = take(&lock.build().unwrap());
            let watch = lease.watch();
            *slot.lock() = Some(lease);
            eventually("the callback comes back", PATIENCE, || {
                ended.load(Ordering::SeqCst)
            });
            let ending = if of_danger {
                LeaseState::Released
            } else {
                LeaseState::Lost
            };
            assert_eq!(watch.state(), ending, "{own}");
            // The token of a lost lease is given away as well, and its record is left alone.
            if of_danger || own < 2 {
                let stands = server.get("order:1").is_some();
                assert_eq!(stands, own == 2, "{own}");
            }
            server.cmd(&["DEL", "order:1"]);
        }
    }
}

#[test]
fn a_callback_may_drop_the_last_handle_to_its_client() {
    let server = Server::start();
    for of_danger in [true, false] {
        let client = patient(&server.url());
        let slot: Arc<Mutex<Option<(Client, Lease)>>> = Arc::default();
        let dropped = Arc::new(AtomicBool::new(false));
        let act = {
            let (slot, dropped) = (Arc::clone(&slot), Arc::clone(&dropped));
            move || {
                eventually("the client is there", PATIENCE, || slot.lock().is_some());
                let handles = slot.lock().take();
                drop(handles);
                dropped.store(true, Ordering::SeqCst);
            }
        };
        let lock = client.lock("order:1");
        let lock = if of_danger {
            // Renewed, so that the thread that renews is one of those that end.
            let lock = lock.ttl(ms(6_000)).danger(ms(1_500)).max_hold(ms(1_600));
            lock.on_danger(move |_| act())
        } else {
            lock.ttl(ms(150)).without_renewal().on_lost(move |_| act())
        };
        let lease = take(&lock.build().unwrap());
        *slot.lock() = Some((client, lease));
        eventually("the callback comes back", PATIENCE, || {
            dropped.load(Ordering::SeqCst)
        });
        assert_eq!(server.get("order:1"), None);
        eventually("all links are closed", PATIENCE, || {
            server.clients().is_empty()
        });
    }
}

#[test]
fn a_release_does_not_wait_for_a_callback_that_is_running() {
    let server = Server::start();
    let client = patient(&server.url());
    let gate = Gate::default();
    let _opened = OpenedAtLast(gate.clone());
    for (own, end) in ENDINGS.into_iter().enumerate() {
        let leases = block_one(&client, own, &gate);
        within(PATIENCE, move || end(leases));
    }
}

fn block_one(client: &Client, own: usize, gate: &Gate) -> Lease {
    let inner = gate.clone();
    let lock = soon_in_danger(client, &format!("order:{own}"));
    let lease = take(&lock.on_danger(move |_| inner.pass()).build().unwrap());
    eventually("its callback blocks", PATIENCE, || gate.inside() == own + 1);
    lease
}

#[test]
fn a_lease_that_is_released_in_time_is_told_nothing() {
    let server = Server::start();
    let client = patient(&server.url());
    let (lock, ear) = heard(client.lock("order:1").ttl(ms(6_000)).without_renewal());
    let lock = lock.build().unwrap();
    for end in ENDINGS {
        end(take(&lock));
        server.cmd(&["DEL", "order:1"]);
    }
    let lease = take(&lock);
    server.cmd(&["DEL", "order:1"]);
    assert!(lease.verify().unwrap_err().is_lost());
    assert_eq!(
        ear.next().lost(),
        LossCause::Vanished,
        "and nothing before it"
    );
    drop(lease);
    drop(lock);
    assert_eq!(ear.rest().len(), 0);
}
