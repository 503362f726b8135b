//! Wake-ups between processes, as a model of their own.
//!
//! # What is modelled
//!
//! - Two or three processes that contend for one key, each with one thread, or with the one of its
//!   threads that is at the server: `SET NX PX`; if it is held, `wait.lua`, which takes a free lock
//!   or announces a waiter; if it is held, `BLPOP`; and after whatever answer, or none, `wait.lua`
//!   again. They give up at any moment, and die at any moment.
//! - The server: the record, *waiting* with the name of whoever set it last, *wake* with its
//!   elements, and those who are blocked on it, first come, first served. A release deletes and
//!   pushes if somebody is announced and no wake-up is there, and says whether the last to announce
//!   itself was another. `LPUSH` may be refused. An element that finds somebody blocked goes to the
//!   first.
//! - Wake-ups that are lost: with the reply, with a process that dies, on a link that was given up
//!   and that the server still takes for a waiter, or because they expire. Wake-ups in vain:
//!   somebody else is faster. Both siblings expire at any moment, eviction included.
//! - `wait.lua` as an acquisition that may be unknown, and may run late: `CLIENT KILL`, granted or
//!   refused, and compare-and-renew, as one step; that they are two, and what may come between
//!   them, is in the other model. Without a barrier the token is tainted, and the reaper deletes it
//!   at any moment, which pushes like any release.
//! - The second mode of `wait.lua`, after a release that told of others: it announces and never
//!   takes. The process tries no other way for a while, which ends at any moment.
//! - Leases without clocks: a deadline passes at any moment, and the record of a lease does not
//!   expire before. That deadlines are so is what the other model is for.
//! - Time in `BLPOP`: it blocks for one tick at most, and the process gives the link up after two,
//!   whether the request, the server or the reply is what is late. No tick passes before it has.
//!
//! # What is not modelled
//!
//! Renewal. The settling of a release: an unknown one goes to the reaper at once. How long the
//! announcement and the wake-up stand. That the timeout of `BLPOP` is shorter where the holder's
//! record or the budget ends sooner, and polling, where `BLPOP` or the siblings are refused: each
//! is a `BLPOP` that answers early. The queue inside a process, hand-over, fences. Order between
//! processes. What a process does when it is its turn may take as long as it likes: so "in one
//! `BLPOP`'s time" is about the wait alone.
//!
//! # Size
//!
//! *t* tokens of a process may be unsettled; *late* processes may have one command, or one wait, on
//! a link that they gave up:
//!
//! | test | processes | t | late | unique states |
//! |---|---|---|---|---|
//! | two processes | 2 | 1 | 2 | 203,276 |
//! | an older token is unsettled | 2 | 2 | 1 | 1,341,944 |
//! | three processes | 3 | 1 | 0 | 1,576,301 |
//! | nothing is lost | 3 | 1 | 0 | 107,052 |
//! | three, one sends late commands (`--ignored`) | 3 | 1 | 1 | 4,820,242 |
//! | both have older tokens (`--ignored`) | 2 | 2 | 2 | 9,704,488 |
//!
//! # Planted faults
//!
//! - *Wake-up grants.* A process reaps what an earlier attempt of its own left, is woken by that,
//!   and takes itself for the holder; another takes the lock.
//! - *Blocks for ever*, *waits for the server.* The holder's record expires, which wakes nobody.
//! - *Pushed unchecked.* Two releases while a waiter is announced and not in `BLPOP` yet.
//! - *Announcement cleared.* A release wakes the one waiter there is, whose own release then finds
//!   nobody announced, and whoever has just come to wait sleeps beside a free lock.
//! - *Pushed for others alone.* The same, since the one that was woken was the last to announce
//!   itself.
//! - *Announcement takes.* The lock is free when a polite process announces itself.
//! - *Unanswered wait is held.* `wait.lua` has taken the lock, its reply is lost, and the process
//!   waits in `BLPOP` for itself; or it has not run yet, and its token is sent once more.
//!
//! # What it says about the rules
//!
//! - `SET` and any number of `wait.lua` may go with one token, as long as each was answered.
//! - One element is enough, since whoever takes it releases in turn, but only because the
//!   announcement outlives the push: where nothing is lost and nothing expires, nobody sleeps
//!   beside a free lock that nobody goes for. A release that tells of itself alone still has to
//!   push.
//! - A process may be woken by the wake-up that it pushed itself. It costs a round trip, and others
//!   at most the time of one `BLPOP`; so does a waiter that is woken and gives up.

