//! Keeping a lease: the terms it is held on, its record, the background that renews and watches
//! it, and giving it back.
//!
//! | thread | rooms | waits for |
//! |---|---|---|
//! | `leasehold-renew` | [`keeper`], [`agenda`], [`rounds`]; [`renewal`] and [`reaper`] say what for | what is due, and answers |
//! | `leasehold-watch` | [`watch`]; [`watching`] says what it sees in a lease | the clock alone |
//! | `leasehold-call` | [`callbacks`] | something to tell |
//!
//! The three share no mutex: what holds up the first is no matter to the second, and what holds
//! up the third delays nobody else's notice.

mod agenda;
mod base;
mod callbacks;
mod claim;
#[cfg(test)]
pub(crate) mod fake;
mod heirs;
mod keeper;
mod kept;
mod news;
mod reaper;
mod record;
mod release;
mod renew;
mod renewal;
mod rounds;
mod schedule;
mod site;
mod task;
mod terms;
mod troubles;
mod watch;
mod watched;
mod watching;

pub(crate) use base::Base;
pub(crate) use claim::{Claim, Handed, HeirSeat};
pub(crate) use heirs::{Bid, occupy};
pub(crate) use kept::keep;
pub(crate) use reaper::reap;
pub(crate) use record::{Record, Standing};
pub(crate) use release::{give_away, give_back, release, release_given};
pub(crate) use renew::{renew, verify};
pub(crate) use site::{Site, error_of};
pub(crate) use terms::{Options, Renewal, Terms};
pub(crate) use watched::{Notice, Wants, Watched};
