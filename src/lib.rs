//! placeholder
pub use acquire::Canceller;
pub use client::{Client, ClientBuilder, Holder};
pub use error::Error;
pub use fence::{FenceGate, Stale};
pub use lease::{Lease, LeaseState, LeaseWatch};
pub use lock::{Lock, LockBuilder};
pub use stats::Stats;
pub use token::Token;

mod client;
mod lease;
mod lock;

mod acquire;
mod keep;
mod server;

mod backoff;
mod clock;
mod error;
mod fence;
mod fork;
mod stats;
mod token;
