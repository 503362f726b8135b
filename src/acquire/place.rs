//! A waiter's place in the queue of its key.

use std::sync::{Arc, Weak};

use super::canceller::Watcher;
use super::limits::Limits;
use crate::error::Cause;
use crate::keep::{Bid, Claim as _, Handed, HeirSeat, Record, Site};
use crate::queue::{Came, Start, Word};
use crate::token::Token;

/// Left when it is dropped, also by a thread that unwinds: its turn goes to the next.
pub(super) struct Place<'a> {
    site: &'a Arc<Site>,
    bid: Arc<Bid>,
    seat: Arc<HeirSeat>,
    /// Whether its owner is the one at the server.
    pub(super) is_ahead: bool,
}

/// What waiting in memory has come to.
pub(super) enum Reached {
    /// The turn to go to the server.
    Turn(Start),
    /// The lock, from a neighbour.
    Yours(Arc<Record>),
    /// Perhaps the lock: it is the reaper's now.
    InDoubt(Cause),
    Away(Cause),
    /// The time is up while a neighbour was handing the lock over: nobody knows what comes of it.
    LeftInDoubt,
    /// The time is up, or the call was cancelled; with what stood in the way.
    Over(Word),
}

impl<'a> Place<'a> {
    pub(super) fn take(
        site: &'a Arc<Site>,
        token: Token,
        behind: bool,
        limits: &Limits<'_>,
    ) -> Self {
        let bid = Arc::new(Bid::new(site, token));
        let (key, hasty) = (site.key(), !limits.outlasts_outages());
        let seat = site.heirs.sit(key, Arc::clone(&bid) as _, hasty, behind);
        if let Some(canceller) = limits.canceller {
            let watcher: Weak<HeirSeat> = Arc::downgrade(&seat);
            canceller.tell(watcher);
        }
        Self {
            site,
            bid,
            seat,
            is_ahead: false,
        }
    }

    /// The token that it was taken with.
    pub(super) fn token(&self) -> &Token {
        self.bid.token()
    }

    /// Waits for the turn, or for what a neighbour hands over.
    pub(super) fn wait(&mut self, limits: &Limits<'_>) -> Reached {
        let times = (limits.budget(), self.site.timeouts.command);
        let is_cancelled = || limits.is_cancelled();
        let key = self.site.key();
        match self.site.heirs.wait(key, &self.seat, times, is_cancelled) {
            Came::Turn(start) => {
                self.is_ahead = true;
                Reached::Turn(start)
            }
            Came::Handed(Handed::Yours) => match self.bid.take() {
                Some(record) => Reached::Yours(record),
                // It is there before that is told; if not, nobody knows.
                None => Reached::LeftInDoubt,
            },
            Came::Handed(Handed::InDoubt(cause)) => {
                // It is looked into at the server.
                self.is_ahead = true;
                Reached::InDoubt(cause)
            }
            Came::Away(cause) => Reached::Away(cause),
            Came::LeftInDoubt => Reached::LeftInDoubt,
            Came::Over(away) => Reached::Over(away),
        }
    }

    /// What the last who went to the server has heard there.
    pub(super) fn word(&self) -> Word {
        self.site.heirs.word(self.site.key())
    }

    /// Tells those behind that the lock is held: whoever has heard so may say it.
    pub(super) fn note_held(&self) {
        self.site.heirs.note(self.site.key(), Word::Held);
    }

    /// Tells those behind what has been heard at the server.
    pub(super) fn note(&self, word: Word) {
        if self.is_ahead {
            self.site.heirs.note(self.site.key(), word);
        }
    }

    /// Tells them that no server is in reach, for anybody.
    pub(super) fn turn_away(&self, cause: &Cause) {
        if self.is_ahead {
            self.site.heirs.turn_away(self.site.key(), cause);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let (heirs, key) = (&self.site.heirs, self.site.key());
        if self.is_ahead {
            heirs.let_go(key);
            return;
        }
        match heirs
            .leave(key, &self.seat, true)
            .unwrap_or(Came::LeftInDoubt)
        {
            Came::Turn(_) | Came::Handed(Handed::InDoubt(_)) => heirs.let_go(key),
            // Nobody is there to hold it.
            Came::Handed(Handed::Yours) => {
                if let Some(record) = self.bid.take() {
                    heirs.vacate(key, record.number(), false);
                }
                self.bid.give_up();
            }
            _ => {}
        }
    }
}

impl Watcher for HeirSeat {
    fn look(&self) {
        self.kick();
    }
}

#[cfg(test)]
mod tests;
