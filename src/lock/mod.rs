//! A lock: a name on a server plus options. It holds nothing by itself.

mod builder;
mod family;

pub use builder::LockBuilder;
pub use family::Lock;
