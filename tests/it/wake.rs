//! Wake-ups between processes, what they fall back to, and that nobody pays for another's wait.

mod budgets;
mod cut_off;
mod deaths;
mod fairness;
mod hand_over;
mod keys;
mod load;
mod lost;
mod refused;

use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease, Lock};
use log::Level;

use crate::links::patient;
use crate::support::{PATIENCE, Server, eventually, logs};
use crate::waiting::Aside;

const KEY: &str = "order:1";

const WAITING: &str = "order:1:leasehold:waiting";
const WAKE: &str = "order:1:leasehold:wake";
const FENCE: &str = "order:1:leasehold:fence";

/// A record like those of this crate, whose holder wakes whoever waits: he is waited for asleep.
const THEIRS: &str = "00112233445566778899aabbccddeeff00112233";

/// One of a client that only deletes: he is polled.
const FOREIGN: &str = "a foreign client's";

/// A budget that no test uses up.
const AMPLE: Duration = Duration::from_secs(60);

/// What a wait finds out by itself, without a wake-up.
const NOTICED: Duration = Duration::from_secs(1);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A lock of a client that is nobody else's.
fn lock(url: &str) -> Lock {
    lock_of(&patient(url))
}

fn lock_of(client: &Client) -> Lock {
    client.lock(KEY).build().unwrap()
}

/// Takes the lock, as somebody else.
fn hold(server: &Server) -> Lease {
    lock(&server.url()).acquire_timeout(PATIENCE).unwrap()
}

/// The clients that are asleep in `BLPOP`, by their lines of `CLIENT LIST`.
fn blocked(server: &Server) -> Vec<String> {
    let is_blocked = |line: &String| line.contains(" flags=b ") && line.contains(" cmd=blpop ");
    server.clients().into_iter().filter(is_blocked).collect()
}

#[track_caller]
fn wait_until_blocked(server: &Server, count: usize) {
    eventually("they are asleep", PATIENCE, || {
        blocked(server).len() == count
    });
}

/// The same, with what `CLIENT UNBLOCK` and `CLIENT KILL` call the one who is.
#[track_caller]
fn id_of_the_blocked(server: &Server) -> String {
    let mut id = None;
    eventually("somebody is asleep", PATIENCE, || {
        let line = blocked(server).pop();
        id = line.and_then(|line| {
            let first = line.split(' ').next()?.strip_prefix("id=")?;
            Some(first.to_owned())
        });
        id.is_some()
    });
    id.unwrap()
}

/// For work that takes so long, and for what must not happen meanwhile.
#[track_caller]
fn let_pass(span: Duration) {
    let until = Instant::now() + span;
    eventually("the time has passed", span + PATIENCE, || {
        until <= Instant::now()
    });
}

type Way = fn(&Lock) -> Result<Lease, Error>;

/// The two kinds of waits: one that ends with the server, and one that goes on without it.
const WAYS: [Way; 2] = [|lock| lock.acquire(), |lock| lock.acquire_timeout(AMPLE)];

/// Somebody who waits for [`KEY`] on a thread of its own, and what was logged there.
struct Waiter {
    client: Client,
    contended: u64,
    outcome: Aside<(Result<Lease, Error>, Vec<String>)>,
}

impl Waiter {
    fn start(client: &Client, way: Way) -> Self {
        Self::of(client, lock_of(client), way)
    }

    fn of(client: &Client, lock: Lock, way: Way) -> Self {
        let contended = client.stats().contended;
        let outcome = Aside::start(move || {
            let mark = logs::mark();
            let taken = way(&lock);
            (taken, warnings_of_this_thread(mark))
        });
        Self {
            client: client.clone(),
            contended,
            outcome,
        }
    }

    /// Returns when it has found the lock held more than once: it waits in earnest.
    #[track_caller]
    fn is_waiting(&self) {
        eventually("it waits", PATIENCE, || {
            self.contended + 2 <= self.client.stats().contended
        });
    }

    /// The lease, and the warnings before it.
    #[track_caller]
    fn lease(self) -> (Lease, Vec<String>) {
        let (taken, warnings) = self.outcome.value();
        (taken.unwrap(), warnings)
    }
}

/// What this thread has warned of since.
fn warnings_of_this_thread(mark: logs::Mark) -> Vec<String> {
    let records = logs::of_this_thread(mark).into_iter();
    records
        .filter(|record| record.level <= Level::Warn)
        .map(|record| record.text)
        .collect()
}
