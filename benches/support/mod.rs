//! What the benches with a server need: the server itself, the socket to compare with, the
//! cores to run on, and the comparison.

pub(crate) mod bare;
pub(crate) mod placement;
pub(crate) mod ratio;
pub(crate) mod server;
