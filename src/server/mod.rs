//! Speaking to Redis: the only room that knows the `redis` crate.
//!
//! Read from the top: [`verbs`] is what the rest of the house asks for, [`single`]
//! answers it for one server over the [`pool`] of [`link`]s; [`call`], [`scripts`], [`keys`]
//! and [`command`] are what goes out, [`reply`] is what comes back, and [`fault`] sorts every
//! failure into not sent, not run, refused, or unknown.

mod address;
mod broken;
mod call;
mod command;
mod fault;
mod handshake;
mod keys;
mod link;
mod pool;
mod reply;
mod scripts;
mod single;
mod socket;
mod verbs;

pub(crate) use address::Address;
pub(crate) use broken::Broken;
pub(crate) use fault::{Class, Fault};
pub(crate) use keys::Keys;
pub(crate) use link::Timeouts;
pub(crate) use single::SingleServer;
#[cfg(test)]
pub(crate) use verbs::Seen;
pub(crate) use verbs::{Acquired, Answer, Bound, Owner, Target, Verbs};
