//! The links that many callers share, against a server in the test's own hands.
//!
//! What a caller is told is compared with what that server has seen: a reply is its own, a request
//! that was *not sent* never arrives, and *unknown* is said of nothing else.

mod any_way;
mod convoys;
mod endings;
mod peer;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redis::Value;

use self::peer::{Line, Peer, reply_to};
use super::{Bound, Class, Fault, MOST_ABOARD, Pool, Replies, Request, Route};
use crate::clock::{Clock, Time};
use crate::server::address::Address;
use crate::server::command::Batch;
use crate::server::link::Timeouts;
use crate::server::request::COURTESY;
use crate::server::siblings::Siblings;

/// Only a fault uses it up.
const PATIENCE: Duration = Duration::from_secs(10);

const PATIENT: Timeouts = Timeouts {
    connect: PATIENCE,
    command: PATIENCE,
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn pool_to(peer: &Peer, max_links: usize, timeouts: Timeouts) -> Arc<Pool> {
    let clock = Clock::default();
    let route = Route {
        address: Arc::new(Address::parse(&peer.url()).unwrap()),
        server: "the peer".into(),
        siblings: Arc::new(Siblings::new(clock.clone())),
        clock,
        timeouts,
        counters: Arc::default(),
    };
    Arc::new(Pool::new(route, max_links, max_links))
}

fn now() -> Time {
    Clock::default().now()
}

/// No time for a turn or for a reply beyond `span` from now.
fn ends_in(span: Duration) -> Bound {
    Bound::within(now(), span, Duration::ZERO)
}

/// Asks `condition` every millisecond until it holds.
#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let (clock, end) = (Clock::default(), now().plus(PATIENCE));
    let (nobody, never) = (Mutex::new(()), Condvar::new());
    while !condition() {
        assert!(clock.now() < end, "{what}: not so within {PATIENCE:?}");
        clock.park(&never, &mut nobody.lock(), clock.now().plus(ms(1)));
    }
}

/// A request that its reply can be told by: the server says the number back.
#[derive(Clone, Debug)]
struct Ask {
    number: u32,
    shape: Shape,
    /// So many bytes more.
    padding: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Answered with a text.
    Echo,
    /// Answered with a number.
    Count,
    /// With a question for the role before it.
    Role,
    /// With a courtesy behind it.
    Courteous,
    /// Answered as if it was taken.
    Set,
    /// Whoever reads its reply panics.
    Panic,
    /// Packing it panics.
    Unpackable,
}

impl Shape {
    /// The command of it that carries the number.
    const fn subject(self) -> &'static str {
        match self {
            Self::Echo | Self::Role | Self::Courteous | Self::Unpackable => "ECHO",
            Self::Count => "COUNT",
            Self::Set => "SET",
            Self::Panic => "PANIC",
        }
    }
}

impl Request for Ask {
    fn pack(&self, batch: &mut Batch) {
        let (number, padding) = (self.number.to_string(), "x".repeat(self.padding));
        let subject = self.shape.subject().as_bytes();
        match self.shape {
            Shape::Role => batch.push(&[b"ROLE"]),
            Shape::Unpackable => panic!("on purpose, while a request is packed"),
            _ => {}
        }
        if self.padding == 0 {
            batch.push(&[subject, number.as_bytes()]);
        } else {
            batch.push(&[subject, number.as_bytes(), padding.as_bytes()]);
        }
        if self.shape == Shape::Courteous {
            batch.push(&[b"SCRIPT", b"LOAD", number.as_bytes()]);
        }
    }

    fn commands(&self) -> &'static [&'static str] {
        match self.shape {
            Shape::Echo | Shape::Unpackable => &["ECHO"],
            Shape::Count => &["COUNT"],
            Shape::Role => &["ROLE", "ECHO"],
            Shape::Courteous => &["ECHO", COURTESY],
            Shape::Set => &["SET"],
            Shape::Panic => &["PANIC"],
        }
    }
}

const fn echo(number: u32) -> Ask {
    shaped(Shape::Echo, number)
}

const fn shaped(shape: Shape, number: u32) -> Ask {
    Ask {
        number,
        shape,
        padding: 0,
    }
}

/// The number that was said back.
fn number_in(ask: &Ask, replies: &mut Replies) -> Option<u32> {
    match replies.take(usize::from(ask.shape == Shape::Role)) {
        Value::BulkString(text) => String::from_utf8(text).unwrap().parse().ok(),
        Value::Int(number) => u32::try_from(number).ok(),
        _ => None,
    }
}

/// A caller on a thread of its own.
struct Caller {
    ask: Ask,
    outcome: Receiver<Result<Replies, Fault>>,
}

