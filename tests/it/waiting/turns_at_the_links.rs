//! More threads than links: each gets its turn, and nobody spoils it for the others.

use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease, Lock};

use super::{Aside, SLACK, lock};
use crate::bad_input::said;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::acquisition;

#[test]
fn threads_without_a_link_wait_their_turn_and_all_of_them_get_it() {
    const THREADS: usize = 64;
    const CYCLES: usize = 5;
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = Client::builder(&proxy.url())
        .command_timeout(PATIENCE)
        .connect_timeout(PATIENCE)
        .max_links(2)
        .build()
        .unwrap();
    let cycle = |lock: &Lock| -> Result<(), Error> {
        let lease = lock.try_acquire()?.expect("the key is this thread's own");
        lease.verify()?;
        lease.release()
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|own| {
            let lock = client.lock(format!("order:{own}")).build().unwrap();
            Aside::start(move || (0..CYCLES).try_for_each(|_| cycle(&lock)))
        })
        .collect();
    for thread in threads {
        thread.value().unwrap();
    }
    assert!(proxy.connections() <= 2, "{}", proxy.connections());
    assert!(server.clients().len() <= 2, "{:?}", server.clients());
    let stats = client.stats();
    let cycles = (THREADS * CYCLES) as u64;
    assert_eq!((stats.acquired, stats.released), (cycles, cycles));
}

#[test]
fn a_thread_that_does_not_get_a_turn_in_time_has_sent_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = Client::builder(&proxy.url())
        .command_timeout(PATIENCE)
        .max_links(1)
        .build()
        .unwrap();
    client.ping().unwrap();
    let held = proxy.hold(Matcher::command("SET").with_arg("order:1").once());
    let first = lock(&client);
    let first = Aside::start(move || first.try_acquire());
    held.wait();
    let second = client.lock("order:2").build().unwrap();
    let budget = Duration::from_millis(50);
    let start = Instant::now();
    let error = second.acquire_timeout(budget).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    said(&error);
    assert!(budget <= start.elapsed() && start.elapsed() < budget + SLACK);
    assert!(held.deliver());
    first.value().unwrap().unwrap().release().unwrap();
    let keys = proxy.commands().concat();
    assert!(!keys.contains(&String::from("order:2")));
    second.acquire_timeout(PATIENCE).unwrap().release().unwrap();
}

#[test]
fn a_link_that_could_not_be_opened_takes_nobody_s_turn() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = Client::builder(&proxy.url()).max_links(2).build().unwrap();
    proxy.refuse_connections();
    for _ in 0..4 {
        let error = lock(&client).try_acquire().unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
    }
    proxy.heal();
    let closing = proxy.reset_before(Matcher::command("CLIENT INFO").first(4));
    for _ in 0..4 {
        assert!(lock(&client).try_acquire().unwrap_err().is_unavailable());
    }
    assert_eq!(closing.hits(), 4);
    lock(&client)
        .acquire_timeout(PATIENCE)
        .unwrap()
        .release()
        .unwrap();
}

#[test]
fn threads_that_are_refused_or_cut_off_do_not_spoil_the_links_of_the_others() {
    // With `+info` a release whose link a neighbour's reset has ended can be settled.
    let rights = "+set +eval +evalsha +get +del +pexpire +pttl +script +role +client +info";
    let server = Server::with(&[&format!("user app on >secret ~order:* {rights}")]);
    let proxy = Proxy::to(&server);
    proxy.reset_before(acquisition().with_arg("order:cut off"));
    let client = Client::builder(&proxy.url_as("app", "secret"))
        .connect_timeout(PATIENCE)
        .command_timeout(PATIENCE)
        .max_links(2)
        .max_waiting_links(1)
        .build()
        .unwrap();
    let threads: Vec<_> = (0..16)
        .map(|own| {
            let key = match own % 4 {
                0 => String::from("other:refused"),
                1 => String::from("order:cut off"),
                _ => format!("order:{own}"),
            };
            let lock = client.lock(key).ttl(Duration::from_secs(1)).build();
            let lock = lock.unwrap();
            Aside::start(move || {
                for _ in 0..5 {
                    match (own % 4, lock.acquire_timeout(Duration::from_millis(200))) {
                        // Refused, or without a turn in so short a time.
                        (0, outcome) => {
                            let error = outcome.unwrap_err();
                            assert!(error.is_refused() || error.is_unavailable(), "{error:?}");
                        }
                        (1, outcome) => {
                            let error = outcome.unwrap_err();
                            assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
                        }
                        // A neighbour's reset may cost this one its budget, not its link.
                        (_, Ok(lease)) => lease.release().unwrap(),
                        (_, Err(error)) => assert!(!error.is_refused(), "{error:?}"),
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.value();
    }
    // Every slot is free again: two at a time get a link, and nobody waits for ever.
    let after: Vec<_> = (0..8)
        .map(|own| {
            let lock = client.lock(format!("order:after {own}")).build().unwrap();
            Aside::start(move || lock.acquire_timeout(PATIENCE).and_then(Lease::release))
        })
        .collect();
    for thread in after {
        thread.value().unwrap();
    }
    let refused = client.lock("other:refused").build().unwrap();
    assert!(refused.acquire_timeout(PATIENCE).unwrap_err().is_refused());
    // The background has one of its own for as long as it reaps what was cut off: that is over
    // one ttl later, and its thread goes with its link.
    eventually(
        "at most two links are open, and one to wait on",
        PATIENCE,
        || server.clients().len() <= 3,
    );
}
