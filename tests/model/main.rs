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
//! - Renewal in the background, on links of its own, which nothing holds in step with the caller's.
//!   It is begun (the clock is read, the lease is in the batch), sent, run, and its answer read or
//!   missed, with anything between. An overdue one stays out while its retry is begun on another
//!   link, both answers count, and a confirmation that is read after the deadline does not. Release
//!   takes out of the batch what is in it and reads no more answers; what has been sent may run
//!   before or after the delete.
//! - The danger zone and its notices. The watch looks at the clock at any moment, or never. It tells
//!   danger once for each stay in the zone, which a confirmation ends if it leaves more than the
//!   margin; past the deadline it tells loss, once, and danger no more. Callback threads come to a
//!   notice at any moment and in any order. They ask again whether it is true, and of the same
//!   stay, and begin the callback in that same step. A lease that no more than the margin is left
//!   of is released again at once.
//! - The reaper, one per client: compare-and-delete for tainted tokens, one at a time, as often and
//!   as late as it likes, answered or not; until "released", or until one ttl after the first other
//!   answer. Where that end is not counted, the reaper stops at any moment at all, and every run
//!   in which it ends by its rule is among those.
//! - The unknown outcome of a release: the same script again behind the kill; "not ours" then counts
//!   as released if the deadline has not passed, else as unknown.
//! - Hand-over inside a process, where a client has heirs: a release compares with its own token and
//!   sets the heir's record in the same step; then the heir is the holder, and may be followed by the
//!   next. The predecessor's lease is marked released and its renewal stopped before that is sent;
//!   what has been sent may run before or after. Unknown: the kill, then compare-and-renew with the
//!   heir's token. Renewed: the heir's, with the deadline of this call. Not renewed behind a barrier:
//!   the predecessor deletes its record, and the heir goes on with a new token. Not renewed without
//!   one, or given up: both tokens are tainted. The heir may have left by the time it is settled;
//!   then whoever reads that gives the lease back.
//! - Wake-ups between processes, in a model of their own: see [`wake`].
//!
//! # What is not modelled
//!
//! Failover, replicas, `ROLE`, restarts, eviction, writes by foreign clients, clock steps. Commands
//! that were not sent or not run (they leave no trace; the model has them as never begun). Links
//! shared by several leases. When a retry comes, and how long release waits for a renewal in flight:
//! here that is any moment. A second look at the record on the same link (`ROLE`, or a script that
//! is sent as text) is another renewal. `max_hold`, fences, `adopt`. That notices come *in time*, and
//! what a callback does. Whether user code has begun to run when its callback "begins": between that
//! step and its first instruction a thread can be stopped, and only a release that waited for
//! callbacks to end could know. The reaper's 1,024 places. Liveness: nothing here says that a lock is
//! ever obtained.
//!
//! Of hand-over: the queue in memory (an heir is there whenever a lease is released, or is not), the
//! ends of a chain (16 in a row, 10 ms), and the order between threads. An heir that has left before
//! the hand-over is sent is one that never was; one that is given the lease and gives it back, and
//! one that is gone and has it given back, differ in nothing.
//!
//! # Size
//!
//! It is a test binary of its own, because it keeps every core busy: beside it, tests that watch
//! a clock would be starved.
//!
//! All states that can be reached are visited, whatever the length of the run. Per client, *t*
//! tokens may be unsettled, and *h* more if they go to heirs, *b* broken links may still carry
//! commands, and *r* renewals may be out at the same time; *m* is the danger margin in ticks, where
//! there is a watch:
//!
//! | test | ttl | A | B | unique states |
//! |---|---|---|---|---|
//! | two equal clients | 3 | t 1, b 1, r 1 | t 1, b 1, r 1 | 835,616 |
//! | an older token is unsettled | 3 | t 2, b 1, r 1 | t 1 | 2,380,852 |
//! | two broken links, to the reaper's end | 3 | t 1, b 2, r 1 | t 1 | 1,193,237 |
//! | a renewal and its retry | 4 | t 1, r 2 | t 1 | 284,815 |
//! | danger and loss are told | 5 | t 1, r 1, m 2 | t 1 | 793,862 |
//! | what an unknown release says | 3 | t 1, b 1, r 1 | t 1 | 1,184,016 |
//! | clocks beyond the allowance | 3 | t 1, b 1, r 1 | t 1, b 1 | 412,689 |
//! | a lease is handed over | 3 | t 1, h 1, b 1, r 1 | t 1 | 985,227 |
//! | both hand over | 3 | t 1, h 1, r 1 | t 1, h 1 | 593,133 |
//! | what an unknown hand-over says | 3 | t 1, h 1, b 2, r 2 | none | 156,408 |
//! | settled by the predecessor's delete | 3 | t 1, h 1, b 1 | t 1 | 476,906 |
//! | retries in the danger zone (`--ignored`) | 5 | t 1, r 2, m 2 | t 1 | 3,253,626 |
//! | older token, to the reaper's end (`--ignored`) | 3 | t 2, b 1, r 1 | t 1 | 4,750,198 |
//! | older token, late commands of both (`--ignored`) | 3 | t 2, b 1, r 1 | t 1, b 1, r 1 | 7,383,550 |
//! | older token, two broken links (`--ignored`) | 3 | t 2, b 2, r 1 | t 1 | 18,270,962 |
//! | both hand over, late commands (`--ignored`) | 3 | t 1, h 1, b 1 | t 1, h 1 | 1,939,515 |
//! | an older token and an heir (`--ignored`) | 3 | t 2, h 1, b 1 | t 1 | 5,283,220 |
//! | an heir, two broken links (`--ignored`) | 3 | t 1, h 1, b 2, r 1 | t 1 | 5,474,886 |
//!
//! The ignored ones aside, that and the wake-ups are some 65 s of processor time with
//! `opt-level = 1`, on two cores at once, and 0.4 GB; unoptimized it takes many times as long. Each
//! test prints its own figures.
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
//!   then the record is B's.
//! - *Reaper without compare.* A's acquisition came to nothing, and its reaper removes B's record.
//! - *Unanswered ends the reaper.* The server cannot be reached for one ttl, and the reaper gives up
//!   a token whose `SET` may still run, or has.
//! - *Renewal not stopped.* A's renewal is in the batch, A's release returns, the batch is sent.
//! - *Renewal that re-creates.* A's renewal stays on its way, A's release answers `Ok`, then the
//!   renewal runs, and a record stands that nobody owns.
//! - *Late confirmation applied.* The renewal ran in time, its answer is read after the deadline.
//! - *Danger, loss at every look.* The watch looks twice in one stay in the zone, or after the loss.
//! - *Danger waits for a renewal.* The watch looks while a renewal is out, and next when the deadline
//!   has passed.
//! - *Notice begun unlooked.* A callback thread comes to the danger when the lease is lost, or when
//!   its release has returned.
//! - *Stale notice begun.* A danger waits for a callback thread while a confirmation ends the stay;
//!   in the next stay both begin.
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
//! Those of hand-over:
//!
//! - *Unanswered handed over.* The script is still on its way, A's heir takes itself for the holder,
//!   the predecessor's record expires, and B has the lock.
//! - *Hand-over without compare.* A's lease has expired, B has taken the lock, then the script runs.
//! - *Hand-over marked late.* The script has run, and the predecessor still relies on its lease.
//! - *Heir's deadline from the reply.* The reply lies about for a tick.
//! - *Renewal handed over.* The predecessor's renewal is in the batch, its release returns, the batch
//!   is sent.
//! - *Handed over and deleted.* The predecessor deletes what its key holds, and that is the heir's.
//! - *Release with the heir's token.* The script was fenced off; the delete with the heir's token
//!   finds nothing, and the predecessor's record stands, though nobody owns it.
//! - *Heir gone unnoticed.* The heir's budget ended before the answer came, and nobody gives back.
//! - *Heir left untainted.* The script has run, the release gives up, and its reaper knows of the
//!   predecessor's token alone.
//! - *Tainted heir settled.* Both tokens are the reaper's, the heir goes on settling, holds, and is
//!   reaped. The counterexample comes to the delete before the heir comes to hold: it is still told
//!   that it is waited for.
//! - *Heir's token reused.* Both tokens are the reaper's, the script may still run, and the heir
//!   takes the lock with the same token; the reaper's delete is out and removes it.
//! - *Bound that ignores the heir.* The script runs shortly before the predecessor's record would
//!   have expired, and the reaper has not come to it when the bound is over.
//! - *Heir disproven without barrier.* The kill is refused, the record is not the heir's, and the
//!   script may still run.
//!
//! # What it says about the rules
//!
//! - The kill and the compare-and-renew may go out in one batch, and a second unknown while
//!   resolving needs no barrier for the link of the first resolving, only for that of the `SET`.
//! - A release needs the barrier for none of its answers: it may be refused each time, and every
//!   `Ok` is still true. "Another's" before the deadline proves as much as "gone".
//! - A release need not wait for a renewal in flight: whichever runs first, its record stays
//!   deleted. What the wait buys is the bound of an unknown release.
//! - The deadline is the least that a record stands, and so no answer to how long it *may* stand
//!   after an unknown release. That counts from the reply of the last confirmed command, and while a
//!   renewal went unanswered on a link that was not fenced off, there is no such instant at all: it
//!   may run just before the record expires. An answer that has come and was not read counts as none.
//! - A callback thread that asks only "is it danger?" can begin two callbacks in one stay, since the
//!   notice of the stay before may still wait for its thread. It has to ask of which stay it is.
//! - What was sent before the reaper's first other answer need not have landed by then, nor one ttl
//!   later: a `SET` that runs after the reaper's end stands for its ttl. It costs others a wait, and
//!   no property.
//! - A hand-over need not wait for the predecessor's renewal in flight either: it prolongs the
//!   predecessor's record, or finds another.
//! - An unknown hand-over needs no barrier if it is settled in another order: first the compare-and-
//!   delete with the predecessor's token, then the compare-and-renew with the heir's, in one batch.
//!   Answered either way, the delete leaves nothing that could be handed over, for no `SET` with that
//!   token is out; the heir then holds, or never will. This rests on one server with one history:
//!   behind a name that leads to another one, or to a replica, the answers prove nothing.
//! - The end of the predecessor's record is not the end of an unknown hand-over: it may run just
//!   before, and then the heir's record stands for a ttl of its own. A renewal that was to settle it
//!   and went unanswered may run later still.
//! - Clocks beyond the allowance cost exclusion, and the releases that conclude from the clock. A
//!   release whose delete was answered "deleted", the barrier, the deletes and the finality of a loss
//!   do not rest on clocks.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says that it failed by panicking, and prints what it has explored"
)]

