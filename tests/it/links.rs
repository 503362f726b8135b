//! Links: replies in pieces, late, wrong or never, and connections that end.

mod endings;
mod replies;

use std::time::Duration;

use leasehold::Client;

use crate::support::PATIENCE;

/// The timeouts of a [`hasty`] client.
pub(crate) const HASTE: Duration = Duration::from_millis(250);

/// The least that one of them takes: what is left of it below a millisecond is not waited for.
const NEARLY_HASTE: Duration = Duration::from_millis(249);

/// A client whose timeouts only a fault uses up, however busy the machine.
pub(crate) fn patient(url: &str) -> Client {
    let client = Client::builder(url)
        .connect_timeout(PATIENCE)
        .command_timeout(PATIENCE);
    client.build().unwrap()
}

/// A client for tests that run into its timeouts.
pub(crate) fn hasty(url: &str) -> Client {
    let client = Client::builder(url)
        .connect_timeout(HASTE)
        .command_timeout(HASTE);
    client.build().unwrap()
}
