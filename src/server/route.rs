//! The way to one server, and what everybody who goes there has in common.

use std::sync::Arc;

use super::address::Address;
use super::class::Class;
use super::fault::Fault;
use super::link::Timeouts;
use super::siblings::Siblings;
use crate::clock::Clock;
use crate::error::Cause;
use crate::stats::Counters;

#[derive(Clone)]
pub(super) struct Route {
    pub(super) address: Arc<Address>,
    /// The server as messages name it.
    pub(super) server: Arc<str>,
    pub(super) clock: Clock,
    pub(super) timeouts: Timeouts,
    pub(super) counters: Arc<Counters>,
    pub(super) siblings: Arc<Siblings>,
}

impl Route {
    /// Somebody else was to reach the server, and has not.
    pub(super) fn away(&self, class: Class) -> Fault {
        let server = self.server.to_string();
        Fault::new(class, "connect", Cause::Away { server })
    }
}
