//! A client with many threads leaves their share to others: to one further away, and to one that
//! polls as other libraries do.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::Lock;
use redis::Script;

use super::{AMPLE, KEY, let_pass, lock, ms};
use crate::support::{PATIENCE, Proxy, Server};
use crate::waiting::Aside;

/// The threads of the client that the others meet.
const THREADS: usize = 16;

const WATCHED: Duration = ms(3000);

const HOLDS: [Duration; 3] = [ms(0), ms(1), ms(10)];

/// The pause between two tries of redis-py's lock.
const POLLED: Duration = ms(100);

/// A directory with the Python package `redis`: its own lock is the one that polls then.
const REDIS_PY: &str = "LEASEHOLD_TEST_REDIS_PY";

const POLLS: &str = "
import sys, time
import redis
port, hold, watched = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
client = redis.Redis(port=port)
lock = client.lock(sys.argv[4], timeout=30)
client.ping()
taken, end = 0, time.monotonic() + watched
while time.monotonic() < end:
    if lock.acquire(blocking_timeout=max(end - time.monotonic(), 0)):
        if hold:
            time.sleep(hold)
        lock.release()
        taken += 1
        time.sleep(lock.sleep)
print(taken)
";

const RELEASES: &str = "
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then
        return 0
    end
    redis.call('del', KEYS[1])
    return 1
";

/// Takes the lock again and again until it is over; gives how often.
fn takes_it(lock: &Lock, hold: Duration, over: &AtomicBool) -> usize {
    let mut taken = 0;
    while !over.load(Ordering::Relaxed) {
        let lease = lock.acquire_timeout(AMPLE).unwrap();
        work(hold);
        lease.release().unwrap();
        taken += 1;
    }
    taken
}

fn work(hold: Duration) {
    if !hold.is_zero() {
        let_pass(hold);
    }
}

/// What `other` gets, and what the threads of one client get beside it.
fn beside_a_crowd(
    server: &Server,
    hold: Duration,
    other: impl FnOnce() -> usize,
) -> (usize, usize) {
    let over = Arc::new(AtomicBool::new(false));
    let shared = lock(&server.url());
    let crowd: Vec<_> = (0..THREADS)
        .map(|_| {
            let (lock, over) = (shared.clone(), Arc::clone(&over));
            Aside::start(move || takes_it(&lock, hold, &over))
        })
        .collect();
    let own = other();
    over.store(true, Ordering::Relaxed);
    (own, crowd.into_iter().map(Aside::value).sum())
}

/// Takes it again and again for so long; gives how often.
fn takes_it_for(lock: &Lock, hold: Duration, span: Duration) -> usize {
    let until = Instant::now() + span;
    let mut taken = 0;
    while Instant::now() < until {
        let lease = lock.acquire_timeout(AMPLE).unwrap();
        work(hold);
        lease.release().unwrap();
        taken += 1;
    }
    taken
}

#[test]
fn a_client_further_away_gets_its_share_beside_one_with_many_threads() {
    let server = Server::start();
    let mut shares = Vec::new();
    for hold in HOLDS {
        let proxy = Proxy::to(&server);
        let far = lock(&proxy.url());
        far.try_acquire().unwrap().unwrap().release().unwrap();
        proxy.delay_commands(ms(2));
        proxy.delay_replies(ms(2));
        let alone = takes_it_for(&far, hold, WATCHED / 10) * 10;
        let (own, others) = beside_a_crowd(&server, hold, || takes_it_for(&far, hold, WATCHED));
        // Nobody's share is more than he could use if he were alone.
        let fair = ((own + others) / (THREADS + 1)).min(alone);
        let share = own as f64 / fair as f64;
        println!(
            "holds of {hold:?}: {own} beside {others}, {alone} alone, {share:.2} of its share"
        );
        shares.push(share);
    }
    assert!(shares.iter().all(|share| 0.1 <= *share), "{shares:?}");
}

/// How often redis-py's lock is had.
fn polls(server: &Server, hold: Duration) -> usize {
    let Ok(directory) = std::env::var(REDIS_PY) else {
        return polls_like_it(server, hold);
    };
    let [hold, watched] = [hold, WATCHED].map(|span| span.as_secs_f64().to_string());
    let output = Command::new("python3")
        .env("PYTHONPATH", directory)
        .args([
            "-c",
            POLLS,
            &server.port().to_string(),
            &hold,
            &watched,
            KEY,
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = String::from_utf8(output.unwrap().stdout).unwrap();
    output.trim().parse().unwrap()
}

/// The loop of redis-py's `Lock`. Who has had it comes back after the same pause: what nobody is
/// woken by and is free only for a moment would be taken again and again by one who does not.
fn polls_like_it(server: &Server, hold: Duration) -> usize {
    let client = redis::Client::open(server.url()).unwrap();
    let mut link = client.get_connection_with_timeout(PATIENCE).unwrap();
    let release = Script::new(RELEASES);
    let until = Instant::now() + WATCHED;
    let (mut taken, mut tries) = (0, 0);
    while Instant::now() < until {
        tries += 1;
        let token = format!("a token of its own, {tries}");
        let mut set = redis::cmd("SET");
        set.arg(KEY).arg(&token).arg("NX").arg("PX").arg(30_000);
        if set.query::<Option<String>>(&mut link).unwrap().is_none() {
            let_pass(POLLED);
            continue;
        }
        work(hold);
        let released: i64 = release.key(KEY).arg(&token).invoke(&mut link).unwrap();
        assert_eq!(released, 1);
        taken += 1;
        let_pass(POLLED);
    }
    taken
}

#[test]
fn a_client_that_polls_gets_its_share_beside_one_with_many_threads() {
    let server = Server::start();
    let (mut shares, mut taken) = (Vec::new(), 0);
    for hold in HOLDS {
        let (own, others) = beside_a_crowd(&server, hold, || polls(&server, hold));
        // It looks so often, and one of so many looks would be the one to succeed if all drew lots.
        let looks = WATCHED.as_secs_f64() / (POLLED + hold).as_secs_f64();
        let share = own as f64 * (THREADS + 1) as f64 / looks;
        println!(
            "holds of {hold:?}: {own} beside {others} in {looks:.0} looks, {share:.2} of its share"
        );
        shares.push(share);
        taken += own;
    }
    assert!(shares.iter().all(|share| 0.1 <= *share), "{shares:?}");
    // Once a second the crowd leaves a pause that nobody misses who looks so often.
    let seconds = HOLDS.len() * WATCHED.as_secs() as usize;
    assert!(2 * seconds <= 3 * taken, "{taken} in {seconds} s");
}