mod breach;
mod client;
mod explorer;
mod fault;
mod handed;
mod heir;
mod phase;
mod property;
mod protocol;
mod queue;
mod reaper;
mod renewal;
mod server;
mod state;
mod token;
mod wake;
mod watch;
mod witness;

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries};

use fault::Fault;
use property::{
    DANGER_FIRST, EXCLUSION, FINAL_LOSS, NO_DANGER_WHEN_LOST, NO_ORPHAN, NO_WRONG_DELETE,
    NOTICES_END, OWNED, REAPER_SERVED, RENEWAL_STOPS, SET_ONCE, STANDS, TOLD_ONCE, TRUE_BOUND,
    TRUE_RELEASE,
};
use protocol::{Protocol, Room, Size};
use witness::Witness;

#[test]
fn every_interleaving_of_two_equal_clients_keeps_every_property() {
    keeps_every_property(Protocol::new(size(3, room(1, 1, 1), room(1, 1, 1))));
}

#[test]
fn every_interleaving_keeps_every_property_while_an_older_token_is_unsettled() {
    keeps_every_property(Protocol::new(size(3, room(2, 1, 1), room(1, 0, 0))));
}

#[test]
fn every_interleaving_keeps_every_property_while_two_broken_links_carry_commands_to_the_reapers_end()
 {
    let mut protocol = Protocol::new(size(3, room(1, 2, 1), room(1, 0, 0)));
    protocol.counts_reaper = true;
    keeps_every_property(protocol);
}

