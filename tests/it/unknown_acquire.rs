//! Acquisitions whose outcome does not come back, or comes back too late.

mod late;
mod outage;
mod settled;
mod tainted;

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Canceller, Error, Lease, Lock};

use crate::support::{PATIENCE, within};
use crate::wire::{SLACK, TIMEOUT, settling};

const KEY: &str = "order:1";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The acquire family. The budget is for those that have one.
const FAMILY: [Acquire; 5] = [
    Acquire {
        call: |lock, _| lock.try_acquire().map(|lease| lease.expect("it is free")),
        has_budget: false,
    },
    Acquire {
        call: |lock, _| lock.acquire(),
        has_budget: false,
    },
    Acquire {
        call: |lock, budget| lock.acquire_timeout(budget),
        has_budget: true,
    },
    Acquire {
        call: |lock, _| {
            let lease = lock.acquire_cancellable(None, &Canceller::new())?;
            Ok(lease.expect("nobody has cancelled it"))
        },
        has_budget: false,
    },
    Acquire {
        call: |lock, budget| {
            let deadline = Some(Instant::now() + budget);
            let lease = lock.acquire_cancellable(deadline, &Canceller::new())?;
            Ok(lease.expect("nobody has cancelled it"))
        },
        has_budget: true,
    },
];

/// Where no server is in reach.
const BUDGET: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Acquire {
    call: fn(&Lock, Duration) -> Result<Lease, Error>,
    has_budget: bool,
}

impl Acquire {
    fn call(self, lock: &Lock) -> Result<Lease, Error> {
        (self.call)(lock, PATIENCE)
    }

    /// With timeouts of [`TIMEOUT`], and with [`BUDGET`].
    fn call_in_vain(self, lock: Lock) -> Error {
        let bound = if self.has_budget {
            BUDGET + TIMEOUT
        } else {
            TIMEOUT * 4
        };
        let outcome = within(bound + SLACK, move || (self.call)(&lock, BUDGET));
        outcome.expect_err("there is no server")
    }
}

/// A lock of a client that soon gives a reply up for lost, and settles it.
fn settling_lock(url: &str) -> Lock {
    settling(url).lock(KEY).build().unwrap()
}

/// Side by side, because each of them runs into its bound.
fn for_each_of_the_family(test: impl Fn(Acquire) + Sync) {
    thread::scope(|scope| {
        for acquire in FAMILY {
            let test = &test;
            scope.spawn(move || test(acquire));
        }
    });
}

#[track_caller]
fn assert_all_differ(records: &[String]) {
    let mut sorted = records.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), records.len(), "{records:?}");
}
