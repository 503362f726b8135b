//! A time line: what happens, and how many milliseconds after the start.

use std::fmt::Display;
use std::sync::LazyLock;
use std::time::Instant;

/// The width of the picture of turns.
const COLUMNS: u128 = 50;

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// From when to when one worker had the lock.
pub(crate) struct Turn {
    pub(crate) worker: usize,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

pub(crate) fn begin() {
    LazyLock::force(&BEGUN);
    println!("The numbers on the left are milliseconds since the start.");
}

pub(crate) fn part(title: impl Display) {
    println!("\n{title}");
}

pub(crate) fn say(what: impl Display) {
    println!("{:6}  {what}", millis(Instant::now()));
}

/// A further line to what was just said.
pub(crate) fn more(what: impl Display) {
    println!("{:6}  {what}", "");
}

/// One line a turn, in the order given.
pub(crate) fn draw(turns: &[Turn]) {
    let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
        return;
    };
    let span = last.to.duration_since(first.from).as_micros().max(1);
    let column = |at: Instant| at.duration_since(first.from).as_micros() * COLUMNS / span;
    for Turn { worker, from, to } in turns {
        let begins = column(*from);
        let bar: String = (0..column(*to).max(begins + 1))
            .map(|at| if at < begins { ' ' } else { '#' })
            .collect();
        let (from, to) = (millis(*from), millis(*to));
        println!("{from:6}  worker {worker} has it until {to:4}  {bar}");
    }
}

pub(crate) fn millis(at: Instant) -> u128 {
    at.duration_since(*BEGUN).as_millis()
}
