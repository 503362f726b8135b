//! What is counted while something is done, and no longer: also when that unwinds.

use super::Pool;

/// A slot that goes back to the pool unless it is forgotten, also when a caller unwinds.
pub(super) struct Slot<'a> {
    pub(super) pool: &'a Pool,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.pool.free_slot();
    }
}

/// Counts a link beyond the most, also when its use unwinds.
pub(super) struct Extra<'a> {
    pool: &'a Pool,
}

impl<'a> Extra<'a> {
    pub(super) fn begun(pool: &'a Pool) -> Self {
        pool.state.lock().extra += 1;
        Self { pool }
    }
}

impl Drop for Extra<'_> {
    fn drop(&mut self) {
        self.pool.state.lock().extra -= 1;
    }
}

/// Counts a link as being opened, also when opening it unwinds.
pub(super) struct Opening<'a> {
    pool: &'a Pool,
}

impl<'a> Opening<'a> {
    pub(super) fn begun(pool: &'a Pool) -> Self {
        pool.state.lock().opening += 1;
        Self { pool }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.pool.state.lock().opening -= 1;
    }
}
