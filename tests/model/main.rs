//! A model of the protocol, explored in every interleaving with `stateright`.
//!
//! # What is modelled
//!
//! - Two clients, A and B, that contend for one key: acquire (`SET NX PX` with a fresh token), renew
//!   (compare-and-extend), release (compare-and-delete), and die at any moment, whereupon another
//!   process takes over without any memory. They go on for ever; only what they may have unsettled
//!   *at the same time* is limited ([`Size`]).
//! - A connection that keeps its order, and connections that do not wait for each other. Requests
//!   and replies are delayed without limit. A request that is lost is one that never arrives, and a
//!   reply that is lost is one that is not read: the client breaks the link at any moment, and what
//!   it had sent may run later.
//! - One server that runs one command at a time, and that expires the record by its own clock.
//! - Clocks in ticks. The clients' clocks go at one rate; the server's may gain one tick on them
//!   within one validity, and validity is one tick shorter than the ttl. (A server that falls behind
//!   only lets records stand longer.) A deadline counts from before the send, is extended with
//!   `max`, and a loss is final.
//! - The unknown outcome of an acquisition: a new link, `CLIENT KILL` of the old one, then
//!   compare-and-renew, in one batch; and again if that breaks off as well. Renewed: ours, with the
//!   deadline of this call. Not renewed behind a barrier: disowned, and a new token may be tried.
//!   Not renewed without one, or given up: tainted. The kill may be refused (answered 0) each time.
//! - A simple reaper, one per client: it sends compare-and-delete for tainted tokens, one at a time,
//!   as often and as late as it likes.
//! - The unknown outcome of a release: the same script again behind the kill; "not ours" then counts
//!   as released if the deadline has not passed, else as unknown.
//!
//! # What is not modelled
//!
//! Failover, replicas, `ROLE`, restarts, eviction, writes by foreign clients, clock steps. Commands
//! that were not sent or not run (they leave no trace; the model has them as never begun). Links
//! shared by several leases. Two renewals of one lease at once. The danger zone, `max_hold`, fences,
//! `adopt`, waiting and wake-ups, hand-over inside a process. The reaper's own end ("one ttl after
//! the first other answer") and its 1,024 places. Liveness: nothing here says that a lock is ever
//! obtained.
//!
//! # Size
//!
//! It is a test binary of its own, because it keeps every core busy: beside it, tests that watch
//! a clock would be starved.
//!
//! All states that can be reached are visited, whatever the length of the run. Per client, *t*
//! tokens may be unsettled and *b* broken links may still carry commands at the same time:
//!
//! | test | ttl | A | B | unique states |
//! |---|---|---|---|---|
//! | two equal clients | 4 | t 1, b 1 | t 1, b 1 | 1,820,420 |
//! | an older token is unsettled | 3 | t 2, b 1 | t 1, b 0 | 2,088,746 |
//! | two broken links | 3 | t 1, b 2 | t 1, b 0 | 1,015,053 |
//! | what an unknown release says | 3 | t 1, b 1 | t 1, b 0 | 1,217,352 |
//! | clocks beyond the allowance | 3 | t 1, b 1 | t 1, b 1 | 422,097 |
//! | older token, late commands of both (`--ignored`) | 3 | t 2, b 1 | t 1, b 1 | 5,815,160 |
//! | older token, two broken links (`--ignored`) | 3 | t 2, b 2 | t 1, b 0 | 15,426,976 |
//!
//! The ignored ones aside, that is some 33 s of processor time with `opt-level = 1`, on two cores at
//! once, and 0.4 GB; unoptimized it takes many times as long. Each test prints its own figures.
//!
//! # Planted faults
//!
//! Each is one rule left out, and must give a counterexample; the tests print the shortest one.
//!
//! - *Token reused after a compare-and-delete.* A's `SET` stays unanswered, A gives up, the reaper
//!   sends its delete, A gets the lock with the same token, and the delete removes it under A's feet.
//! - *Deadline from the reply.* The reply lies about for a tick; the record has expired and B has
//!   taken the lock before A's deadline comes.
//! - *Delete without compare.* A's confirmation comes too late, so A releases again at once, but by
//!   then the record is B's; or B's reaper, after an acquisition that came to nothing, removes A's.
//! - *Renewal that re-creates.* A's renewal stays on its way on a broken link, A's release answers
//!   `Ok`, then the renewal runs, and a record stands that nobody owns.
//! - *Late confirmation applied.* The renewal ran in time, its reply is read after the deadline.
//! - *Proven without barrier.* The kill is refused, the record is not ours, A disowns the token, and
//!   its `SET` may still run.
//! - *Wrong link fenced off.* Resolving breaks off before its kill has run; the next attempt kills
//!   that link, and with it the first kill, and the link with the `SET` lives.
//! - *No drift allowance.* The server's clock gains a tick; the record expires before A's deadline.
//! - *Gone is always released.* A's lease expires, its first delete never arrives, the second finds
//!   nothing, and the release answers `Ok`.
//! - *Release marked late.* A's delete has run, its reply is not read yet, and B has the lock.
//! - *Bound that ignores an unanswered renewal.* See below.
//! - *Clock beyond the allowance.* See below.
//!
//! # What it says about the rules
//!
//! - The kill and the compare-and-renew may go out in one batch, and a second unknown while
//!   resolving needs no barrier for the link of the first resolving, only for that of the `SET`.
//! - A release needs the barrier for none of its answers: it may be refused each time, and every
//!   `Ok` is still true. "Another's" before the deadline proves as much as "gone".
//! - The deadline is the least that a record stands, and so no answer to how long it *may* stand
//!   after an unknown release. That counts from the reply of the last confirmed command, and while a
//!   renewal went unanswered on a link that was not fenced off, there is no such instant at all: it
//!   may run just before the record expires.
//! - Clocks beyond the allowance cost exclusion, and the releases that conclude from the clock. A
//!   release whose delete was answered "deleted", the barrier, the deletes and the finality of a loss
//!   do not rest on clocks.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says that it failed by panicking, and prints what it has explored"
)]