#[test]
fn every_interleaving_keeps_every_property_while_a_renewal_and_its_retry_are_out() {
    keeps_every_property(Protocol::new(size(4, room(1, 0, 2), room(1, 0, 0))));
}

#[test]
fn every_interleaving_keeps_every_property_while_danger_and_loss_are_told() {
    let watched = watched(room(1, 0, 1), 2);
    keeps_every_property(Protocol::new(size(5, watched, room(1, 0, 0))));
}

#[test]
fn an_unknown_release_is_right_about_how_long_its_record_stands() {
    let mut protocol = Protocol::new(size(3, room(1, 1, 1), room(1, 0, 0)));
    protocol.tracks_bound = true;
    keeps_every_property(protocol);
}

#[test]
#[ignore = "half a minute; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_while_retries_are_out_in_the_danger_zone() {
    let watched = watched(room(1, 0, 2), 2);
    keeps_every_property(Protocol::new(size(5, watched, room(1, 0, 0))));
}

#[test]
#[ignore = "half a minute; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_with_an_older_token_to_the_reapers_end() {
    let mut protocol = Protocol::new(size(3, room(2, 1, 1), room(1, 0, 0)));
    protocol.counts_reaper = true;
    keeps_every_property(protocol);
}

#[test]
#[ignore = "a minute or more; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_with_an_older_token_and_late_commands_of_both() {
    keeps_every_property(Protocol::new(size(3, room(2, 1, 1), room(1, 1, 1))));
}

