//! The same two commands on a bare blocking socket: what a cycle costs if nothing but the
//! exchange itself is done.
//!
//! It draws a fresh token for each cycle from the same source, sends the same bytes with the
//! same time to live, and compares each reply with the one that it must be. It has no
//! timeout, no clock, no pool, and ends the bench at the first thing out of the ordinary.

use std::io;
use std::time::Duration;

use redis::Value;
use socket2::Socket;

use super::slice::Turn;
use super::wire::{call, connect, exchange, pack};

/// The default of a lock, so that both sides send the same.
const TTL_MILLIS: &str = "30000";

/// What the library's release names besides the lock record, each with the key before it. That
/// it is the same is checked on a real server (`support/sameness.rs`).
const RELEASE_SIBLINGS: [&str; 2] = [":leasehold:waiting", ":leasehold:wake"];

/// What it says besides the token: how long a wake-up stays, and the client's name among waiters.
const RELEASE_WORDS: [&str; 2] = ["1000", "0123456789abcdef"];

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
pub(super) const ACQUIRED: &[u8] = b"+OK\r\n";
pub(super) const RELEASED: &[u8] = b":1\r\n";
const DIGITS: usize = 40;
const PLACEHOLDER: &str = "0000000000000000000000000000000000000000";

/// Where a token comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// Fresh for each cycle, as a lock needs it.
    Fresh,
    /// One for all cycles. No lock: it shows what the randomness costs.
    Constant,
}

pub(crate) struct Bare {
    socket: Socket,
    token: Token,
    acquire: Packed,
    release: Packed,
}

impl Bare {
    pub(crate) fn connect(url: &str, key: &str, token: Token) -> io::Result<Self> {
        let socket = connect(url)?;
        let digest = load_release(&socket)?;
        Ok(Self {
            socket,
            token,
            acquire: Packed::new(pack_acquire(key)),
            release: Packed::new(pack_release(&digest, key)),
        })
    }

    /// Gives the socket the timeouts that a client cannot do without.
    pub(crate) fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(timeout))?;
        self.socket.set_write_timeout(Some(timeout))
    }

    /// A line of `INFO`, of whichever section; `?` if there is none of that name.
    pub(crate) fn info(&self, name: &str) -> io::Result<String> {
        let reply = call(&self.socket, &["INFO", "all"])?;
        let Value::BulkString(text) = reply else {
            return Err(io::Error::other("INFO was not answered with a text"));
        };
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(field, _)| *field == name);
        Ok(found.map_or_else(|| "?".to_owned(), |(_, value)| value.to_owned()))
    }

    /// One round trip that touches no key.
    pub(crate) fn ping(&self) {
        exchange(&self.socket, PING, b"+PONG\r\n");
    }

    /// Says it to whoever watches with `MONITOR`.
    pub(crate) fn echo(&self, word: &str) -> io::Result<()> {
        call(&self.socket, &["ECHO", word]).map(drop)
    }

    pub(crate) fn cycle(&mut self) {
        self.acquire();
        self.release();
    }

    pub(crate) fn acquire(&mut self) {
        if self.token == Token::Fresh {
            let token = fresh_token();
            self.acquire.insert(&token);
            self.release.insert(&token);
        }
        exchange(&self.socket, &self.acquire.bytes, ACQUIRED);
    }

    pub(crate) fn release(&self) {
        exchange(&self.socket, &self.release.bytes, RELEASED);
    }

    /// A cycle that holds for `hold` in between.
    pub(crate) fn turn(&mut self, hold: Duration) -> Turn {
        let acquire = move || {
            self.acquire();
            self
        };
        Turn::take(hold, acquire, |bare| bare.release())
    }

    /// For a write that carries more than that.
    pub(super) fn packed_release(&self) -> &[u8] {
        &self.release.bytes
    }

    pub(super) const fn socket(&self) -> &Socket {
        &self.socket
    }
}

/// Loads the library's script, and returns its digest.
pub(super) fn load_release(socket: &Socket) -> io::Result<String> {
    let code = include_str!("../../lua/release.lua");
    match call(socket, &["SCRIPT", "LOAD", code])? {
        Value::BulkString(digest) => Ok(String::from_utf8_lossy(&digest).into_owned()),
        _ => Err(io::Error::other(
            "SCRIPT LOAD was not answered with a digest",
        )),
    }
}

/// With a placeholder for the token, which is one as well.
pub(super) fn pack_acquire(key: &str) -> Vec<u8> {
    pack(&["SET", key, PLACEHOLDER, "NX", "PX", TTL_MILLIS])
}

/// As [`pack_acquire`].
pub(super) fn pack_release(digest: &str, key: &str) -> Vec<u8> {
    let siblings = RELEASE_SIBLINGS.map(|sibling| format!("{key}{sibling}"));
    let count = (1 + siblings.len()).to_string();
    let mut command = vec!["EVALSHA", digest, &count, key];
    command.extend(siblings.iter().map(String::as_str));
    command.push(PLACEHOLDER);
    command.extend(RELEASE_WORDS);
    pack(&command)
}

fn fresh_token() -> [u8; DIGITS] {
    let mut random = [0; DIGITS / 2];
    getrandom::fill(&mut random).expect("the system has randomness");
    let mut token = [0; DIGITS];
    for (digits, byte) in token.chunks_exact_mut(2).zip(random) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 0xf)];
    }
    token
}

/// A command packed once, with the place where its token goes.
struct Packed {
    bytes: Vec<u8>,
    token_at: usize,
}

impl Packed {
    fn new(bytes: Vec<u8>) -> Self {
        let token_at = bytes
            .windows(DIGITS)
            .position(|window| window == PLACEHOLDER.as_bytes())
            .expect("the command has a token");
        Self { bytes, token_at }
    }

    fn insert(&mut self, token: &[u8; DIGITS]) {
        self.bytes[self.token_at..self.token_at + DIGITS].copy_from_slice(token);
    }
}