mod client;
mod fault;
mod property;
mod protocol;
mod queue;
mod server;
mod state;

use std::collections::BTreeSet;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use fault::Fault;
use property::{
    EXCLUSION, FINAL_LOSS, NO_ORPHAN, NO_WRONG_DELETE, STANDS, TRUE_BOUND, TRUE_RELEASE,
};
use protocol::{Protocol, Room, Size, Witness};

const THREADS: usize = 2;
/// Commands of this client may arrive late and out of turn.
const ONE_LINK: Room = room(1, 1);
/// Commands of this client arrive before it gives up waiting; replies may still be lost.
const NO_LINK: Room = room(1, 0);

#[test]
fn every_interleaving_of_two_equal_clients_keeps_every_property() {
    keeps_every_property(Protocol::new(size(4, ONE_LINK, ONE_LINK)));
}

#[test]
fn every_interleaving_keeps_every_property_while_an_older_token_is_unsettled() {
    keeps_every_property(Protocol::new(size(3, room(2, 1), NO_LINK)));
}

#[test]
fn every_interleaving_keeps_every_property_while_two_broken_links_carry_commands() {
    keeps_every_property(Protocol::new(size(3, room(1, 2), NO_LINK)));
}

#[test]
#[ignore = "a minute or more; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_with_an_older_token_and_late_commands_of_both() {
    keeps_every_property(Protocol::new(size(3, room(2, 1), ONE_LINK)));
}

#[test]
#[ignore = "minutes, and 2 GB; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_with_an_older_token_and_two_broken_links() {
    keeps_every_property(Protocol::new(size(3, room(2, 2), NO_LINK)));
}

#[test]
fn an_unknown_release_is_right_about_how_long_its_record_stands() {
    let mut protocol = Protocol::new(size(3, ONE_LINK, NO_LINK));
    protocol.tracks_bound = true;
    keeps_every_property(protocol);
}

