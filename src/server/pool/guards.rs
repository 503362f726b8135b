//! What is counted while something is done, and no longer: also when that unwinds.

use super::{Pool, State};

/// A slot that goes back to the pool unless it is forgotten, also when a caller unwinds.
pub(super) struct Slot<'a> {
    pub(super) pool: &'a Pool,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.pool.free_slot();
    }
}

/// Counts one more of something, for as long as it is there.
pub(super) struct Counted<'a> {
    pool: &'a Pool,
    count: fn(&mut State) -> &mut usize,
}

impl<'a> Counted<'a> {
    pub(super) fn begun(pool: &'a Pool, count: fn(&mut State) -> &mut usize) -> Self {
        *count(&mut pool.state.lock()) += 1;
        Self { pool, count }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *(self.count)(&mut self.pool.state.lock()) -= 1;
    }
}
