//! The bytes that have come in on a link and have not been taken as replies yet.

use std::ops::Range;

use redis::Value;

use super::reply::{self, Garbage};

pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// The part that has come in and has not been taken.
    pending: Range<usize>,
}

impl Inbox {
    pub(super) fn of(size: usize) -> Self {
        Self {
            bytes: vec![0; size],
            pending: 0..0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes the first reply, if all of it is there.
    pub(super) fn take(&mut self) -> Result<Option<Value>, Garbage> {
        let Some((value, length)) = reply::decode(&self.bytes[self.pending.clone()])? else {
            return Ok(None);
        };
        self.pending.start += length;
        Ok(Some(value))
    }

    /// Where the next bytes go. Room is made at the front first; only a reply that fills all of
    /// it gets more.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.pending.is_empty() {
            self.pending = 0..0;
        } else if self.pending.end == self.bytes.len() {
            if self.pending.start == 0 {
                self.bytes.resize(self.bytes.len() * 2, 0);
            } else {
                self.bytes.copy_within(self.pending.clone(), 0);
                self.pending = 0..self.pending.len();
            }
        }
        &mut self.bytes[self.pending.end..]
    }

    /// So many bytes have been put where [`room`](Self::room) said.
    pub(super) fn filled(&mut self, count: usize) {
        self.pending.end += count;
    }
}