#[test]
fn clocks_beyond_the_allowance_cost_exclusion_and_inferred_releases_and_nothing_else() {
    let mut protocol = Protocol::new(size(3, ONE_LINK, ONE_LINK));
    protocol.fault = Some(Fault::ClockBeyondAllowance);
    let checker = explore(protocol, HasDiscoveries::All, THREADS);
    let broken: BTreeSet<_> = checker.discoveries().into_keys().collect();
    assert_eq!(broken, BTreeSet::from([EXCLUSION, STANDS, TRUE_RELEASE]));
}

#[test]
fn a_token_reused_after_a_compare_and_delete_loses_a_living_lease() {
    shows(Fault::TokenReusedAfterDelete, NO_WRONG_DELETE);
}

#[test]
fn a_deadline_counted_from_the_reply_breaks_exclusion() {
    shows(Fault::DeadlineFromReply, EXCLUSION);
}

#[test]
fn a_delete_without_compare_removes_a_foreign_record() {
    shows(Fault::DeleteWithoutCompare, NO_WRONG_DELETE);
}

#[test]
fn a_renewal_that_re_creates_brings_a_released_record_back() {
    shows(Fault::RenewalRecreates, TRUE_RELEASE);
}

#[test]
fn a_confirmation_applied_after_the_deadline_revives_a_lost_lease() {
    shows(Fault::LateConfirmationApplied, FINAL_LOSS);
}

#[test]
fn a_conclusion_without_a_barrier_leaves_an_orphan() {
    shows(Fault::ProvenWithoutBarrier, NO_ORPHAN);
}

#[test]
fn a_barrier_on_the_wrong_link_leaves_an_orphan() {
    shows(Fault::WrongLinkFencedOff, NO_ORPHAN);
}

#[test]
fn a_validity_without_drift_allowance_breaks_exclusion() {
    shows(Fault::NoDriftAllowance, EXCLUSION);
}

#[test]
fn a_release_that_finds_nothing_after_the_deadline_proves_nothing() {
    shows(Fault::GoneAlwaysReleased, TRUE_RELEASE);
}

#[test]
fn a_lease_relied_on_until_its_release_is_answered_breaks_exclusion() {
    shows(Fault::ReleaseMarkedLate, EXCLUSION);
}

#[test]
fn an_unanswered_renewal_outlives_the_bound_of_an_unknown_release() {
    shows(Fault::BoundIgnoresUnansweredRenewal, TRUE_BOUND);
}

const fn room(tokens: u8, broken: u8) -> Room {
    Room { tokens, broken }
}

fn size(ttl: u8, a: Room, b: Room) -> Size {
    Size { ttl, rooms: [a, b] }
}

fn keeps_every_property(protocol: Protocol) {
    let checker = explore(protocol, HasDiscoveries::AnyFailures, THREADS);
    checker.assert_properties();
    for witness in Witness::ALL {
        assert!(
            checker.model().has_witnessed(witness),
            "the exploration never came across {witness:?}"
        );
    }
}

fn shows(fault: Fault, property: &'static str) {
    let mut protocol = Protocol::new(size(3, room(1, 2), ONE_LINK));
    protocol.fault = Some(fault);
    protocol.tracks_bound = property == TRUE_BOUND;
    // With one thread the counterexample is the shortest there is, and always the same.
    let checker = explore(protocol, HasDiscoveries::AnyOf([property].into()), 1);
    println!("{fault:?} breaks \"{property}\":");
    for action in checker.assert_any_discovery(property).into_actions() {
        println!("  {action:?}");
    }
}

fn explore(
    protocol: Protocol,
    finish_when: HasDiscoveries,
    threads: usize,
) -> impl Checker<Protocol> {
    let size = protocol.size;
    let begun = Instant::now();
    let checker = protocol
        .checker()
        .finish_when(finish_when)
        .threads(threads)
        .spawn_bfs()
        .join();
    println!(
        "model: {} unique states, max depth {}, {} steps, {:.1} s, {size:?}",
        checker.unique_state_count(),
        checker.max_depth(),
        checker.state_count(),
        begun.elapsed().as_secs_f64(),
    );
    checker
}
