//! A network that is late, loses replies and breaks connections, under a crowd.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::iter::Sum;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, Lease};
use redis::Value;

use crate::support::{Faults, Matcher, Proxy, Server, eventually};
use crate::waiting::SLACK;

const THREADS: usize = 64;
const CYCLES: usize = 1_000;
const TTL: Duration = Duration::from_secs(4);

/// Every so manyth cycle is compared with what the server has.
const COMPARED: usize = 25;

/// What the calls of a thread have come to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    acquired: u64,
    contended: u64,
    released: u64,
    lost: u64,
    unknown: u64,
    unavailable: u64,
    compared: u64,
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, own| Self {
            acquired: sum.acquired + own.acquired,
            contended: sum.contended + own.contended,
            released: sum.released + own.released,
            lost: sum.lost + own.lost,
            unknown: sum.unknown + own.unknown,
            unavailable: sum.unavailable + own.unavailable,
            compared: sum.compared + own.compared,
        })
    }
}

/// So different that the reply of one is seen to be wrong for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Taken and released.
    Plain,
    /// The same with a fence, which is this key's own number.
    Fenced,
    /// Renewed and verified in between.
    Kept,
    /// Another's for ever: never taken.
    Foreign,
}

struct Cycles<'a> {
    server: &'a Server,
    client: &'a Client,
    key: String,
    kind: Kind,
    tally: Tally,
    last_fence: u64,
}

impl Cycles<'_> {
    fn run(mut self) -> Tally {
        let lock = self.client.lock(&*self.key).ttl(TTL);
        let lock = match self.kind {
            Kind::Fenced => lock.fenced(),
            _ => lock,
        };
        let lock = lock.build().unwrap();
        for cycle in 0..CYCLES {
            match lock.try_acquire() {
                Ok(Some(lease)) => self.hold(lease, cycle),
                Ok(None) => self.find_held(),
                Err(error) if error.is_unknown() => self.tally.unknown += 1,
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    self.tally.unavailable += 1;
                }
            }
        }
        self.tally
    }

    fn find_held(&mut self) {
        // What an unknown has left behind may stand in the way until it is reaped.
        assert!(
            self.kind == Kind::Foreign || 0 < self.tally.unknown,
            "{} is nobody else's",
            self.key
        );
        self.tally.contended += 1;
    }

    fn hold(&mut self, lease: Lease, cycle: usize) {
        assert_ne!(self.kind, Kind::Foreign, "{} is another's", self.key);
        self.tally.acquired += 1;
        let until = Instant::now() + lease.remaining();
        if self.kind == Kind::Fenced {
            let fence = lease.fence().unwrap();
            assert!(self.last_fence < fence, "{}", self.key);
            self.last_fence = fence;
        }
        if cycle.is_multiple_of(COMPARED) {
            self.compare(&lease);
        }
        if self.kind == Kind::Kept {
            for asked in [lease.renew(), lease.verify()] {
                let is_early = Instant::now() < until;
                let is_lost = asked.as_ref().is_err_and(leasehold::Error::is_lost);
                assert!(!(is_lost && is_early), "{}: {asked:?}", self.key);
            }
        }
        match lease.release() {
            Ok(()) => self.tally.released += 1,
            Err(error) if error.is_lost() => {
                assert!(until < Instant::now(), "{}: {error:?}", self.key);
                self.tally.lost += 1;
            }
            Err(error) => {
                assert!(error.is_unknown(), "{error:?}");
                self.tally.unknown += 1;
            }
        }
    }

    fn compare(&mut self, lease: &Lease) {
        let record = self.server.get(&self.key);
        let counter = self.server.get(&format!("{}:leasehold:fence", self.key));
        if lease.is_held() {
            // It was so when the server was asked, then.
            assert_eq!(record.as_deref(), Some(lease.token().expose()));
            let fence = lease.fence().map(|fence| fence.to_string());
            assert!(fence.is_none() || fence == counter, "{}", self.key);
            self.tally.compared += 1;
        }
    }
}

#[test]
fn everybody_in_a_crowd_gets_its_own_replies_or_an_honest_unknown() {
    let seed = RandomState::new().build_hasher().finish();
    println!("seed {seed}");
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let faults = Faults::seeded(seed).resets(0.0006).drop_replies(0.0003);
    let faults = faults.delays(0.003, Duration::from_millis(5));
    let faulty = proxy.random_faults(Matcher::any(), faults);
    let client = Client::builder(&proxy.url())
        .connect_timeout(Duration::from_millis(500))
        .command_timeout(Duration::from_millis(150))
        .build()
        .unwrap();
    let kinds = [Kind::Plain, Kind::Fenced, Kind::Kept, Kind::Foreign];
    let begun = Instant::now();
    let crowd: Tally = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|own| {
                let (kind, key) = (kinds[own % kinds.len()], format!("order:{own}"));
                if kind == Kind::Foreign {
                    server.cmd(&["SET", &key, "somebody else's"]);
                }
                let cycles = Cycles {
                    server: &server,
                    client: &client,
                    key,
                    kind,
                    tally: Tally::default(),
                    last_fence: 0,
                };
                scope.spawn(move || cycles.run())
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("see above"))
            .sum()
    });
    let took = begun.elapsed();
    let (stats, hits) = (client.stats(), faulty.hits());
    proxy.heal();
    println!("{hits} faults, {took:?}: {crowd:?}, {stats:?}");
    // Every call is one of these, and every lease has one end.
    let calls = crowd.acquired + crowd.contended + crowd.unavailable;
    let ends = crowd.released + crowd.lost;
    let unknown_ends = crowd.acquired - ends;
    assert_eq!(
        calls + crowd.unknown - unknown_ends,
        (THREADS * CYCLES) as u64
    );
    assert_eq!(stats.acquired, crowd.acquired);
    assert_eq!((stats.released, stats.lost), (crowd.released, crowd.lost));
    assert_eq!(stats.unknown_unresolved, crowd.unknown);
    // Faults have been met, and hardly ever cost anything: most are settled.
    assert!(50 < hits && 0 < stats.reconnects && 50 < stats.unknown_resolved);
    assert!(crowd.unknown < stats.unknown_resolved, "{stats:?}");
    assert!(500 < crowd.compared);
    let nearly_all = (THREADS * CYCLES * 3 / 4 * 9 / 10) as u64;
    assert!(nearly_all < crowd.acquired, "{crowd:?}");
    nothing_is_left(&server);
}

/// Reaped or expired, but gone.
#[track_caller]
fn nothing_is_left(server: &Server) {
    eventually("no lock is left", TTL + SLACK, || {
        let Value::Array(keys) = server.cmd(&["KEYS", "order:*"]) else {
            panic!("KEYS answers with a list");
        };
        let mut foreign = 0;
        let is_left = |key: &Value| {
            let Value::BulkString(key) = key else {
                return true;
            };
            let key = String::from_utf8_lossy(key).into_owned();
            let value = server.get(&key);
            let is_foreign = value.as_deref() == Some("somebody else's");
            foreign += usize::from(is_foreign);
            !is_foreign && !key.ends_with(":leasehold:fence") && value.is_some()
        };
        !keys.iter().any(is_left) && foreign == THREADS / 4
    });
}
