//! Places whose owners go in other ways than they were meant to.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::acquire::{Canceller, Patience};
use crate::clock::Time;
use crate::clock::fake::FakeClock;
use crate::keep::fake::{START, record};

/// A lock that nobody has to do with.
fn site(clock: &FakeClock) -> Arc<Site> {
    Arc::clone(&record(clock, None).site)
}

fn place<'a>(site: &'a Arc<Site>, limits: &Limits<'_>) -> Place<'a> {
    Place::take(site, Token::fresh(None).unwrap(), false, limits)
}

/// Limits of a wait that has no time left: it finds what there is, and does not wait.
fn over(site: &Arc<Site>) -> Limits<'_> {
    Limits::new(&site.base, Patience::Until(Time::from_nanos(START)), None)
}

fn has_its_turn(place: &mut Place<'_>, limits: &Limits<'_>) -> bool {
    matches!(place.wait(limits), Reached::Turn(_))
}

/// Loses `owner`'s place to a panic.
fn unwind(owner: Place<'_>) {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _place = owner;
        panic!("on purpose, while it waits");
    }));
    assert!(caught.is_err());
}

#[test]
fn whoever_unwinds_at_the_server_passes_its_turn() {
    let clock = FakeClock::at(START);
    let site = site(&clock);
    let limits = over(&site);
    let mut first = place(&site, &limits);
    assert!(has_its_turn(&mut first, &limits));
    let mut second = place(&site, &limits);
    unwind(first);
    assert!(has_its_turn(&mut second, &limits));
}

#[test]
fn whoever_unwinds_before_it_has_seen_its_turn_passes_it_all_the_same() {
    let clock = FakeClock::at(START);
    let site = site(&clock);
    let limits = over(&site);
    let first = place(&site, &limits);
    let mut second = place(&site, &limits);
    unwind(first);
    assert!(has_its_turn(&mut second, &limits));
}

#[test]
fn whoever_unwinds_in_the_middle_leaves_the_others_their_turns() {
    let clock = FakeClock::at(START);
    let site = site(&clock);
    let limits = over(&site);
    let mut first = place(&site, &limits);
    let second = place(&site, &limits);
    let mut third = place(&site, &limits);
    unwind(second);
    assert!(has_its_turn(&mut first, &limits));
    drop(first);
    assert!(has_its_turn(&mut third, &limits));
}

#[test]
fn whoever_unwinds_with_a_hand_over_in_doubt_passes_its_turn() {
    let clock = FakeClock::at(START);
    let held = Arc::new(record(&clock, None));
    crate::keep::occupy(&held);
    let site = Arc::clone(&held.site);
    let limits = over(&site);
    let first = place(&site, &limits);
    let mut second = place(&site, &limits);
    let leaves_by = Time::MAX;
    let heir = site.heirs.depart(site.key(), 0, leaves_by, true);
    let heir = heir.expect("it is the first lease of its client");
    let cause = Cause::Away {
        server: String::from("nowhere"),
    };
    site.heirs
        .leave_in_doubt(site.key(), &heir, Handed::InDoubt(cause));
    unwind(first);
    assert!(has_its_turn(&mut second, &limits));
}

#[test]
fn a_canceller_that_was_used_before_is_seen_and_one_that_is_used_later_is_heard() {
    let clock = FakeClock::at(START);
    let held = Arc::new(record(&clock, None));
    crate::keep::occupy(&held);
    let canceller = Canceller::new();
    let limits = Limits::new(&held.site.base, Patience::WhileHeld, Some(&canceller));
    let mut waits = place(&held.site, &limits);
    let waiter = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| matches!(waits.wait(&limits), Reached::Over(Word::Held)));
        canceller.cancel();
        waiter.join().unwrap()
    });
    assert!(waiter);
    let mut too_late = place(&held.site, &limits);
    assert!(matches!(too_late.wait(&limits), Reached::Over(Word::Held)));
}
