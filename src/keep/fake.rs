//! A record without a server, on a clock that a test moves by hand.

use std::sync::Arc;
use std::time::Duration;

use super::{Base, Options, Record, Renewal, Site, Terms};
use crate::clock::Time;
use crate::clock::fake::FakeClock;
use crate::server::{
    Acquired, Answer, Blocking, Bound, Broken, Courier, Entry, Fault, Keys, Seen, Target, Timeouts,
    Verbs, Waited, Wake,
};
use crate::stats::Counters;
use crate::token::Token;

/// Where the clock of a test stands at first.
pub(crate) const START: u64 = 1_000_000_000_000;

/// A record by itself never speaks to a server.
struct NoServer;

impl Verbs for NoServer {
    fn acquire(&self, _: Target<'_>, _: Bound) -> Result<Acquired, Fault> {
        unreachable!("a record does not acquire")
    }
    fn wait(&self, _: Target<'_>, _: Entry, _: Blocking, _: Bound) -> Result<Waited, Fault> {
        unreachable!("a record does not wait")
    }
    fn adopt(&self, _: Target<'_>, _: &Token, _: Bound) -> Result<Acquired, Fault> {
        unreachable!("a record does not adopt")
    }
    fn renew(&self, _: Target<'_>, _: Option<&Broken>, _: Bound) -> Result<Answer, Fault> {
        unreachable!("a record does not renew")
    }
    fn release(&self, _: Target<'_>, _: Option<&Broken>, _: Bound) -> Result<Answer, Fault> {
        unreachable!("a record does not release")
    }
    fn read(&self, _: &Keys, _: u64, _: Bound) -> Result<Option<Seen>, Fault> {
        unreachable!("a record does not read")
    }
    fn courier(&self, _: Wake) -> Box<dyn Courier> {
        unreachable!("a record sends nobody")
    }
    fn ping(&self, _: Bound) -> Result<Duration, Fault> {
        unreachable!("a record does not ping")
    }
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A lease with ttl 1 s (validity 988 ms) and danger 300 ms, sent at the start.
pub(crate) fn record(clock: &FakeClock, max_hold: Option<Duration>) -> Record {
    let options = Options {
        ttl: ms(1_000),
        renewal: Renewal::Off,
        danger: Some(ms(300)),
        max_hold,
    };
    let timeouts = Timeouts {
        connect: ms(1_000),
        command: ms(1_000),
    };
    let base = Base::new(
        Box::new(NoServer),
        "nowhere".to_owned(),
        clock.clock(),
        Arc::new(Counters::default()),
        timeouts,
    );
    let site = Arc::new(Site {
        base: Arc::new(base),
        terms: Terms::new(&options, ms(1_000)).unwrap(),
        keys: Keys::new("k".into()),
        label: None,
        fenced: false,
    });
    let sent = Time::from_nanos(START);
    let token = Token::fresh(None).unwrap();
    Record::new(&site, token, None, sent, sent, clock.now())
}