mod model;
mod process;
mod property;
mod server;
mod state;
mod witness;

use stateright::{Checker, HasDiscoveries};

use super::explorer;
use model::{Fault, Size, Waking};
use property::{
    EXCLUSION, FOUND_IN_TIME, NEVER_TAKES, NO_NAP, ONE_WAKE_UP, OWNED, SET_ONCE, STANDS,
};
use witness::Witness;

#[test]
fn every_interleaving_of_two_processes_keeps_every_property() {
    keeps_every_property(size(2, 1, 2));
}

#[test]
fn every_interleaving_of_two_processes_keeps_every_property_while_an_older_token_is_unsettled() {
    keeps_every_property(size(2, 2, 1));
}

#[test]
fn every_interleaving_of_three_processes_keeps_every_property() {
    keeps_every_property(size(3, 1, 0));
}

#[test]
fn nobody_sleeps_beside_a_free_lock_where_nothing_is_lost() {
    keeps_every_property(lossless(3));
}

#[test]
#[ignore = "half a minute; the parts of it run on their own"]
fn every_interleaving_of_three_processes_keeps_every_property_while_one_sends_late_commands() {
    keeps_every_property(size(3, 1, 1));
}

#[test]
#[ignore = "a minute; the parts of it run on their own"]
fn every_interleaving_of_two_processes_keeps_every_property_while_both_have_older_tokens() {
    keeps_every_property(size(2, 2, 2));
}

#[test]
fn a_wake_up_taken_for_a_grant_breaks_exclusion() {
    shows(Fault::WakeUpGrants, EXCLUSION);
}

#[test]
fn a_wake_up_taken_for_a_grant_holds_without_a_record() {
    shows(Fault::WakeUpGrants, STANDS);
}

#[test]
fn a_wait_at_the_server_without_an_end_passes_a_free_lock_by() {
    shows(Fault::BlocksForEver, FOUND_IN_TIME);
}

#[test]
fn a_wait_for_the_servers_answer_without_an_end_passes_a_free_lock_by() {
    shows(Fault::WaitsForTheServer, FOUND_IN_TIME);
}

#[test]
fn a_wake_up_pushed_unchecked_is_one_of_two() {
    shows(Fault::PushedUnchecked, ONE_WAKE_UP);
}

#[test]
fn an_announcement_that_takes_the_lock_is_seen_as_such() {
    shows(Fault::AnnouncementTakes, NEVER_TAKES);
}

#[test]
fn an_unanswered_wait_taken_for_held_leaves_a_record_to_nobody() {
    shows(Fault::UnansweredWaitIsHeld, OWNED);
}

#[test]
fn an_unanswered_wait_taken_for_held_sends_its_token_again() {
    shows(Fault::UnansweredWaitIsHeld, SET_ONCE);
}

#[test]
fn an_announcement_that_a_release_takes_away_lets_the_next_waiter_sleep() {
    shows_in(lossless(3), Fault::AnnouncementCleared, NO_NAP);
}

#[test]
fn a_release_that_wakes_nobody_where_it_was_announced_last_itself_lets_others_sleep() {
    shows_in(lossless(3), Fault::PushedForOthersAlone, NO_NAP);
}

fn size(processes: u8, tokens: u8, late: u8) -> Size {
    Size {
        processes,
        tokens,
        late,
        lossless: false,
    }
}

fn lossless(processes: u8) -> Size {
    Size {
        lossless: true,
        ..size(processes, 1, 0)
    }
}

fn keeps_every_property(size: Size) {
    let checker = explorer::explore(Waking::new(size), size, HasDiscoveries::AnyFailures);
    checker.assert_properties();
    for witness in Witness::of(size) {
        assert!(
            checker.model().has_witnessed(witness),
            "the exploration never came across {witness:?}"
        );
    }
}

fn shows(fault: Fault, property: &'static str) {
    shows_in(size(2, 2, 1), fault, property);
}

fn shows_in(size: Size, fault: Fault, property: &'static str) {
    explorer::shows(fault, property, || {
        let mut model = Waking::new(size);
        model.fault = Some(fault);
        model
    });
}
