//! What goes out without a script.

use super::command::{Batch, Decimal};
use super::request::Request;
use super::target::Target;

pub(super) const SET: &str = "SET";

/// `SET key token NX PX ttl`: one command takes the lock, so that no moment leaves it
/// without an expiry.
pub(super) struct Take<'a>(pub(super) Target<'a>);

impl Request for Take<'_> {
    fn pack(&self, batch: &mut Batch) {
        let Self(target) = self;
        let ttl = Decimal::of(target.ttl);
        batch.push(&[
            b"SET",
            target.keys.record().as_bytes(),
            target.token.expose().as_bytes(),
            b"NX",
            b"PX",
            ttl.as_bytes(),
        ]);
    }

    fn commands(&self) -> &'static [&'static str] {
        &[SET]
    }
}

/// Every user may send it, unlike `PING`.
pub(super) struct Hello;

impl Request for Hello {
    fn pack(&self, batch: &mut Batch) {
        batch.push(&[b"HELLO"]);
    }

    fn commands(&self) -> &'static [&'static str] {
        &["HELLO"]
    }
}
