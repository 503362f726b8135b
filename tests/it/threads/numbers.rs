//! How many threads there are at most, whatever happens at once.

use std::time::Instant;

use leasehold::LeaseState;

use super::{CALL, LINGER, LINK, SLACK, WATCH, alone, count, names};
use crate::danger::{Gate, OpenedAtLast, ms, soon_in_danger};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::{client_with, take};

#[test]
fn a_thousand_leases_that_enter_danger_together_use_64_callback_threads_and_all_are_told() {
    alone(&[], || {
        let server = Server::start();
        let client = patient(&server.url());
        let gate = Gate::default();
        let opened = OpenedAtLast(gate.clone());
        let leases: Vec<_> = (0..1_000)
            .map(|own| {
                let gate = gate.clone();
                let lock = soon_in_danger(&client, &format!("order:{own}"));
                take(&lock.on_danger(move |_| gate.pass()).build().unwrap())
            })
            .collect();
        eventually("all are in danger", PATIENCE, || {
            let mut states = leases.iter().map(|lease| lease.state());
            states.all(|state| state == LeaseState::Danger)
        });
        eventually("64 callbacks block", PATIENCE, || gate.inside() == 64);
        // Longer than it takes to hand over all that is due.
        let end = Instant::now() + ms(200);
        eventually("a while later", PATIENCE, || {
            assert_eq!((gate.inside(), count(CALL)), (64, 64));
            end < Instant::now()
        });
        opened.0.open();
        eventually("all are told", PATIENCE, || {
            assert!(count(CALL) <= 64);
            gate.inside() == leases.len()
        });
        let told = Instant::now();
        eventually(
            "one thread is left for those that are held",
            PATIENCE,
            || count(CALL) == 1,
        );
        let took = told.elapsed();
        assert!(took < LINGER + SLACK, "{took:?}");
        assert_eq!(names(), [CALL, WATCH]);
        assert_eq!(gate.inside(), leases.len(), "each once");
        drop(leases);
    });
}

#[test]
fn at_most_two_threads_open_links_however_many_leases_wait_for_one() {
    alone(&[], || {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = client_with(&proxy.url(), ms(1_000));
        let leases: Vec<_> = (0..20)
            .map(|own| {
                let lock = client.lock(format!("order:{own}"));
                take(&lock.ttl(ms(1_000)).build().unwrap())
            })
            .collect();
        proxy.swallow_everything();
        let mut most = 0;
        eventually("all are lost", PATIENCE, || {
            if 2 < count(LINK) {
                // One that has said what became of its try may take a moment to end.
                eventually("not for long", SLACK, || count(LINK) <= 2);
            }
            most = most.max(count(LINK));
            leases.iter().all(|lease| !lease.is_held())
        });
        assert!(0 < most, "nobody has tried to open a link");
        leases.into_iter().for_each(|lease| drop(lease.detach()));
    });
}
