//! Requests of many callers that go out on one link in one piece, and the reading of their
//! replies.
//!
//! One of the callers leads: it writes everything in one system call, reads the replies in
//! their order and tells their owners. Its own time may be up before the others' is; then it
//! hands the lead on to one of them and goes. A convoy that is dropped on its way, because its
//! leader unwinds, leaves nobody waiting.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use redis::Value;

use super::broken::Broken;
use super::fault::{Class, Fault, class_of};
use super::link::Link;
use super::request::{COURTESY, Replies, subject};
use super::turn::{self, Grant};
use super::wire::Wire;
use crate::clock::Time;
use crate::error::Cause;

/// What it takes to lead.
pub(super) enum Lead {
    /// A link: whoever has it takes all along who wait.
    Link(Box<Link>),
    /// A convoy under way, whose leader's own time was up.
    Convoy(Box<Convoy>),
}

pub(super) type Turn = turn::Turn<Lead>;

pub(super) struct Convoy {
    link: Box<Link>,
    /// Its number among those on this link.
    voyage: u64,
    aboard: Aboard,
    /// Where the first of them begins in what went out.
    offset: usize,
    /// What has come for it.
    arrived: Replies,
    /// Why the link ended, if it did.
    ended: Option<Fault>,
    /// Whether somebody was answered in words that do not say whether his command has run: it may
    /// do so yet, behind a proxy.
    doubtful: bool,
}

/// How far a convoy has come.
pub(super) enum Progress {
    /// One of those aboard has its outcome.
    Landed(Arc<Turn>, Result<Replies, Fault>),
    /// There is nobody left aboard.
    Over,
    /// The time of whoever reads is up.
    Paused,
}

impl Convoy {
    /// Sends the requests. What the socket has accepted decides for each of them: a command
    /// without its last byte cannot run, and may go out elsewhere.
    pub(super) fn depart(mut link: Box<Link>, mut aboard: Aboard) -> Self {
        link.batch.clear();
        let mut end = Time::from_nanos(0);
        let voyage = link.next_voyage();
        let under_way = Broken::under_way(link.wire(), voyage);
        // What its owner has given up on by now is not sent.
        aboard.turns.retain(|turn| turn.board(&under_way));
        for turn in &aboard.turns {
            link.batch.append(&turn.batch);
            end = end.max(turn.end);
        }
        let (sent, ended) = match link.send(aboard.first(), end) {
            Ok(sent) => (sent, None),
            Err(fault) => (link.last_used(), Some(fault)),
        };
        link.wire().depart(link.read_by());
        Self {
            arrived: Replies::new(sent, Arc::clone(link.wire())),
            link,
            voyage,
            aboard,
            offset: 0,
            ended,
            doubtful: false,
        }
    }

    /// Goes on until somebody has its outcome, or until `until`.
    pub(super) fn advance(&mut self, until: Time) -> Progress {
        let Some(commands) = self.aboard.turns.front().map(|turn| turn.commands) else {
            return Progress::Over;
        };
        if self.ended.is_some() {
            return self.break_off();
        }
        while let Some(command) = commands.get(self.arrived.len()) {
            let mut reply = self.link.reply_at_hand(command);
            if matches!(reply, Ok(None)) {
                self.aboard.wake_served();
                reply = self.link.reply_by(command, until);
            }
            match reply {
                Ok(Some(value)) => {
                    self.doubtful |= is_doubtful(&value);
                    self.arrived.push(value);
                }
                Ok(None) => return Progress::Paused,
                Err(fault) => {
                    let is_courtesy = *command == COURTESY;
                    self.ended = Some(fault);
                    if is_courtesy {
                        // What the request is about is in hand.
                        break;
                    }
                    return self.break_off();
                }
            }
        }
        let fresh = Replies::new(self.arrived.sent, Arc::clone(self.link.wire()));
        let replies = mem::replace(&mut self.arrived, fresh);
        match self.aboard.turns.pop_front() {
            Some(turn) => {
                self.offset += turn.batch.bytes().len();
                Progress::Landed(turn, Ok(replies))
            }
            None => Progress::Over,
        }
    }

    /// Gives the owner of a turn its outcome. It is woken later: whoever is to have the link next
    /// comes first, so that it is at work while the others wake.
    pub(super) fn serve(&mut self, turn: Arc<Turn>, outcome: Result<Replies, Fault>) {
        turn.answer(outcome);
        self.aboard.served.push(turn);
    }

