//! A lease that is handed on to another thread of the same client.

use super::fault::Fault;
use super::property::{
    EXCLUSION, NO_ORPHAN, NO_WRONG_DELETE, OWNED, RENEWAL_STOPS, SET_ONCE, STANDS, TRUE_BOUND,
};
use super::protocol::{Protocol, Room, Size};
use super::{keeps_every_property, room, shows_in, size};

#[test]
fn every_interleaving_keeps_every_property_while_a_lease_is_handed_over() {
    keeps(size(3, heirs(room(1, 1, 1)), room(1, 0, 0)));
}

#[test]
fn every_interleaving_keeps_every_property_while_both_clients_hand_over() {
    keeps(size(3, heirs(room(1, 0, 1)), heirs(room(1, 0, 0))));
}

#[test]
fn an_unknown_hand_over_is_right_about_how_long_a_record_stands() {
    // Whether the key is free for A or another's, is all one to the bound.
    let nobody = room(0, 0, 0);
    let mut protocol = Protocol::new(size(3, heirs(room(1, 2, 2)), nobody));
    protocol.tracks_bound = true;
    keeps_every_property(protocol);
}

#[test]
fn a_hand_over_settled_by_the_predecessors_delete_needs_no_barrier() {
    let mut protocol = Protocol::new(size(3, heirs(room(1, 1, 0)), room(1, 0, 0)));
    protocol.tracks_owners = true;
    protocol.settles_by_delete = true;
    keeps_every_property(protocol);
}

#[test]
#[ignore = "half a minute; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_with_an_older_token_and_an_heir() {
    keeps(size(3, heirs(room(2, 1, 0)), room(1, 0, 0)));
}

#[test]
#[ignore = "a quarter of a minute; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_while_both_clients_hand_over_late() {
    keeps(size(3, heirs(room(1, 1, 0)), heirs(room(1, 0, 0))));
}

#[test]
#[ignore = "half a minute; the parts of it run on their own"]
fn every_interleaving_keeps_every_property_with_an_heir_and_two_broken_links() {
    keeps(size(3, heirs(room(1, 2, 1)), room(1, 0, 0)));
}

#[test]
fn a_hand_over_taken_for_done_without_an_answer_breaks_exclusion() {
    shows(Fault::UnansweredHandedOver, EXCLUSION);
}

#[test]
fn a_hand_over_that_does_not_compare_breaks_exclusion() {
    shows(Fault::HandOverWithoutCompare, EXCLUSION);
}

#[test]
fn a_hand_over_that_does_not_compare_replaces_a_record_that_is_relied_on() {
    shows(Fault::HandOverWithoutCompare, STANDS);
}

#[test]
fn a_hand_over_that_leaves_the_batch_alone_sees_a_renewal_go_out_after_it() {
    shows(Fault::RenewalHandedOver, RENEWAL_STOPS);
}

#[test]
fn a_release_with_the_heirs_token_leaves_the_predecessors_record_to_nobody() {
    shows(Fault::ReleaseWithHeirsToken, OWNED);
}

#[test]
fn a_predecessor_that_deletes_what_it_handed_over_takes_the_heirs_lease_away() {
    shows(Fault::HandedOverAndDeleted, NO_WRONG_DELETE);
}

#[test]
fn an_heirs_token_that_nobody_reaps_leaves_its_record_to_nobody() {
    shows(Fault::HeirLeftUntainted, OWNED);
}

#[test]
fn an_heir_that_settles_a_token_of_the_reapers_is_reaped_while_it_holds() {
    shows(Fault::TaintedHeirSettled, NO_WRONG_DELETE);
}

#[test]
fn an_heirs_token_reused_after_an_unknown_is_seen_as_such() {
    shows(Fault::HeirsTokenReused, SET_ONCE);
}

#[test]
fn an_heirs_token_reused_after_an_unknown_loses_a_living_lease() {
    shows(Fault::HeirsTokenReused, NO_WRONG_DELETE);
}

#[test]
fn an_heir_that_leaves_before_its_lease_is_settled_leaves_its_record_to_nobody() {
    shows(Fault::HeirGoneUnnoticed, OWNED);
}

#[test]
fn an_heirs_record_outlives_the_bound_of_its_predecessors() {
    shows(Fault::BoundIgnoresHeir, TRUE_BOUND);
}

#[test]
fn a_hand_over_disproven_without_a_barrier_leaves_an_orphan() {
    shows(Fault::HeirDisprovenWithoutBarrier, NO_ORPHAN);
}

#[test]
fn a_lease_relied_on_until_its_hand_over_is_answered_has_lost_its_record() {
    shows(Fault::HandOverMarkedLate, STANDS);
}

#[test]
fn an_heirs_deadline_counted_from_the_reply_outlives_its_record() {
    shows(Fault::HeirsDeadlineFromReply, STANDS);
}

fn heirs(room: Room) -> Room {
    Room { heirs: 1, ..room }
}

fn keeps(size: Size) {
    let mut protocol = Protocol::new(size);
    protocol.tracks_owners = true;
    keeps_every_property(protocol);
}

fn shows(fault: Fault, property: &'static str) {
    shows_in(
        size(3, heirs(room(1, 1, 1)), room(1, 0, 0)),
        fault,
        property,
    );
}
