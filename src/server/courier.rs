//! Carrying errands to one server: hundreds on their way at a time, each with its own patience.
//!
//! An answer that is overdue costs its own attempt and no other: its link is read on, takes
//! nothing new meanwhile, and serves again once everything that was due on it has come. What
//! waits to be sent goes out on another link.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::errand::{Courier, Errand, Landed, Wake};
use super::fault::{Class, Fault};
use super::flight::{Flight, Heard};
use super::line::Line;
use super::lines::{Lines, WINDOW};
use super::link::WAITING;
use super::pipeline::{Expected, Part};
use super::poll;
use super::route::Route;
use super::target::Owner;
use crate::clock::Time;
use crate::error::{Cause, chain};

pub(super) struct SingleCourier {
    route: Route,
    lines: Lines,
    flights: HashMap<u64, Flight>,
    /// How many there have been.
    count: u64,
    /// Flights that have something to send.
    ready: VecDeque<u64>,
    /// What landed while nobody collected.
    landed: Vec<Landed>,
    /// Links that have ended: how many were unanswered, and why. Logged when it holds nobody up.
    ended: Vec<(usize, Cause)>,
}

impl SingleCourier {
    pub(super) fn new(route: Route, wake: Wake) -> Self {
        Self {
            lines: Lines::new(route.clone(), wake),
            route,
            flights: HashMap::new(),
            count: 0,
            ready: VecDeque::new(),
            landed: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn welcome(&mut self) {
        self.lines.welcome();
        while let Some(index) = self.lines.one_too_many() {
            let cause = self.timed_out(self.lines[index].oldest());
            self.give_up(index, &cause);
        }
    }

    fn timed_out(&self, since: Time) -> Cause {
        Cause::TimedOut {
            doing: WAITING,
            server: self.route.server.to_string(),
            after: self.route.clock.now().since(since),
        }
    }

    /// Ends a link: what was on its way there has landed, as not sent or as unknown.
    fn give_up(&mut self, index: usize, cause: &Cause) {
        let line = self.lines.break_off(index);
        let mut unanswered = 0;
        for expected in &line.pipe.expected {
            let Some(flight) = self.flights.get(&expected.flight) else {
                continue;
            };
            if expected.part != Part::Script {
                continue;
            }
            let class = if line.pipe.was_sent(expected) {
                unanswered += usize::from(!flight.overdue);
                Class::Unknown
            } else {
                Class::NotSent
            };
            let fault = Fault::new(class, expected.command, cause.clone());
            self.land(expected.flight, Err(fault));
        }
        // Those that were about to be asked once more on it.
        let left: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.line == Some(line.id))
            .map(|(id, _)| *id)
            .collect();
        for id in left {
            self.land(
                id,
                Err(Fault::new(Class::NotSent, "EVALSHA", cause.clone())),
            );
        }
        self.ended.push((unanswered, cause.clone()));
    }

    /// Ends a flight. One that went unanswered in time lands a second time only with an answer.
    fn land(&mut self, id: u64, outcome: Result<Owner, Fault>) {
        let Some(flight) = self.flights.remove(&id) else {
            return;
        };
        if outcome.is_ok() && !flight.overdue {
            self.lines.served();
        }
        if flight.overdue && outcome.is_err() {
            return;
        }
        self.landed.push(Landed {
            number: flight.number,
            sent: flight.sent,
            outcome,
            late: flight.overdue,
        });
    }

    /// Reads all that is there on one link. `false` if that was its end.
    fn read(&mut self, index: usize) -> bool {
        loop {
            match self.lines[index].pipe.read() {
                Ok(Some((expected, value))) => {
                    let pipe = &mut self.lines[index].pipe;
                    pipe.heard = self.route.clock.now();
                    pipe.last_used = pipe.heard;
                    if let Err(cause) = self.hear(index, &expected, &value) {
                        self.give_up(index, &cause);
                        return false;
                    }
                }
                Ok(None) => return true,
                Err(cause) => {
                    self.give_up(index, &cause);
                    return false;
                }
            }
        }
    }

    /// Takes one reply. An error is the end of the link.
    fn hear(&mut self, index: usize, expected: &Expected, value: &Value) -> Result<(), Cause> {
        let line = &mut self.lines[index];
        let id = expected.flight;
        if expected.part == Part::Load {
            line.loading = None;
            return Ok(());
        }
        let Some(flight) = self.flights.get_mut(&id) else {
            return Ok(());
        };
        match flight.hear(line, expected, value, &self.route.server) {
            Heard::More => {}
            Heard::Again(_) if flight.overdue => {
                // It has landed: whoever it was for asks anew.
                self.flights.remove(&id);
            }
            Heard::Again(stage) => {
                flight.ask_again(stage);
                self.ready.push_back(id);
            }
            Heard::Landed(outcome) => self.land(id, outcome),
            Heard::Garbage => return Err(line.pipe.garbage(expected.command)),
        }
        Ok(())
    }

    /// Lands what has had its time, now that everything that had come in was read.
    fn judge(&mut self) {
        let now = self.route.clock.now();
        let mut overdue = Vec::new();
        for flight in self.flights.values_mut() {
            if !flight.overdue && flight.end <= now {
                flight.overdue = true;
                overdue.push((flight.number, flight.sent));
            }
        }
        for (number, sent) in overdue {
            let cause = self.timed_out(sent);
            self.landed.push(Landed {
                number,
                sent,
                outcome: Err(Fault::new(Class::Unknown, "EVALSHA", cause)),
                late: false,
            });
        }
        self.tidy(now);
    }

    /// Ends the links that are past hope and those that nobody needs, and marks those on which
    /// an answer is overdue.
    fn tidy(&mut self, now: Time) {
        let flights = &self.flights;
        for line in self.lines.iter_mut() {
            line.stalled = line.pipe.expected.iter().any(|expected| {
                flights
                    .get(&expected.flight)
                    .is_some_and(|flight| flight.overdue)
            });
        }
        let mut index = 0;
        while index < self.lines.len() {
            let line = &self.lines[index];
            let first = line.pipe.expected.front();
            if first.is_some_and(|first| first.last <= now) {
                let cause = self.timed_out(line.oldest());
                self.give_up(index, &cause);
            } else if first.is_none() && self.lines.is_spare(index) && !self.ready_on(line.id) {
                self.lines.part_with(index);
            } else {
                index += 1;
            }
        }
    }

    fn ready_on(&self, line: u64) -> bool {
        self.ready.iter().any(|id| {
            self.flights
                .get(id)
                .is_some_and(|flight| flight.line == Some(line))
        })
    }
}

impl Courier for SingleCourier {
    fn room(&mut self) -> usize {
        self.welcome();
        while let Some(index) = self.lines.open() {
            // A peer that has closed while the link lay idle is found out before anything is
            // sent there.
            if !self.lines.drop_if_old(index) && self.read(index) {
                let taken = self.lines[index].pipe.expected.len() + self.ready.len();
                return WINDOW.saturating_sub(taken);
            }
        }
        0
    }

