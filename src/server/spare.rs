//! Turns that have served, kept by the thread that waited in them.

use std::cell::Cell;
use std::sync::Arc;

use super::convoy::Turn;
use super::request::Request;
use crate::clock::Time;

thread_local! {
    /// A thread waits in one place at a time. There are two, since the last leader may not have let
    /// go of the one used last.
    static TURNS: Cell<[Option<Arc<Turn>>; 2]> = const { Cell::new([None, None]) };
}

/// A turn of this thread for `request`.
pub(super) fn turn_for(request: &dyn Request, end: Time) -> Arc<Turn> {
    // A thread that is at its end may have none any more.
    let mut turns = TURNS.try_with(Cell::take).unwrap_or_default();
    let free = turns.iter_mut().find_map(|slot| {
        let own = Arc::get_mut(slot.as_mut()?)?;
        own.renew(request, end);
        slot.take()
    });
    let _ = TURNS.try_with(|own| own.set(turns));
    free.unwrap_or_else(|| Arc::new(Turn::new(request, end)))
}

/// Keeps a turn for later, if there is room.
pub(super) fn keep(turn: Arc<Turn>) {
    // What still names a link would keep its socket open for as long as the thread lives.
    if !turn.is_clear() {
        return;
    }
    let mut turns = TURNS.try_with(Cell::take).unwrap_or_default();
    if let Some(slot) = turns.iter_mut().find(|slot| slot.is_none()) {
        *slot = Some(turn);
    }
    let _ = TURNS.try_with(|own| own.set(turns));
}
