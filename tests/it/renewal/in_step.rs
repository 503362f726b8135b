//! Renewal and the end of a lease in step: once a holder has ended it, nothing more is sent for
//! it, and a renewal on its way holds the end up by no more than its bound.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, Lease, LeaseState, Lock};

use super::{KEY, count, is_of_a_holder, is_release, is_renewal, ms, renewal_of, throughout};
use crate::links::patient;
use crate::support::{Monitor, PATIENCE, Proxy, Script, Server, eventually, within};
use crate::wire::{SLACK, take};

/// How a holder ends its lease.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Release,
    Drop,
    /// Its token is given away; whoever it is given to takes the record over.
    Detach,
}

const ENDS: [End; 3] = [End::Release, End::Drop, End::Detach];

const THREADS: usize = 4;
const ROUNDS: usize = 125;
/// So many leases are taken, and then ended, one after the other.
const AT_A_TIME: usize = 20;

/// The bound on waiting for a renewal: a tenth of the least ttl.
const ATTEMPT: Duration = Duration::from_millis(15);

/// One cycle, as its holder saw it.
struct Cycle {
    token: String,
    /// Nothing went wrong that allows a renewal to be late: the end did not run into the bound on
    /// waiting for one, and none had gone unanswered before.
    undisturbed: bool,
}

#[test]
fn no_renewal_of_a_token_follows_its_end_in_ten_thousand_cycles_with_renewal_due_at_once() {
    let server = Server::start();
    let monitor = Monitor::on(&server);
    let client = patient(&server.url());
    let cycles: Vec<Cycle> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                scope.spawn({
                    let client = &client;
                    move || work(client, worker)
                })
            })
            .collect();
        let of = |worker: thread::ScopedJoinHandle<'_, _>| -> Vec<Cycle> { worker.join().unwrap() };
        workers.into_iter().flat_map(of).collect()
    });
    let commands = monitor.commands();
    let (mut renewed, mut followed) = (0, Vec::<&usize>::new());
    let mut ended = HashMap::<&str, usize>::new();
    let mut late = HashMap::<&str, usize>::new();
    for (at, words) in commands
        .iter()
        .enumerate()
        .filter(|(_, words)| is_of_a_holder(words))
    {
        let token = Script::called(words).unwrap().arguments[0].as_str();
        if !is_renewal(words) {
            ended.entry(token).or_insert(at);
        } else if ended.contains_key(token) {
            late.entry(token).or_insert(at);
        } else {
            renewed += 1;
        }
    }
    assert_eq!(cycles.len(), THREADS * ROUNDS * AT_A_TIME);
    for cycle in cycles.iter().filter(|cycle| cycle.undisturbed) {
        assert!(ended.contains_key(cycle.token.as_str()));
        followed.extend(late.get(cycle.token.as_str()));
    }
    let undisturbed = cycles.iter().filter(|cycle| cycle.undisturbed).count();
    println!(
        "{renewed} renewals, {undisturbed} cycles undisturbed, {} late",
        late.len()
    );
    assert_eq!(
        followed,
        Vec::<&usize>::new(),
        "renewals of tokens that had ended"
    );
    assert!(2_000 < renewed, "{renewed} renewals prove nothing");
    assert!(5_000 < undisturbed, "{undisturbed} cycles prove nothing");
    // What was adopted has been dropped as well.
    let stats = client.stats();
    assert_eq!(server.cmd(&["DBSIZE"]), redis::Value::Int(0), "{stats:?}");
}

fn work(client: &Client, worker: usize) -> Vec<Cycle> {
    let lock = |number: usize| -> Lock {
        let lock = client.lock(format!("order:{worker}:{number}")).ttl(ms(150));
        lock.renew_every(ATTEMPT).build().unwrap()
    };
    let locks: Vec<Lock> = (0..AT_A_TIME).map(lock).collect();
    let mut cycles = Vec::new();
    for round in 0..ROUNDS {
        let failed = client.stats().renewals_failed;
        let begun = Instant::now();
        let leases: Vec<Lease> = locks.iter().map(take).collect();
        // The first one's renewal is due at once, or is on its way.
        let until = begun + ATTEMPT + Duration::from_micros(400) * (round % 10) as u32;
        eventually("renewals are due", PATIENCE, || until <= Instant::now());
        for (number, lease) in leases.into_iter().enumerate() {
            let token = lease.token().expose().to_owned();
            let begun = Instant::now();
            end(lease, ENDS[(round + number) % 3], &locks[number]);
            let undisturbed = begun.elapsed() < ATTEMPT && client.stats().renewals_failed == failed;
            cycles.push(Cycle { token, undisturbed });
        }
    }
    cycles
}

