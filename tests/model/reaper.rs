//! The reaper: compare-and-delete for tokens that may still come to stand, and its end.

use super::breach::Breach;
use super::fault::Fault;
use super::protocol::Protocol;
use super::state::{Client, State, Who};
use super::token::Token;
use super::witness::Witness;

impl Protocol {
    /// One compare-and-delete at a time. One that is not waited for any longer, and the next one
    /// for the same token, differ in nothing: the server runs the same command as late as it likes.
    pub(super) fn reap(&self, client: &mut Client, token: Token) {
        client.reaper.out = Some(token);
        if self.fault == Some(Fault::UnansweredEndsReaper) {
            self.count_to_end(client, token);
        }
    }

    /// The server runs it, and the reaper reads the answer or never will. It may be late as well,
    /// which would put the end off and nothing else.
    pub(super) fn run_reaper(&self, state: &mut State, who: Who, heard: bool) {
        let Some(token) = state.client_mut(who).reaper.out.take() else {
            return;
        };
        if state.record_is(who, token) {
            self.witness(Witness::OrphanReaped);
        }
        let compares = self.fault != Some(Fault::ReaperWithoutCompare);
        let released = self.delete(state, who, token, compares);
        if !self.counts_reaper {
            return;
        }
        let client = state.client_mut(who);
        if let Some(doubt) = client.reaper.doubt_mut(token) {
            doubt.served |= !released;
        }
        if heard && released {
            *client.reaper.doubt_mut(token) = None;
        } else if heard {
            self.count_to_end(client, token);
        }
    }

    /// From the first answer on, and not from the first attempt.
    fn count_to_end(&self, client: &mut Client, token: Token) {
        if let Some(doubt) = client.reaper.doubt_mut(token) {
            doubt.ends.get_or_insert(self.size.ttl);
        }
    }

    /// One tick of the client's clock.
    pub(super) fn reaper_tick(&self, client: &mut Client) -> Option<Breach> {
        let mut breach = None;
        for token in client.reaper.doubted().collect::<Vec<_>>() {
            let set_may_run = client.could_set(token);
            let place = client.reaper.doubt_mut(token);
            let Some(doubt) = place else { continue };
            let Some(ends) = &mut doubt.ends else {
                continue;
            };
            *ends -= 1;
            if *ends > 0 {
                continue;
            }
            if set_may_run {
                self.witness(Witness::ReaperEndedFirst);
            }
            if !doubt.served {
                breach = Some(Breach::GivenUpUnserved);
            }
            *place = None;
        }
        breach
    }
}
