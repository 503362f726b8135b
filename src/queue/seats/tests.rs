//! The queue on a clock that a test moves by hand.

mod limits;
mod orders;
mod threads;
mod turns;

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::clock::fake::FakeClock;

const KEY: &str = "k";

/// No lease, no server: a claim is a number, and what is handed over is another one.
type Numbers = Queue<u32, u32>;

/// A lease that ends when a test says so.
struct Lease {
    ends: AtomicU64,
}

impl Tenancy for Lease {
    fn ends(&self) -> Time {
        Time::from_nanos(self.ends.load(Ordering::SeqCst))
    }
}

/// One key of one client, and whoever holds it.
struct Scene {
    clock: FakeClock,
    queue: Arc<Numbers>,
    key: Arc<str>,
    /// The lease that was taken last.
    lease: Arc<Lease>,
    number: u64,
}

impl Scene {
    /// Nobody holds the key, nobody waits.
    fn empty() -> Self {
        let clock = FakeClock::at(1_000_000_000_000);
        let ends = AtomicU64::new(0);
        Self {
            queue: Arc::new(Queue::new(clock.clock())),
            clock,
            key: KEY.into(),
            lease: Arc::new(Lease { ends }),
            number: 0,
        }
    }

    /// The key is held here for a minute.
    fn held() -> Self {
        let mut scene = Self::empty();
        scene.take(Duration::from_secs(60));
        scene
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// A lease for so long, of a number of its own.
    fn next_lease(&mut self, span: Duration) -> (u64, Weak<dyn Tenancy>) {
        self.number += 1;
        let ends = AtomicU64::new(self.now().plus(span).as_nanos());
        self.lease = Arc::new(Lease { ends });
        let tenancy: Weak<Lease> = Arc::downgrade(&self.lease);
        (self.number, tenancy)
    }

    /// Somebody has taken the lock from the server.
    fn take(&mut self, span: Duration) {
        let (number, tenancy) = self.next_lease(span);
        self.queue.occupy(&self.key, number, tenancy);
    }

    fn sit(&self, claim: u32) -> Arc<Seat<u32, u32>> {
        self.queue.sit(&self.key, claim, false, false)
    }

    /// What a waiter finds who has no time left.
    fn look(&self, seat: &Arc<Seat<u32, u32>>) -> Came<u32> {
        let times = (self.now(), Duration::ZERO);
        self.queue.wait(&self.key, seat, times, || false)
    }

    /// The holder promises the lock to whoever is in front.
    fn promise(&self) -> Option<Arc<Seat<u32, u32>>> {
        let leaves_by = self.now().plus(Duration::from_secs(1));
        self.queue.depart(&self.key, self.number, leaves_by, true)
    }

    /// The holder keeps its promise. The heir's lease is for a minute.
    fn hand(&mut self, heir: &Seat<u32, u32>, handed: u32) -> Result<(), u32> {
        let tenancy = self.next_lease(Duration::from_secs(60));
        self.queue.hand(&self.key, heir, tenancy, handed)
    }

    /// The holder has given the lock back.
    fn vacate(&self, others_wait: bool) {
        self.queue.vacate(&self.key, self.number, others_wait);
    }

    fn let_go(&self) {
        self.queue.let_go(&self.key);
    }

    /// Whether anything is kept of any key.
    fn is_kept(&self) -> bool {
        !self.queue.state.lock().places.is_empty()
    }
}

/// How a turn begins that was given; anything else fails the test.
#[track_caller]
fn turn(came: Came<u32>) -> Start {
    match came {
        Came::Turn(start) => start,
        Came::Handed(handed) => panic!("it was handed {handed}"),
        Came::Away(cause) => panic!("no server: {cause}"),
        Came::LeftInDoubt | Came::Over(_) => panic!("it has no turn"),
    }
}

/// It waits, but only until now.
#[track_caller]
fn assert_over(came: Came<u32>) {
    assert!(matches!(came, Came::Over(Word::Held | Word::Unheard)));
}

fn away() -> Cause {
    Cause::Away {
        server: String::from("nowhere"),
    }
}
