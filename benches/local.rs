//! What the library does between its system calls, without a server: tokens, packing,
//! decoding replies, deadlines.
//!
//! None of this is public, and none of it is going to be for a bench's sake. So the sources
//! themselves are compiled into this one, under the names that they know each other by: the
//! modules below are those of `src/lib.rs`, and a new one there is added here. The leaves of
//! `server`, which nothing outside that room may see, are included once more by themselves.
//!
//! Rejected: a hidden module or a feature that exposes them, because somebody would build
//! on it; benches inside `src`, because stable Rust has none.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "a bench uses a part of the sources that it includes, and exports nothing"
)]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a bench ends at the first thing that goes wrong"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "the leaves of `server` are included twice on purpose"
)]

pub use acquire::Canceller;
pub use client::{Client, ClientBuilder, Holder};
pub use error::Error;
pub use fence::{FenceGate, Stale};
pub use lease::{Lease, LeaseState, LeaseWatch};
pub use lock::{Lock, LockBuilder};
pub use notice::{Danger, DangerCause, Loss, LossCause};
pub use stats::Stats;
pub use token::Token;

#[macro_use]
#[path = "../src/said.rs"]
mod said;

#[path = "../src/client.rs"]
mod client;
#[path = "../src/lease.rs"]
mod lease;
#[path = "../src/lock/mod.rs"]
mod lock;
#[path = "../src/notice.rs"]
mod notice;

#[path = "../src/acquire/mod.rs"]
mod acquire;
#[path = "../src/keep/mod.rs"]
mod keep;
#[path = "../src/queue/mod.rs"]
mod queue;
#[path = "../src/server/mod.rs"]
mod server;

#[path = "../src/backoff.rs"]
mod backoff;
#[path = "../src/clock.rs"]
mod clock;
#[path = "../src/error/mod.rs"]
mod error;
#[path = "../src/fence.rs"]
mod fence;
#[path = "../src/fork.rs"]
mod fork;
#[path = "../src/stats.rs"]
mod stats;
#[path = "../src/threads.rs"]
mod threads;
#[path = "../src/token.rs"]
mod token;

#[path = "../src/server/command.rs"]
mod command;
#[path = "../src/server/reply.rs"]
mod reply;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

use clock::{Clock, Time};
use command::{Batch, Decimal};
use keep::{Base, Options, Record, Site, Terms};
use server::{Address, Keys, SingleServer, Timeouts};
use stats::Counters;

const KEY: &[u8] = b"order:123";
/// A SHA-1 in hexadecimal digits, as `EVALSHA` takes it; which one is no matter here.
const DIGEST: &[u8] = b"0123456789abcdef0123456789abcdef01234567";

criterion_group!(benches, tokens, packing, decoding, deadlines);
criterion_main!(benches);

fn tokens(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("token");
    group.bench_function("fresh", |bencher| bencher.iter(|| Token::fresh(None)));
    group.bench_function("fresh with a label", |bencher| {
        bencher.iter(|| Token::fresh(black_box(Some("a host, a job"))));
    });
    // The part of it that is the system's.
    group.bench_function("randomness alone", |bencher| {
        bencher.iter(|| {
            let mut random = [0_u8; 20];
            getrandom::fill(black_box(&mut random)).expect("the system has randomness");
            random
        });
    });
    let text = Token::fresh(None).expect("the system has randomness");
    group.bench_function("from text", |bencher| {
        bencher.iter(|| black_box(text.expose()).parse::<Token>());
    });
    group.finish();
}

fn packing(criterion: &mut Criterion) {
    let token = Token::fresh(None).expect("the system has randomness");
    let mut batch = Batch::default();
    let mut group = criterion.benchmark_group("pack");
    group.bench_function("SET", |bencher| {
        bencher.iter(|| {
            let ttl = Decimal::of(black_box(30_000));
            batch.clear();
            batch.push(black_box(&[
                &b"SET"[..],
                KEY,
                token.expose().as_bytes(),
                b"NX",
                b"PX",
                ttl.as_bytes(),
            ]));
            batch.bytes().len()
        });
    });
    group.bench_function("EVALSHA", |bencher| {
        bencher.iter(|| {
            let arguments = black_box([DIGEST, KEY, token.expose().as_bytes()]);
            batch.clear();
            batch.open(5);
            batch.argument(b"EVALSHA");
            batch.argument(arguments[0]);
            batch.argument(Decimal::of(1).as_bytes());
            batch.argument(arguments[1]);
            batch.argument(arguments[2]);
            batch.close();
            batch.bytes().len()
        });
    });
    group.finish();
}

fn decoding(criterion: &mut Criterion) {
    let read = [&b"*2\r\n$40\r\n"[..], DIGEST, &b"\r\n:29998\r\n"[..]].concat();
    let mut group = criterion.benchmark_group("decode");
    for (name, reply) in [
        ("OK", &b"+OK\r\n"[..]),
        ("nil", b"$-1\r\n"),
        ("integer", b":1\r\n"),
        ("fence", b":1764565200123456\r\n"),
        (
            "error",
            b"-READONLY You can't write against a read only replica.\r\n",
        ),
        ("record and time left", &read),
        ("half of a record", &read[..read.len() / 2]),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| reply::decode(black_box(reply)));
        });
    }
    group.finish();
}

fn deadlines(criterion: &mut Criterion) {
    let site = site();
    let sent = Time::from_nanos(1_000_000_000_000);
    let (now, later) = (
        sent.plus(Duration::from_micros(50)),
        sent.plus(Duration::from_secs(5)),
    );
    let lease = || {
        let token = Token::fresh(None).expect("the system has randomness");
        Record::new(&site, token, None, sent, sent, now)
    };
    let mut group = criterion.benchmark_group("deadline");
    group.bench_function("options checked", |bencher| {
        let options = Options::default();
        bencher.iter(|| Terms::new(black_box(&options), Duration::from_secs(1)));
    });
    group.bench_function("validity", |bencher| {
        bencher.iter(|| black_box(&site.terms).validity());
    });
    group.bench_function("new lease", |bencher| {
        bencher.iter_batched(
            || Token::fresh(None).expect("the system has randomness"),
            |token| Record::new(&site, token, None, sent, black_box(sent), now),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("standing", |bencher| {
        let record = lease();
        bencher.iter(|| record.standing(black_box(later)));
    });
    group.bench_function("confirmed", |bencher| {
        let record = lease();
        let mut at = later;
        bencher.iter(|| {
            // Each confirmation moves the deadline, as each renewal does.
            at = at.plus(Duration::from_nanos(1));
            record.confirm(black_box(at), at)
        });
    });
    group.bench_function("release begun", |bencher| {
        bencher.iter_batched(
            lease,
            |record| {
                let before = record.begin_release(black_box(later));
                (record, before)
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// A lock's place. Nothing listens there, and nothing is sent.
fn site() -> Arc<Site> {
    let timeouts = Timeouts {
        connect: Duration::from_secs(1),
        command: Duration::from_secs(1),
    };
    let (clock, counters) = (Clock::default(), Arc::<Counters>::default());
    let address = Address::parse("redis://127.0.0.1:1").expect("a URL");
    let server = SingleServer::new(
        address,
        clock.clone(),
        timeouts,
        (1, 0),
        Arc::clone(&counters),
    );
    let base = Base::new(
        Box::new(server),
        "nowhere".to_owned(),
        clock,
        counters,
        timeouts,
    );
    Arc::new(Site {
        base: Arc::new(base),
        keys: Keys::new("order:123".into()),
        terms: Terms::new(&Options::default(), timeouts.command).expect("the defaults go together"),
        label: None,
        fenced: false,
    })
}
