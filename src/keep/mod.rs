//! Keeping a lease: the terms it is held on, its record, and giving it back.

mod base;
mod record;
mod release;
mod renew;
mod site;
mod terms;

pub(crate) use base::Base;
pub(crate) use record::{Record, Standing};
pub(crate) use release::{give_back, release};
pub(crate) use renew::{renew, verify};
pub(crate) use site::{Site, error_of};
pub(crate) use terms::{Options, Renewal, Terms};
