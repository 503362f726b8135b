//! What must hold in every state.

use stateright::Property;

use super::breach::Breach;
use super::fault::Fault;
use super::phase::Phase;
use super::protocol::Protocol;
use super::state::{Bound, State, Who};
use super::token::Token;

pub(super) const EXCLUSION: &str = "two clients never rely on a lease at once";
pub(super) const STANDS: &str = "the record of a lease that is relied on stands to its deadline";
pub(super) const NO_ORPHAN: &str = "a token disowned behind a barrier never stands again";
pub(super) const NO_WRONG_DELETE: &str = "no foreign record and no relied-on record is deleted";
pub(super) const FINAL_LOSS: &str = "no lost lease is revived";
pub(super) const TRUE_RELEASE: &str = "a release that answers Ok has deleted the record for good";
pub(super) const SET_ONCE: &str =
    "no token goes into a SET while an earlier SET or a delete with it may be out";
pub(super) const RENEWAL_STOPS: &str = "no renewal is sent after the release has returned";
pub(super) const TOLD_ONCE: &str = "danger is told once for each stay in the zone, and loss once";
pub(super) const NO_DANGER_WHEN_LOST: &str = "no callback for danger begins when the lease is lost";
pub(super) const NOTICES_END: &str = "no callback begins after the release has returned";
pub(super) const DANGER_FIRST: &str = "a danger that the watch has seen is told before the loss";
pub(super) const REAPER_SERVED: &str = "the reaper gives up no token before the server answered";
pub(super) const OWNED: &str = "no record stands that no call, lease, reaper or dead process owns";
pub(super) const TRUE_BOUND: &str = "an unknown release is right about how long its record stands";

pub(super) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(EXCLUSION, |protocol, state| {
            !Who::BOTH
                .iter()
                .all(|&who| relied_on(protocol, state, who).is_some())
        }),
        Property::always(STANDS, |protocol, state| {
            Who::BOTH
                .iter()
                .all(|&who| lease_stands(protocol, state, who))
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
            state.breach != Some(Breach::SetTooSoon)
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
        Property::always(OWNED, |protocol, state: &State| {
            !protocol.tracks_owners || is_owned(state)
        }),
        Property::always(TRUE_BOUND, |_, state| {
            Who::BOTH.iter().all(|&who| bound_is_true(state, who))
        }),
    ]
}

/// The lease that somebody relies on, and how much longer.
fn relied_on(protocol: &Protocol, state: &State, who: Who) -> Option<(Token, u8)> {
    let marked_late = protocol.fault == Some(Fault::ReleaseMarkedLate);
    match state.client(who).phase {
        Phase::Held { token, left } => Some((token, left)),
        Phase::Releasing { token, left, .. } if marked_late && left > 0 => Some((token, left)),
        Phase::HandingOver(hand)
            if protocol.fault == Some(Fault::HandOverMarkedLate) && hand.left > 0 =>
        {
            Some((hand.from, hand.left))
        }
        _ => None,
    }
}

/// Stronger than exclusion, and independent of whether somebody else happens to come along.
fn lease_stands(protocol: &Protocol, state: &State, who: Who) -> bool {
    relied_on(protocol, state, who).is_none_or(|(token, left)| {
        state.record_is(who, token) && state.record.is_some_and(|record| left <= record.left)
    })
}

fn is_owned(state: &State) -> bool {
    state.record.is_none_or(|record| {
        let client = state.client(record.owner);
        [client.phase.token(), client.phase.heir()].contains(&Some(record.token))
            || client.reaper.doubt(record.token).is_some()
            || client.orphaned.contains(record.token)
    })
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
