//! Two processes that hand locks on to each other.

use std::cell::RefCell;
use std::time::Duration;

use super::bare::{Bare, Token};
use super::clock::{now, rest_until};
use super::contender::{Contender, Way};
use super::patience::wait_until;
use super::ratio::{Comparison, Size, compare};
use super::wake::Baton;

pub(crate) struct Pair {
    contenders: [Contender; 2],
    /// Which of the two holds leasehold's lock, and which the bare one.
    leasehold: usize,
    bare: usize,
    control: Bare,
    /// For leasehold's lock.
    pub(crate) waits: u64,
    /// Those that were in `BLPOP` when the lock was handed on.
    pub(crate) blocked: u64,
}

impl Pair {
    /// The first one holds both locks, which nobody may have had before: whoever ends leaves them
    /// held.
    pub(crate) fn start(url: &str, key: &str) -> Result<Self, String> {
        let control = Bare::connect(url, "bench:control", Token::Constant);
        let mut pair = Self {
            contenders: [Contender::start(url, key)?, Contender::start(url, key)?],
            leasehold: 0,
            bare: 0,
            control: control.map_err(|error| error.to_string())?,
            waits: 0,
            blocked: 0,
        };
        let first = Baton::connect(url, &Contender::bare_key(key));
        let first = first.map_err(|error| error.to_string())?;
        pair.contenders[0].ask(Way::Leasehold)?;
        pair.contenders[0].acquired()?;
        pair.contenders[0].ask(Way::Bare)?;
        wait_until("a bare wait", || pair.is_blocked())?;
        first.wake();
        pair.contenders[0].acquired()?;
        Ok(pair)
    }

    /// Hand-overs of the bare lock against those of `way`, in turns.
    pub(crate) fn compare(&mut self, size: Size, way: Way) -> Comparison {
        let pair = RefCell::new(self);
        let hand_over = |way| {
            let took = pair.borrow_mut().hand_over(way);
            took.expect("the lock is handed on")
        };
        compare(size, &mut || hand_over(Way::Bare), &mut || hand_over(way))
    }

    /// From when the holder begins to hand the lock on until the other one has it.
    fn hand_over(&mut self, way: Way) -> Result<Duration, String> {
        let holder = match way {
            Way::Leasehold => self.leasehold,
            Way::Bare | Way::Detour => self.bare,
        };
        let waiter = 1 - holder;
        self.contenders[waiter].ask(way)?;
        // Not in step with whatever the waiter does by the clock.
        let random = getrandom::u32().map_err(|error| error.to_string())?;
        rest_until(now() + Duration::from_micros(2_000 + u64::from(random % 6_000)));
        if way == Way::Leasehold {
            self.leasehold = waiter;
            self.waits += 1;
            self.blocked += u64::from(self.is_blocked());
        } else {
            self.bare = waiter;
            wait_until("a bare wait", || self.is_blocked())?;
        }
        self.contenders[holder].hand_on(way)?;
        let acquired = self.contenders[waiter].acquired()?;
        let handed_on = self.contenders[holder].handed_on()?;
        let took = acquired.checked_sub(handed_on);
        took.ok_or_else(|| format!("acquired at {acquired:?}, but handed on at {handed_on:?}"))
    }

    /// Whether a client of the server waits in a blocking command.
    fn is_blocked(&self) -> bool {
        self.control.info("blocked_clients").expect("it answers") != "0"
    }
}