    /// The link, once nobody is aboard any more, what ended it, and those to wake.
    pub(super) fn arrive(self) -> (Box<Link>, Option<Fault>, Aboard) {
        if self.ended.is_none() && !self.doubtful {
            self.link.wire().arrive(self.voyage);
        } else {
            self.link.wire().end();
        }
        (self.link, self.ended, self.aboard)
    }

    /// Hands the lead to somebody aboard who still waits. The convoy comes back if nobody of it is
    /// left.
    pub(super) fn hand_on(self, from: &Arc<Turn>) -> Option<Self> {
        let others: Vec<_> = self
            .aboard
            .turns
            .iter()
            .filter(|turn| !Arc::ptr_eq(turn, from))
            .cloned()
            .collect();
        let mut convoy = Box::new(self);
        convoy.aboard.wake_served();
        for turn in others {
            match turn.grant(Grant::Lead(Lead::Convoy(convoy))) {
                Some(Grant::Lead(Lead::Convoy(refused))) => convoy = refused,
                _ => return None,
            }
        }
        Some(*convoy)
    }

    /// What somebody aboard needs who goes before his reply has come.
    pub(super) fn broken(&self) -> Broken {
        Broken::under_way(self.link.wire(), self.voyage)
    }

    /// Ends the link, on which everybody aboard has ceased to wait.
    pub(super) fn give_up(&mut self, cause: Cause) {
        self.link.give_up();
        self.ended = Some(Fault::new(Class::Unknown, self.aboard.first(), cause));
    }

    /// The outcome of the first aboard, on a link that has ended.
    fn break_off(&mut self) -> Progress {
        let (Some(turn), Some(ended)) = (self.aboard.turns.pop_front(), &self.ended) else {
            return Progress::Over;
        };
        let is_whole = self.offset + turn.batch.first_end() <= self.link.accepted();
        let class = if is_whole {
            Class::Unknown
        } else {
            Class::NotSent
        };
        let mut fault = Fault::new(class, subject(turn.commands), ended.cause.clone());
        if is_whole {
            fault.broken = Some(Broken::ended(self.link.wire()));
        }
        self.offset += turn.batch.bytes().len();
        Progress::Landed(turn, Err(fault))
    }
}

fn is_doubtful(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if class_of(error) == Class::Unknown)
}

/// Those of a convoy.
pub(super) struct Aboard {
    /// Those whose replies have not been read, in the order of the replies.
    turns: VecDeque<Arc<Turn>>,
    /// Those who have their outcome and do not know it.
    served: Vec<Arc<Turn>>,
    bytes: usize,
    wire: Arc<Wire>,
    server: Arc<str>,
}

/// What is kept of one, so that the next allocates nothing.
#[derive(Default)]
pub(super) struct Room {
    turns: VecDeque<Arc<Turn>>,
    served: Vec<Arc<Turn>>,
}

impl Aboard {
    pub(super) fn of(link: &Link, room: Room) -> Self {
        Self {
            turns: room.turns,
            served: room.served,
            bytes: 0,
            wire: Arc::clone(link.wire()),
            server: Arc::clone(link.server()),
        }
    }

    pub(super) fn push(&mut self, turn: Arc<Turn>) {
        self.bytes += turn.batch.bytes().len();
        self.turns.push_back(turn);
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// What the first of them has to say.
    fn first(&self) -> &'static str {
        let first = self.turns.front();
        first.map_or(COURTESY, |turn| subject(turn.commands))
    }

    /// The size of what they have to say.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn wake_served(&mut self) {
        for turn in self.served.drain(..) {
            turn.wake();
        }
    }

    /// Wakes those who are left.
    pub(super) fn disband(mut self) -> Room {
        self.wake_served();
        Room {
            turns: mem::take(&mut self.turns),
            served: mem::take(&mut self.served),
        }
    }
}

impl Drop for Aboard {
    /// Nobody is aboard any more, unless the leader unwinds. What has been sent by then is not
    /// looked into: *unknown* is never wrong.
    fn drop(&mut self) {
        self.wake_served();
        for turn in self.turns.drain(..) {
            let server = self.server.to_string();
            let cause = Cause::Closed { server };
            let mut fault = Fault::new(Class::Unknown, subject(turn.commands), cause);
            fault.broken = Some(Broken::ended(&self.wire));
            turn.answer(Err(fault));
            turn.wake();
        }
    }
}
