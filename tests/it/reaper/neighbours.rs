//! Leases of the same client, which live on while tokens are reaped.

use std::time::Instant;

use leasehold::LeaseState;

use super::{KEY, LONG, deletions, ms, without_a_barrier};
use crate::support::{Matcher, PATIENCE, Server, eventually};
use crate::wire::{acquisition, client_with, take};

#[test]
fn deletions_without_an_answer_do_not_hold_up_the_renewals_of_others() {
    let server = Server::start();
    let proxy = without_a_barrier(&server);
    let client = client_with(&proxy.url(), ms(400));
    // No deletion at this key is answered, nor what comes behind it on its connection.
    let of_key = Matcher::evalsha().with_arg(KEY);
    let unanswered = proxy.hold_reply(of_key);
    let lock = client.lock(KEY).ttl(LONG).build().unwrap();
    proxy.swallow(acquisition().with_arg(KEY).once());
    assert!(lock.try_acquire().unwrap_err().is_unknown());
    let short = client.lock("order:short").ttl(ms(300)).build().unwrap();
    let lease = take(&short);
    let begun = Instant::now();
    let already = deletions(&proxy);
    eventually("several deletions are tried", PATIENCE, || {
        assert_ne!(lease.state(), LeaseState::Lost, "{:?}", client.stats());
        ms(2_500) < begun.elapsed() && already + 3 < deletions(&proxy)
    });
    unanswered.wait();
    assert_eq!(
        server.get("order:short").as_deref(),
        Some(lease.token().expose())
    );
    lease.release().unwrap();
}