fn end(lease: Lease, end: End, lock: &Lock) {
    match end {
        // The machine may be slower than the ttl.
        End::Release => assert!(lease.release().map_err(|error| error.is_lost()) != Err(false)),
        End::Drop => drop(lease),
        // So it may be too late to take it over, too.
        End::Detach => match lock.adopt(lease.detach()) {
            Ok(adopted) => drop(adopted),
            Err(error) => assert!(error.is_unavailable(), "{error:?}"),
        },
    }
}

/// A lease of 10 s whose renewal falls due each second and is waited for as long.
fn lease_of_10_s(client: &Client, key: &str) -> Lease {
    let lock = client.lock(key).ttl(Duration::from_secs(10));
    take(&lock.renew_every(ms(1_000)).build().unwrap())
}

#[test]
fn a_renewal_that_is_on_its_way_is_waited_for_before_the_record_is_deleted() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let monitor = Monitor::on(&server);
    let lease = lease_of_10_s(&patient(&proxy.url()), KEY);
    let watch = lease.watch();
    let held = proxy.hold(renewal_of(&lease).once());
    held.wait();
    let releasing = thread::spawn(move || lease.release());
    eventually("the release begins", PATIENCE, || {
        watch.state() == LeaseState::Released
    });
    throughout(ms(200), || {
        assert_eq!(
            count(&proxy.commands(), is_release),
            0,
            "it overtakes the renewal"
        );
    });
    assert!(held.deliver());
    within(PATIENCE, move || releasing.join().unwrap()).unwrap();
    let of_scripts = monitor.commands_of_scripts();
    let done: Vec<&str> = of_scripts.iter().map(|words| words[0].as_str()).collect();
    // The last one looks whether somebody waits.
    assert_eq!(done, ["GET", "PTTL", "PEXPIRE", "GET", "DEL", "GET"]);
}

#[test]
fn a_renewal_that_gets_no_answer_delays_the_end_by_its_bound_alone_and_nothing_follows() {
    let server = Server::start();
    thread::scope(|scope| {
        for (number, end) in ENDS.into_iter().enumerate() {
            for holds_reply in [false, true] {
                let (server, key) = (&server, format!("order:{number}:{holds_reply}"));
                scope.spawn(move || ends_in_time(server, &key, end, holds_reply));
            }
        }
    });
}

fn ends_in_time(server: &Server, key: &str, end: End, holds_reply: bool) {
    let proxy = Proxy::to(server);
    // It would wait for ten seconds for any reply of its own.
    let lease = lease_of_10_s(&patient(&proxy.url()), key);
    let token = lease.token().expose().to_owned();
    let watch = lease.watch();
    let held = if holds_reply {
        proxy.hold_reply(renewal_of(&lease))
    } else {
        proxy.hold(renewal_of(&lease))
    };
    held.wait();
    let sent = proxy.commands().len();
    // A tenth of the ttl.
    within(ms(1_000) + SLACK, move || match end {
        End::Release => lease.release().unwrap(),
        End::Drop => drop(lease),
        End::Detach => drop(lease.detach()),
    });
    let after_its_end = (end == End::Detach).then_some(token);
    assert_eq!(watch.state(), LeaseState::Released);
    assert_eq!(server.get(key), after_its_end);
    assert!(held.deliver());
    // As long as it would have taken until the next one.
    throughout(ms(1_200), || {
        let after = &proxy.commands()[sent..];
        assert_eq!(count(after, is_renewal), 0, "{end:?}");
    });
    assert_eq!(server.get(key), after_its_end);
    assert_eq!(watch.state(), LeaseState::Released);
}

#[test]
fn what_was_detached_is_not_renewed_any_more() {
    let server = Server::start();
    let monitor = Monitor::on(&server);
    let lock = patient(&server.url()).lock(KEY).ttl(ms(1_000));
    let lease = take(&lock.renew_every(ms(100)).build().unwrap());
    let watch = lease.watch();
    eventually("it is renewed", PATIENCE, || {
        0 < count(&monitor.commands(), is_renewal)
    });
    let token = lease.detach();
    monitor.clear();
    eventually("the record runs out", PATIENCE, || {
        server.get(KEY).is_none()
    });
    assert_eq!(count(&monitor.commands(), is_of_a_holder), 0, "{token:?}");
    assert_eq!(watch.state(), LeaseState::Released);
}
