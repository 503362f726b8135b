//! What the benches with a server need: what they were asked for, the server itself, the socket
//! to compare with, the cores to run on, and the figures.

#![allow(dead_code, reason = "each bench uses a part of it")]

pub(crate) mod arguments;
pub(crate) mod bare;
pub(crate) mod outcome;
pub(crate) mod pace;
pub(crate) mod placement;
pub(crate) mod ratio;
pub(crate) mod server;
pub(crate) mod times;
