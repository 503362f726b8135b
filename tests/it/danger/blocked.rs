//! Callbacks that block, panic, or are in each other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::{Client, LeaseState, LockBuilder, LossCause};
use parking_lot::Mutex;

use super::{Gate, OpenedAtLast, block, heard, ms, soon_in_danger};
use crate::links::patient;
use crate::support::{PATIENCE, Server, eventually, logs};
use crate::wire::take;

/// A lock whose lease is in danger after 89 ms and lost after 789.
fn brief(client: &Client) -> LockBuilder {
    let lock = client.lock("order:1").ttl(ms(799)).without_renewal();
    lock.danger(ms(700))
}

#[test]
fn a_callback_that_panics_is_logged_and_its_lease_is_told_of_the_loss_all_the_same() {
    let server = Server::start();
    let client = patient(&server.url());
    let mark = logs::mark();
    let (lock, ear) = heard(brief(&client));
    let lock = lock.on_danger(|_| panic!("one of the test's own"));
    let lease = take(&lock.build().unwrap());
    assert_eq!(ear.next().lost(), LossCause::Expired);
    eventually("the panic is logged", PATIENCE, || {
        let logged = logs::containing(mark, "has panicked");
        let mut logged = logged.iter();
        logged.any(|line| line.target == "leasehold::callback" && line.level == log::Level::Error)
    });
    drop(lease);
    assert_eq!(ear.rest().len(), 0);
}

#[test]
fn a_panic_whose_message_panics_when_it_is_dropped_ends_no_thread() {
    struct Spiteful;
    impl Drop for Spiteful {
        fn drop(&mut self) {
            panic!("one more of the test's own");
        }
    }
    let server = Server::start();
    let client = patient(&server.url());
    let (lock, ear) = heard(brief(&client));
    let lock = lock.on_danger(|_| std::panic::panic_any(Spiteful));
    let lease = take(&lock.build().unwrap());
    assert_eq!(ear.next().lost(), LossCause::Expired);
    drop(lease);
}

#[test]
fn a_danger_callback_that_blocks_does_not_hold_up_the_loss_of_its_own_lease() {
    let server = Server::start();
    let client = patient(&server.url());
    let gate = Gate::default();
    let _opened = OpenedAtLast(gate.clone());
    let (lock, ear) = heard(brief(&client));
    let begun = gate.clone();
    let lease = take(&lock.on_danger(move |_| begun.pass()).build().unwrap());
    let lost = ear.next();
    assert_eq!(lost.lost(), LossCause::Expired);
    assert_eq!(gate.inside(), 1, "danger has begun before it");
    drop(lease);
}

#[test]
fn more_callbacks_than_threads_wait_for_one_and_none_is_forgotten() {
    let server = Server::start();
    let client = patient(&server.url());
    let gate = Gate::default();
    let opened = OpenedAtLast(gate.clone());
    let blocked = block(&client, 64, &gate);
    let told = Arc::new(AtomicUsize::new(0));
    let leases: Vec<_> = (0..100)
        .map(|own| {
            let told = Arc::clone(&told);
            let lock = soon_in_danger(&client, &format!("waits:{own}"));
            let lock = lock.on_danger(move |_| {
                told.fetch_add(1, Ordering::SeqCst);
            });
            take(&lock.build().unwrap())
        })
        .collect();
    eventually("all are in danger", PATIENCE, || {
        let mut states = leases.iter().map(|lease| lease.state());
        states.all(|state| state == LeaseState::Danger)
    });
    assert_eq!(told.load(Ordering::SeqCst), 0, "64 threads and no more");
    opened.0.open();
    eventually("all are told", PATIENCE, || {
        told.load(Ordering::SeqCst) == leases.len()
    });
    drop((leases, blocked));
}

#[test]
fn of_every_lease_danger_begins_before_loss() {
    let server = Server::start();
    let client = patient(&server.url());
    let begun = Arc::new(Mutex::new(Vec::new()));
    let leases: Vec<_> = (0..50)
        .map(|own| {
            // In danger for 300 ms each: what is told begins in it, or the loss is told alone.
            let lock = client.lock(format!("order:{own}")).ttl(ms(900));
            let lock = lock.without_renewal();
            let (of_danger, of_loss) = (Arc::clone(&begun), Arc::clone(&begun));
            let lock = lock
                .on_danger(move |_| of_danger.lock().push((own, false)))
                .on_lost(move |_| of_loss.lock().push((own, true)));
            take(&lock.build().unwrap())
        })
        .collect();
    let lost = |begun: &[(usize, bool)]| begun.iter().filter(|(_, lost)| *lost).count();
    eventually("all are lost", PATIENCE, || {
        lost(&begun.lock()) == leases.len()
    });
    let begun = begun.lock();
    for own in 0..leases.len() {
        let told: Vec<_> = begun.iter().filter(|(whose, _)| *whose == own).collect();
        let told: Vec<_> = told.iter().map(|(_, lost)| *lost).collect();
        assert!(told == [false, true] || told == [true], "{own}: {told:?}");
    }
    assert!(leases.len() < begun.len(), "somebody was told of danger");
}

#[test]
fn what_one_clients_callbacks_do_is_no_matter_to_another_client() {
    let server = Server::start();
    let gate = Gate::default();
    let opened = OpenedAtLast(gate.clone());
    let busy = patient(&server.url());
    let blocked = block(&busy, 64, &gate);
    let client = patient(&server.url());
    let (lock, ear) = heard(brief(&client));
    let lease = take(&lock.build().unwrap());
    ear.next().danger();
    assert_eq!(ear.next().lost(), LossCause::Expired);
    opened.0.open();
    drop((lease, blocked));
}
