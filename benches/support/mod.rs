//! What the benches with a server need: what they were asked for, the server itself, the sockets
//! to compare with, the cores to run on, the other processes, and the figures.

#![allow(dead_code, reason = "each bench uses a part of it")]

pub(crate) mod arguments;
pub(crate) mod bare;
pub(crate) mod clock;
pub(crate) mod contender;
pub(crate) mod monitor;
pub(crate) mod outcome;
pub(crate) mod pace;
pub(crate) mod pair;
pub(crate) mod patience;
pub(crate) mod pipelined;
pub(crate) mod placement;
pub(crate) mod ratio;
pub(crate) mod sameness;
pub(crate) mod server;
pub(crate) mod slice;
pub(crate) mod times;
pub(crate) mod wake;
mod wire;
