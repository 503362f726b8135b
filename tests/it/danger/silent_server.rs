//! A server that falls silent: the holder is told in time all the same.

use std::time::Instant;

use leasehold::{Client, DangerCause, LeaseState, LossCause};

use super::{Gate, OpenedAtLast, SLACK, block, heard, ms, soon_in_danger};
use crate::support::{PATIENCE, Proxy, Server, eventually, logs};
use crate::wire::take;

/// How a server falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Stopped,
    /// Every packet is lost, and those of new connections too.
    Swallowed,
}

/// What goes on meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    None,
    /// 63 callbacks block, and one has panicked.
    BlockedAndPanicked,
}

/// Of so many tries one is enough to show that the loss is told before the record expires: the
/// margin between the two is 22 ms, which a starved machine uses up.
const TRIES: usize = 5;

fn told_before_the_record_expires(silence: Silence, others: Others) {
    let in_time = (0..TRIES).any(|_| is_told_before_the_record_expires(silence, others));
    assert!(in_time, "each of {TRIES} was told too late");
}

#[test]
fn danger_and_loss_are_told_before_the_record_expires_though_the_server_is_stopped() {
    told_before_the_record_expires(Silence::Stopped, Others::None);
}

#[test]
fn danger_and_loss_are_told_before_the_record_expires_though_every_packet_is_swallowed() {
    told_before_the_record_expires(Silence::Swallowed, Others::None);
}

#[test]
fn danger_and_loss_are_told_in_time_of_a_stopped_server_while_63_callbacks_block_and_one_panics() {
    told_before_the_record_expires(Silence::Stopped, Others::BlockedAndPanicked);
}

#[test]
fn danger_and_loss_are_told_in_time_of_lost_packets_while_63_callbacks_block_and_one_panics() {
    told_before_the_record_expires(Silence::Swallowed, Others::BlockedAndPanicked);
}

/// Whether both were told in time, the loss before the record could expire. What no starved
/// machine can spoil is asserted.
fn is_told_before_the_record_expires(silence: Silence, others: Others) -> bool {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let builder = Client::builder(&proxy.url()).connect_timeout(PATIENCE);
    let client = builder.command_timeout(ms(500)).build().unwrap();
    let gate = Gate::default();
    let opened = OpenedAtLast(gate.clone());
    let mut leases = Vec::new();
    if others == Others::BlockedAndPanicked {
        leases = block(&client, 63, &gate);
        let mark = logs::mark();
        let lock = soon_in_danger(&client, "panics").on_danger(|_| panic!("one of the test's own"));
        leases.push(take(&lock.build().unwrap()));
        eventually("the panic is logged", PATIENCE, || {
            logs::any_containing(mark, "has panicked")
        });
    }

    let danger = ms(1_000);
    let (lock, ear) = heard(client.lock("order:1").ttl(ms(2_000)).danger(danger));
    let lease = take(&lock.build().unwrap());
    eventually("it has been renewed", PATIENCE, || {
        0 < client.stats().renewals_ok
    });
    let renewals = client.stats().renewals_ok;
    let asked = Instant::now();
    let left = server.pttl("order:1");
    match silence {
        Silence::Stopped => server.stop(),
        Silence::Swallowed => proxy.swallow_everything(),
    }
    // The deadline lies between these two, if no confirmation was on its way.
    let (mut first, mut last) = (Instant::now(), Instant::now());
    eventually("a quiet moment to look at the clock", PATIENCE, || {
        let before = Instant::now();
        let remaining = lease.remaining();
        let after = Instant::now();
        (first, last) = (before + remaining, after + remaining);
        after - before < ms(2)
    });

    let told = [ear.next(), ear.next()];
    let renewed = client.stats().renewals_ok;
    let stats = client.stats();
    match silence {
        Silence::Stopped => server.cont(),
        Silence::Swallowed => proxy.heal(),
    }
    opened.0.open();
    assert_eq!(
        lease.state(),
        LeaseState::Lost,
        "whatever the server says now"
    );
    drop(lease);
    drop(leases);
    if renewed != renewals {
        // One came in behind the look at the record: it shows nothing.
        return false;
    }

    let (cause, remaining, why) = told[0].danger();
    assert_eq!(cause, DangerCause::Unconfirmed);
    assert!(why.is_some(), "renewals have failed before");
    assert!(!remaining.is_zero() && remaining <= danger);
    assert_eq!(told[1].lost(), LossCause::Expired);
    assert_eq!(told[1].state, LeaseState::Lost);
    assert_eq!((stats.lost, stats.danger > 0), (1, true));
    assert!(first - danger <= told[0].at, "not before it is so");
    assert!(first <= told[1].at, "not before it is so");

    // The server had yet to read the clock when it was asked, and it cuts off below 1 ms.
    let expiry = asked + ms(u64::try_from(left).unwrap());
    assert!(
        last < expiry,
        "the deadline is earlier than the server's own, whoever is late"
    );
    told[0].at < last - danger + SLACK && told[1].at < last + SLACK && told[1].at < expiry
}