    fn make_room(&mut self, least: Duration) {
        self.lines.make_room(least);
    }

    fn take(&mut self, number: u64, errand: &Arc<dyn Errand>) {
        self.count += 1;
        let id = self.count;
        let flight = Flight::new(number, errand, self.route.clock.now());
        self.flights.insert(id, flight);
        self.ready.push_back(id);
    }

    fn send(&mut self) {
        let mut index = 0;
        while index < self.lines.len() {
            // Half a command is in the socket's hands, and must not become a whole one if it is
            // not wanted any more.
            let unwanted = self.lines[index].pipe.unsent().any(|id| {
                let flight = self.flights.get(&id);
                flight.is_some_and(|flight| !flight.is_wanted())
            });
            if unwanted {
                let cause = self.timed_out(self.lines[index].oldest());
                self.give_up(index, &cause);
            } else {
                index += 1;
            }
        }
        let now = self.route.clock.now();
        while let Some(id) = self.ready.pop_front() {
            let Some(flight) = self.flights.get(&id) else {
                continue;
            };
            let errand = flight.errand.upgrade().filter(|errand| errand.is_wanted());
            let line = self.lines.place(flight.line);
            let (Some(errand), Some(line), true) = (errand, line, now < flight.end) else {
                let cause = Cause::TimedOut {
                    doing: "waiting to send to",
                    server: self.route.server.to_string(),
                    after: now.since(flight.sent),
                };
                self.land(id, Err(Fault::new(Class::NotSent, "EVALSHA", cause)));
                continue;
            };
            let (verb, stage) = (flight.verb, flight.stage);
            let last = now.plus(self.route.timeouts.command);
            self.lines[line].pack(id, verb, stage, errand.target(), (now, last));
            let line = self.lines[line].id;
            if let Some(flight) = self.flights.get_mut(&id) {
                flight.line = Some(line);
            }
        }
        let mut index = 0;
        while index < self.lines.len() {
            match self.lines[index].pipe.write() {
                Ok(()) => index += 1,
                Err(cause) => self.give_up(index, &cause),
            }
        }
    }

    fn has_more_to_send(&self) -> bool {
        let unwritten = |line: &Line| line.pipe.has_more_to_write();
        !self.ready.is_empty() || self.lines.iter().any(unwritten)
    }

    fn wait(&mut self, until: Time) {
        let ends = self.flights.values().filter(|flight| !flight.overdue);
        let until = ends.map(|flight| flight.end).fold(until, Time::min);
        let lasts = self
            .lines
            .iter()
            .filter_map(|line| line.pipe.expected.front());
        let until = lasts.map(|first| first.last).fold(until, Time::min);
        let sockets = self
            .lines
            .iter()
            .map(|line| (line.pipe.socket(), line.pipe.has_more_to_write()));
        poll::wait(sockets, &self.route.clock, until);
    }

    fn collect(&mut self, landed: &mut Vec<Landed>) {
        self.welcome();
        let mut index = 0;
        while index < self.lines.len() {
            index += usize::from(self.read(index));
        }
        self.judge();
        landed.append(&mut self.landed);
        for (unanswered, cause) in self.ended.drain(..) {
            say!(
                debug,
                target: "leasehold::link",
                "a link for renewals was given up, {unanswered} answers still awaited: {}", chain(&cause)
            );
        }
    }

    fn refusal(&mut self) -> Option<Fault> {
        self.lines.refusal()
    }

    fn give_all_up(&mut self) {
        let server = self.route.server.to_string();
        let cause = Cause::Closed { server };
        while !self.lines.is_empty() {
            self.give_up(0, &cause);
        }
    }

    fn is_busy(&self) -> bool {
        let awaited = |line: &Line| !line.pipe.expected.is_empty();
        self.has_more_to_send() || self.lines.iter().any(awaited)
    }

    fn next_try(&self) -> Time {
        self.lines.next_try()
    }
}
