//! The way to one server, and what everybody who goes there has in common.

use std::sync::Arc;

use super::address::Address;
use super::link::Timeouts;
use super::siblings::Siblings;
use crate::clock::Clock;
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