#[test]
#[ignore = "minutes, and 3 GB; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_with_an_older_token_and_two_broken_links() {
    keeps_every_property(Protocol::new(size(3, room(2, 2, 1), room(1, 0, 0))));
}

#[test]
fn clocks_beyond_the_allowance_cost_exclusion_and_inferred_releases_and_nothing_else() {
    let mut protocol = Protocol::new(size(3, room(1, 1, 1), room(1, 1, 0)));
    protocol.fault = Some(Fault::ClockBeyondAllowance);
    let checker = explore(protocol, HasDiscoveries::All);
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
fn a_reaper_that_does_not_compare_removes_a_foreign_record() {
    shows(Fault::ReaperWithoutCompare, NO_WRONG_DELETE);
}

#[test]
fn a_reaper_that_counts_from_its_first_attempt_gives_up_before_the_server_has_answered() {
    shows(Fault::UnansweredEndsReaper, REAPER_SERVED);
}

#[test]
fn a_token_reused_after_a_delete_is_seen_as_such() {
    shows(Fault::TokenReusedAfterDelete, SET_ONCE);
}

#[test]
fn a_release_that_leaves_the_batch_alone_sees_a_renewal_go_out_after_it() {
    shows(Fault::RenewalNotStopped, RENEWAL_STOPS);
}

#[test]
fn a_watch_that_forgets_tells_of_danger_twice() {
    shows_to_watch(Fault::DangerAtEveryLook, TOLD_ONCE);
}

#[test]
fn a_watch_that_forgets_tells_of_the_loss_twice() {
    shows_to_watch(Fault::LossAtEveryLook, TOLD_ONCE);
}

#[test]
fn a_notice_of_a_stay_that_is_over_is_begun_in_the_next_one_as_well() {
    shows_to_watch(Fault::StaleNoticeBegun, TOLD_ONCE);
}

#[test]
fn a_watch_that_waits_for_a_renewal_passes_danger_over() {
    shows_to_watch(Fault::DangerWaitsForRenewal, DANGER_FIRST);
}

#[test]
fn a_notice_begun_without_another_look_tells_of_danger_after_the_loss() {
    shows_to_watch(Fault::NoticeBegunUnlooked, NO_DANGER_WHEN_LOST);
}

#[test]
fn a_notice_begun_without_another_look_outlives_the_release() {
    shows_to_watch(Fault::NoticeBegunUnlooked, NOTICES_END);
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

/// Without a watch. Where no broken links are allowed, the commands of acquire and release arrive
/// before the client gives up waiting; replies may still be lost.
fn room(tokens: u8, broken: u8, renewals: u8) -> Room {
    Room {
        tokens,
        heirs: 0,
        broken,
        renewals,
        margin: 0,
    }
}

fn watched(room: Room, margin: u8) -> Room {
    Room { margin, ..room }
}

fn size(ttl: u8, a: Room, b: Room) -> Size {
    Size { ttl, rooms: [a, b] }
}

fn keeps_every_property(protocol: Protocol) {
    let checker = explore(protocol, HasDiscoveries::AnyFailures);
    checker.assert_properties();
    for witness in Witness::of(checker.model()) {
        assert!(
            checker.model().has_witnessed(witness),
            "the exploration never came across {witness:?}"
        );
    }
}

fn shows(fault: Fault, property: &'static str) {
    shows_in(size(3, room(1, 2, 1), room(1, 1, 1)), fault, property);
}

/// Where both clients have a watch.
fn shows_to_watch(fault: Fault, property: &'static str) {
    let watched = watched(room(1, 1, 1), 1);
    shows_in(size(3, watched, watched), fault, property);
}

fn shows_in(size: Size, fault: Fault, property: &'static str) {
    explorer::shows(fault, property, || {
        let mut protocol = Protocol::new(size);
        protocol.fault = Some(fault);
        protocol.tracks_bound = property == TRUE_BOUND;
        protocol.tracks_owners = property == OWNED;
        protocol.counts_reaper = property == REAPER_SERVED;
        protocol
    });
}

fn explore(protocol: Protocol, finish_when: HasDiscoveries) -> impl Checker<Protocol> {
    let size = protocol.size;
    explorer::explore(protocol, size, finish_when)
}
