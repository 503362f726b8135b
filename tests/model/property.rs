//! What must hold in every state.

use stateright::Property;

use super::fault::Fault;
use super::protocol::Protocol;
use super::state::{Bound, Breach, Phase, State, Who};

pub(super) const EXCLUSION: &str = "two clients never rely on a lease at once";
pub(super) const STANDS: &str = "the record of a lease that is relied on stands";
pub(super) const NO_ORPHAN: &str = "a token disowned behind a barrier never stands again";
pub(super) const NO_WRONG_DELETE: &str = "no foreign record and no relied-on record is deleted";
pub(super) const FINAL_LOSS: &str = "no lost lease is revived";
pub(super) const TRUE_RELEASE: &str = "a release that answers Ok has deleted the record for good";
pub(super) const SET_ONCE: &str = "no token goes into a SET once a delete with it may be out";
pub(super) const RENEWAL_STOPS: &str = "no renewal is sent after the release has returned";
pub(super) const TOLD_ONCE: &str = "danger is told once for each stay in the zone, and loss once";
pub(super) const NO_DANGER_WHEN_LOST: &str = "no callback for danger begins when the lease is lost";
pub(super) const NOTICES_END: &str = "no callback begins after the release has returned";
pub(super) const DANGER_FIRST: &str = "a danger that the watch has seen is told before the loss";
pub(super) const REAPER_SERVED: &str = "the reaper gives up no token before the server answered";
pub(super) const TRUE_BOUND: &str = "an unknown release is right about how long its record stands";

pub(super) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(EXCLUSION, |protocol, state| {
            !Who::BOTH
                .iter()
                .all(|&who| relies_on_lease(protocol, state, who))
        }),
        Property::always(STANDS, |_, state| {
            Who::BOTH.iter().all(|&who| lease_stands(state, who))
        }),
        Property::always(NO_ORPHAN, |_, state| {
            Who::BOTH.iter().all(|&who| no_orphan(state, who))
        }),
        Property::always(NO_WRONG_DELETE, |_, state: &State| {
            state.breach != Some(Breach::WrongDelete)
        }),
        Property::always(FINAL_LOSS, |_, state: &State| {
            state.breach != Some(Breach::Revived)
        }),
        Property::always(SET_ONCE, |_, state: &State| {
            state.breach != Some(Breach::SetAfterDelete)
        }),
        Property::always(RENEWAL_STOPS, |_, state: &State| {
            state.breach != Some(Breach::RenewedAfterRelease)
        }),
        Property::always(TOLD_ONCE, |_, state: &State| {
            state.breach != Some(Breach::ToldTwice)
        }),
        Property::always(NO_DANGER_WHEN_LOST, |_, state: &State| {
            state.breach != Some(Breach::DangerAfterDeadline)
        }),
        Property::always(NOTICES_END, |_, state: &State| {
            state.breach != Some(Breach::NoticeAfterEnd)
        }),
        Property::always(DANGER_FIRST, |_, state: &State| {
            state.breach != Some(Breach::DangerPassedOver)
        }),
        Property::always(REAPER_SERVED, |_, state: &State| {
            state.breach != Some(Breach::GivenUpUnserved)
        }),
        Property::always(TRUE_RELEASE, |_, state: &State| {
            state.breach != Some(Breach::UntrueRelease)
                && Who::BOTH.iter().all(|&who| release_is_final(state, who))
        }),
        Property::always(TRUE_BOUND, |_, state| {
            Who::BOTH.iter().all(|&who| bound_is_true(state, who))
        }),
    ]
}

fn relies_on_lease(protocol: &Protocol, state: &State, who: Who) -> bool {
    match state.client(who).phase {
        Phase::Held { .. } => true,
        Phase::Releasing { left, .. } => {
            left > 0 && protocol.fault == Some(Fault::ReleaseMarkedLate)
        }
        _ => false,
    }
}

/// Stronger than exclusion, and independent of whether somebody else happens to come along.
fn lease_stands(state: &State, who: Who) -> bool {
    match state.client(who).phase {
        Phase::Held { token, .. } => state.record_is(who, token),
        _ => true,
    }
}

fn no_orphan(state: &State, who: Who) -> bool {
    let client = state.client(who);
    client
        .disowned
        .iter()
        .all(|token| !state.record_is(who, token) && !client.could_set(token))
}

fn release_is_final(state: &State, who: Who) -> bool {
    let released = state.client(who).released;
    released.iter().all(|token| !state.record_is(who, token))
}

/// Only a release that gave up has named its bound; it is the one whose token is tainted.
fn bound_is_true(state: &State, who: Who) -> bool {
    let client = state.client(who);
    match client.bound {
        Bound::Within { token, left: 0 } => {
            client.reaper.doubt(token).is_none() || !state.record_is(who, token)
        }
        _ => true,
    }
}
