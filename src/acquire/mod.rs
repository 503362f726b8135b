//! Getting a lease: one attempt with its unknown settled, and the wait around it.

mod attempt;
mod canceller;
mod wait;

pub use canceller::Canceller;
pub(crate) use wait::{Patience, Wait, acquire};
