//! Speaking to Redis: the only room that knows the `redis` crate.
//!
//! Read from the top: [`verbs`] is what the rest of the house asks for, [`single`]
//! answers it for one server over the [`pool`] of [`link`]s, where callers stand in line for a
//! [`turn`] and go out together in a [`convoy`]; [`request`], [`call`], [`scripts`], [`keys`] and
//! [`command`] are what goes out, [`reply`] is what comes back, and [`fault`] sorts every failure
//! into not sent, not run, refused, or unknown. [`mod@waiting`] blocks until somebody is woken.
//!
//! What goes on in the background has ways of its own: [`errand`] is what is asked for,
//! [`courier`] does it, hundreds of [`flight`]s at a time, over its [`lines`]; a [`mod@line`] is a
//! [`pipeline`]d link, and [`opening`] brings it.

mod address;
mod broken;
mod call;
mod class;
mod command;
mod convoy;
mod courier;
mod errand;
mod fault;
mod fencing;
mod flight;
mod handshake;
mod inbox;
mod keys;
mod line;
mod lines;
mod link;
mod opening;
mod pipeline;
mod plain;
mod poll;
mod pool;
mod reply;
mod request;
mod route;
mod scripts;
mod siblings;
mod single;
mod socket;
mod spare;
mod target;
mod turn;
mod verbs;
mod waiting;
mod wire;

pub(crate) use address::Address;
pub(crate) use broken::Broken;
#[cfg(test)]
pub(crate) use errand::Wake;
pub(crate) use errand::{Courier, Errand, Landed, Verb};
pub(crate) use fault::{Class, Fault};
pub(crate) use keys::Keys;
pub(crate) use link::Timeouts;
pub(crate) use single::SingleServer;
pub(crate) use target::{Owner, Target};
#[cfg(test)]
pub(crate) use verbs::Seen;
pub(crate) use verbs::{Acquired, Answer, Blocking, Bound, Entry, Verbs, WaitEnd, Waited};
