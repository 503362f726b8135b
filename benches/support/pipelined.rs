//! The same two commands for many keys in one write: as fast as a server takes them.

use std::io;

use socket2::Socket;

use super::bare::{ACQUIRED, RELEASED, load_release, pack_acquire, pack_release};
use super::wire::{connect, exchange_into};

/// All is packed once, the token included, so that next to nothing of what it measures is its
/// own.
pub(crate) struct Pipelined {
    socket: Socket,
    batch: Vec<u8>,
    replies: Vec<u8>,
    /// For replies, and one byte more than there may be.
    read: Vec<u8>,
}

impl Pipelined {
    /// A batch acquires and releases each of `keys`.
    pub(crate) fn connect(url: &str, keys: &[String]) -> io::Result<Self> {
        let socket = connect(url)?;
        let digest = load_release(&socket)?;
        let cycles = keys
            .iter()
            .map(|key| [pack_acquire(key), pack_release(&digest, key)].concat());
        let replies = [ACQUIRED, RELEASED].concat().repeat(keys.len());
        Ok(Self {
            socket,
            batch: cycles.collect::<Vec<_>>().concat(),
            read: vec![0; replies.len() + 1],
            replies,
        })
    }

    pub(crate) fn batch(&mut self) {
        exchange_into(&self.socket, &self.batch, &self.replies, &mut self.read);
    }
}
