//! The links of a courier: which of them takes what is to be sent next, and when another is
//! needed.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::errand::Wake;
use super::fault::{Class, Fault};
use super::line::Line;
use super::link::{Link, MOST_IDLE};
use super::opening::Openings;
use super::route::Route;
use crate::clock::Time;
use crate::error::Cause;

/// Replies that may be outstanding on one link. A server runs a batch of this size in about a
/// millisecond, which is what others wait for at most; and with 50 ms to the server and back it
/// is still 5,000 renewals a second.
pub(super) const WINDOW: usize = 256;

/// Links that are kept at a time, those that are only read on included.
const MOST_LINES: usize = 8;

pub(super) struct Lines {
    route: Route,
    openings: Openings,
    /// The newest is the last.
    all: Vec<Line>,
    /// How many there have been.
    count: u64,
    /// A link broke and has not been replaced.
    broke: bool,
    refusal: Option<Fault>,
    /// The shortest patience among those who waited for room last.
    least: Duration,
}

impl Lines {
    pub(super) fn new(route: Route, wake: Wake) -> Self {
        Self {
            openings: Openings::new(route.clone(), wake),
            route,
            all: Vec::new(),
            count: 0,
            broke: false,
            refusal: None,
            least: Duration::MAX,
        }
    }

    /// Takes in the links that have come up.
    pub(super) fn welcome(&mut self) {
        for opened in self.openings.take() {
            match opened.and_then(|link| self.line(link)) {
                Ok(line) => {
                    let replaces = !self.all.is_empty() && !self.has_usable();
                    self.all.push(line);
                    if mem::take(&mut self.broke) || replaces {
                        self.route.counters.reconnects.add_one();
                        say!(debug, target: "leasehold::link", "connected to `{}` again", self.route.server);
                    }
                }
                // Those who wait behind links that work are not told that there is none.
                Err(fault) if !self.has_usable() => self.refusal = Some(fault),
                Err(_) => {}
            }
        }
    }

    /// Of too many links the one to part with: the oldest of those that are no use at the
    /// moment.
    pub(super) fn one_too_many(&self) -> Option<usize> {
        let useless = self.all.iter().position(|line| !line.is_usable());
        (MOST_LINES < self.all.len()).then(|| useless.unwrap_or(0))
    }

    /// The newest link that takes another errand.
    pub(super) fn open(&self) -> Option<usize> {
        let takes = |line: &Line| line.is_usable() && line.pipe.expected.len() < WINDOW;
        self.all.iter().rposition(takes)
    }

    /// The link for what is to be sent: the one it is on, or the newest that takes new ones.
    pub(super) fn place(&self, on: Option<u64>) -> Option<usize> {
        match on {
            Some(id) => self.all.iter().position(|line| line.id == id),
            // A little over the window, rather than nowhere.
            None => self
                .open()
                .or_else(|| self.all.iter().rposition(Line::is_usable)),
        }
    }

    /// Drops a link that has nothing on it and lay idle for too long. Whether it did.
    pub(super) fn drop_if_old(&mut self, index: usize) -> bool {
        let line = &self.all[index];
        let is_old = self.is_old(line) && line.pipe.expected.is_empty();
        if is_old {
            self.all.remove(index);
        }
        is_old
    }

    /// Whether nobody needs a link any more on which nothing is expected.
    pub(super) fn is_spare(&self, index: usize) -> bool {
        let line = &self.all[index];
        line.retired || self.is_old(line) || self.all[index + 1..].iter().any(Line::is_usable)
    }

    /// Parts with a link that was of no more use.
    pub(super) fn part_with(&mut self, index: usize) -> Line {
        let line = self.all.remove(index);
        self.broke |= line.retired && !self.has_usable();
        line
    }

    /// Parts with a link that broke.
    pub(super) fn break_off(&mut self, index: usize) -> Line {
        let line = self.all.remove(index);
        // One that was being read on has been replaced before.
        self.broke |= !self.has_usable();
        line
    }

    pub(super) fn make_room(&mut self, least: Duration) {
        self.least = least;
        let answers_in_time = self
            .full_since()
            .is_some_and(|since| self.route.clock.now() < since.plus(least));
        if self.open().is_some() || answers_in_time || !self.would_help() {
            return;
        }
        if let Err(fault) = self.openings.begin(least) {
            self.refusal = Some(fault);
        }
    }

    /// When there may be room, or [`make_room`](Self::make_room) should be called again.
    pub(super) fn next_try(&self) -> Time {
        if self.open().is_some() {
            return Time::from_nanos(0);
        }
        if !self.would_help() {
            return Time::MAX;
        }
        let opening = self.openings.next();
        match self.full_since() {
            Some(since) => opening.max(since.plus(self.least)),
            None => opening,
        }
    }

    /// A link has served: the next failure is a new story.
    pub(super) fn served(&mut self) {
        self.openings.served();
    }

    pub(super) fn refusal(&mut self) -> Option<Fault> {
        self.refusal.take()
    }

    /// Whether another link would: where so many answer, though none in time, it is the server
    /// that takes its time.
    fn would_help(&self) -> bool {
        let now = self.route.clock.now();
        let answers = |line: &Line| line.is_usable() && now < line.pipe.heard.plus(self.least);
        self.all.len() < MOST_LINES
            || !self.all.iter().all(Line::is_usable)
            || !self.all.iter().any(answers)
    }

    fn is_old(&self, line: &Line) -> bool {
        MOST_IDLE < self.route.clock.now().since(line.pipe.last_used)
    }

    fn has_usable(&self) -> bool {
        self.all.iter().any(Line::is_usable)
    }

    /// Since when an answer has been waited for on the links that would take more if they were
    /// not full: on the one that is at it the shortest.
    fn full_since(&self) -> Option<Time> {
        let full = self.all.iter().filter(|line| line.is_usable());
        full.map(Line::oldest).max()
    }

    fn line(&mut self, link: Link) -> Result<Line, Fault> {
        self.count += 1;
        let now = self.route.clock.now();
        Line::new(self.count, link, &self.route.siblings, now).map_err(|source| {
            let cause = Cause::Io {
                doing: "use a link to",
                server: self.route.server.to_string(),
                source: Arc::new(source),
            };
            Fault::new(Class::NoLink, "connect", cause)
        })
    }
}

impl Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        &self.all
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [Line] {
        &mut self.all
    }
}
