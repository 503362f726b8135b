//! Getting a lease: one attempt with its unknown settled, and the wait around it.

mod attempt;
mod canceller;
mod limits;
mod place;
mod wait;

pub use canceller::Canceller;
pub(crate) use limits::Patience;
pub(crate) use wait::{acquire, adopt};
