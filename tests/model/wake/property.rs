//! What must hold in every state.

use stateright::Property;

use super::model::Waking;
use super::process::PATIENCE;
use super::state::{Breach, Out, Phase, Process, State};

pub(super) const EXCLUSION: &str = "no two processes rely on a lease at once";
pub(super) const STANDS: &str = "a wake-up gives no lock: the record of a lease stands";
pub(super) const OWNED: &str = "no record stands that no call, lease, reaper or dead process owns";
pub(super) const SET_ONCE: &str = "no token is sent to be set while it may still be set";
pub(super) const NO_WRONG_DELETE: &str = "no record is deleted that its process relies on";
pub(super) const ONE_WAKE_UP: &str = "there is never more than one wake-up";
pub(super) const NEVER_TAKES: &str = "who only announces itself never takes the lock";
pub(super) const FOUND_IN_TIME: &str =
    "a waiter finds a free lock in one BLPOP's time, woken or not";
pub(super) const NO_NAP: &str =
    "where nothing is lost, nobody sleeps beside a lock that nobody goes for";

pub(super) fn all() -> Vec<Property<Waking>> {
    vec![
        Property::always(EXCLUSION, |_, state: &State| {
            let holders = state
                .processes
                .iter()
                .filter(|process| matches!(process.phase, Phase::Held { .. }));
            holders.count() < 2
        }),
        Property::always(STANDS, |_, state: &State| {
            (0..)
                .zip(&state.processes)
                .all(|(who, process)| match process.phase {
                    Phase::Held { token } => state.record_is(who, token),
                    _ => true,
                })
        }),
        Property::always(OWNED, |_, state: &State| is_owned(state)),
        Property::always(SET_ONCE, |_, state: &State| {
            state.breach != Some(Breach::SetTooSoon)
        }),
        Property::always(NO_WRONG_DELETE, |_, state: &State| {
            state.breach != Some(Breach::WrongDelete)
        }),
        Property::always(ONE_WAKE_UP, |_, state: &State| state.wake <= 1),
        Property::always(NEVER_TAKES, |_, state: &State| {
            state.breach != Some(Breach::TookUnasked)
        }),
        Property::always(FOUND_IN_TIME, |_, state: &State| {
            state
                .processes
                .iter()
                .all(|process| process.missed <= PATIENCE)
        }),
        Property::always(NO_NAP, |model, state: &State| {
            !model.size.lossless || nobody_naps(state)
        }),
    ]
}

fn is_owned(state: &State) -> bool {
    state.record.is_none_or(|record| {
        let process = state.process(record.owner);
        process.phase.owned() == Some(record.token)
            || process.tainted.contains(record.token)
            || process.orphaned.contains(record.token)
    })
}

/// A wake-up is there, or somebody is about to try the lock, if anybody waits while it is free.
fn nobody_naps(state: &State) -> bool {
    let waits = |process: &Process| match process.phase {
        Phase::Announced { .. } => true,
        Phase::Popping { .. } => !matches!(process.out, Out::Answered(_)),
        _ => false,
    };
    let goes_for_it = |process: &Process| match process.phase {
        Phase::Outside { .. } | Phase::Trying { .. } | Phase::Asking { .. } => true,
        Phase::Popping { .. } => matches!(process.out, Out::Answered(_)),
        _ => false,
    };
    state.record.is_some()
        || state.wake > 0
        || state.processes.iter().any(goes_for_it)
        || !state.processes.iter().any(waits)
}
