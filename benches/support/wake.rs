//! A lock that is handed on with nothing but what Redis has for it: `BLPOP` to be woken, `SET` to
//! take it.

use std::io;
use std::time::Duration;

use super::bare::{Bare, RELEASED, Token};
use super::clock::now;
use super::wire::{exchange, pack};

/// Longer than anybody is kept waiting.
const SECONDS: &str = "30";

/// How long the list was for a moment.
const WOKEN: &[u8] = b":1\r\n";

/// One of those who hand it on.
pub(crate) struct Baton {
    bare: Bare,
    wait: Vec<u8>,
    woken: Vec<u8>,
    wake: Vec<u8>,
}

impl Baton {
    pub(crate) fn connect(url: &str, key: &str) -> io::Result<Self> {
        let list = format!("{key}:woken");
        Ok(Self {
            bare: Bare::connect(url, key, Token::Fresh)?,
            wait: pack(&["BLPOP", &list, SECONDS]),
            // The list, and its one element.
            woken: format!("*2\r\n${}\r\n{list}\r\n$1\r\n1\r\n", list.len()).into_bytes(),
            wake: pack(&["LPUSH", &list, "1"]),
        })
    }

    /// With `detour` there is one round trip more between the two.
    pub(crate) fn take(&mut self, detour: bool) {
        exchange(self.bare.socket(), &self.wait, &self.woken);
        if detour {
            self.bare.ping();
        }
        self.bare.acquire();
    }

    /// Frees the lock and wakes the next one, in one write: the least that a hand-over takes.
    /// Returns when that began.
    pub(crate) fn hand_on(&self) -> Duration {
        let both = [self.bare.packed_release(), &self.wake].concat();
        let begun = now();
        exchange(self.bare.socket(), &both, &[RELEASED, WOKEN].concat());
        begun
    }

    /// For a lock that nobody has had yet.
    pub(crate) fn wake(&self) {
        exchange(self.bare.socket(), &self.wake, WOKEN);
    }
}
