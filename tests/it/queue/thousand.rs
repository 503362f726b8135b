//! A thousand who wait for one key.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{KEY, is_asleep};
use crate::links::patient;
use crate::support::{Monitor, PATIENCE, Server, eventually};
use crate::wire::take;

const CROWD: usize = 1_000;

/// More than all of them need together on a slow machine.
const BUDGET: Duration = Duration::from_secs(60);

#[test]
fn a_thousand_waiters_get_the_lock_in_their_order_and_within_their_budgets() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).build().unwrap();
    let holder = take(&lock);
    let order = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..CROWD)
        .map(|number| {
            let (lock, order) = (lock.clone(), Arc::clone(&order));
            let (tell, told) = channel();
            let work = move || {
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero());
                let begun = Instant::now();
                let lease = lock.acquire_timeout(BUDGET).unwrap();
                order.lock().push(number);
                assert!(begun.elapsed() < BUDGET);
                lease.release().unwrap();
            };
            // A thousand stacks of the usual size are more than a small machine has.
            let thread = thread::Builder::new().stack_size(256 * 1024);
            let thread = thread.spawn(work).unwrap();
            let id = told.recv_timeout(PATIENCE).unwrap();
            let mut asleep = 0;
            eventually("it waits", PATIENCE, || {
                asleep = if is_asleep(id.get()) { asleep + 1 } else { 0 };
                2 <= asleep
            });
            thread
        })
        .collect();
    let monitor = Monitor::on(&server);
    holder.release().unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*order.lock(), (0..CROWD).collect::<Vec<_>>());
    let stats = client.stats();
    let all = CROWD as u64 + 1;
    assert_eq!((stats.acquired, stats.released), (all, all));
    assert_eq!((stats.timed_out, stats.lost), (0, 0));
    let sent = monitor.commands().len();
    println!("{sent} commands for {CROWD} acquisitions");
    // Without handing it on, they are two for each.
    assert!(sent * 2 < CROWD * 3, "{sent} commands for {CROWD}");
    assert_eq!(server.get(KEY), None);
}