fn call(pool: &Arc<Pool>, ask: Ask, bound: Bound) -> Caller {
    let (told, outcome) = channel();
    let (pool, own) = (Arc::clone(pool), ask.clone());
    thread::spawn(move || {
        let outcome = pool.run(bound, &own);
        // All that is the pool's has been let go of by now.
        drop(pool);
        let _ = told.send(outcome);
    });
    Caller { ask, outcome }
}

impl Caller {
    #[track_caller]
    fn outcome(&self) -> Result<Replies, Fault> {
        match self.outcome.recv_timeout(PATIENCE) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => panic!("{:?} hangs", self.ask),
            Err(RecvTimeoutError::Disconnected) => panic!("{:?} panicked", self.ask),
        }
    }

    #[track_caller]
    fn is_answered(&self) {
        let mut replies = match self.outcome() {
            Ok(replies) => replies,
            Err(fault) => panic!("{:?}: {fault:?}", self.ask),
        };
        let said = number_in(&self.ask, &mut replies);
        assert_eq!(said, Some(self.ask.number), "{:?}", self.ask);
    }

    #[track_caller]
    fn fails(&self, class: Class) -> Fault {
        match self.outcome() {
            Ok(_) => panic!("{:?} was answered", self.ask),
            Err(fault) => {
                assert_eq!(fault.class, class, "{:?}: {fault:?}", self.ask);
                assert_eq!(fault.broken.is_some(), class == Class::Unknown);
                fault
            }
        }
    }

    #[track_caller]
    fn panics(&self) {
        let outcome = self.outcome.recv_timeout(PATIENCE);
        assert!(
            matches!(outcome, Err(RecvTimeoutError::Disconnected)),
            "{:?} did not panic",
            self.ask
        );
    }
}

fn in_line(pool: &Pool) -> usize {
    pool.state.lock().waiting.len()
}

/// Starts callers one after the other, each as soon as the one before stands in line.
#[track_caller]
fn line_up(pool: &Arc<Pool>, asks: impl IntoIterator<Item = (Ask, Bound)>) -> Vec<Caller> {
    let enter = |(ask, bound)| {
        let before = in_line(pool);
        let caller = call(pool, ask, bound);
        eventually("it stands in line", || before < in_line(pool));
        caller
    };
    asks.into_iter().map(enter).collect()
}

/// The same for plain requests without an end.
#[track_caller]
fn line_up_echoes(pool: &Arc<Pool>, numbers: impl IntoIterator<Item = u32>) -> Vec<Caller> {
    let asks = numbers
        .into_iter()
        .map(|number| (echo(number), Bound::NONE));
    line_up(pool, asks)
}

/// Nobody is at it any more: what exists lies idle, and nobody has been forgotten.
#[track_caller]
fn assert_at_rest(pool: &Pool) {
    eventually("everything is back", || {
        let state = pool.state.lock();
        state.open == state.idle.len() && state.opening == 0
    });
    let state = pool.state.lock();
    assert!(state.waiting.is_empty());
    assert!(state.open <= pool.max_links, "{} links", state.open);
}

fn reconnects(pool: &Pool) -> u64 {
    pool.route.counters.read().reconnects
}

/// What a connection's script waits for until the test says so, once for each time.
struct Gate(Mutex<Receiver<()>>);

fn gate() -> (Sender<()>, Gate) {
    let (open, gate) = channel();
    (open, Gate(Mutex::new(gate)))
}

impl Gate {
    fn pass(&self) {
        // A test that has failed has let go of the other end.
        let _ = self.0.lock().recv_timeout(2 * PATIENCE);
    }
}

/// A pool of one link to a server that answers the first request, number 1, when the gate is
/// opened, and does with those behind it what `then` says; with that first caller. All further
/// connections are served well.
fn gated(then: impl Fn(&mut Line, &Gate) + Send + Sync + 'static) -> Gated {
    gated_within(PATIENT, then)
}

type Gated = (Peer, Arc<Pool>, Sender<()>, Caller);

/// The same with other timeouts.
fn gated_within(
    timeouts: Timeouts,
    then: impl Fn(&mut Line, &Gate) + Send + Sync + 'static,
) -> Gated {
    let (open, gate) = gate();
    let peer = Peer::start(move |mut line| {
        if line.number == 1 {
            let words = line.hear().unwrap();
            gate.pass();
            line.say(&reply_to(&words));
            then(&mut line, &gate);
        }
        line.serve();
    });
    let pool = pool_to(&peer, 1, timeouts);
    let first = call(&pool, echo(1), Bound::NONE);
    peer.wait_for(1);
    (peer, pool, open, first)
}
