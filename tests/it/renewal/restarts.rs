//! Servers that are killed and start again, with their data and without.

use std::time::Duration;

use leasehold::{LeaseState, LossCause};

use super::{loss_heard, ms, renewed, telling};
use crate::support::{Server, logs};
use crate::wire::{client_with, take};

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_lease_whose_server_comes_back_without_its_data_vanishes_at_the_next_renewal() {
    let server = Server::start();
    let client = client_with(&server.url(), ms(500));
    let (lock, heard) = telling(client.lock("order:1").ttl(LONG));
    let lease = take(&lock.renew_every(ms(500)).build().unwrap());
    let watch = lease.watch();
    renewed(&client, &lease, 1);
    server.restart();
    assert_eq!(loss_heard(&heard), LossCause::Vanished);
    assert_eq!(watch.state(), LeaseState::Lost);
    assert!(lease.release().unwrap_err().is_lost());
    assert_eq!(server.get("order:1"), None, "no renewal makes it anew");
    assert_eq!(client.stats().lost, 1);
}

#[test]
fn a_lease_whose_server_comes_back_with_its_data_lives_on() {
    let lines = ["appendonly yes", "appendfsync always"];
    let server = Server::with(&lines);
    let client = client_with(&server.url(), ms(500));
    let (lock, heard) = telling(client.lock("order:1").ttl(LONG));
    let lease = take(&lock.renew_every(ms(500)).build().unwrap());
    renewed(&client, &lease, 1);
    server.restart();
    renewed(&client, &lease, 3);
    assert!(Duration::from_secs(15) < lease.remaining());
    assert_eq!(
        server.get("order:1").as_deref(),
        Some(lease.token().expose())
    );
    lease.release().unwrap();
    assert!(heard.try_recv().is_err());
}

#[test]
fn a_lease_outlives_a_server_that_takes_its_time_to_load_its_data() {
    // Microseconds for each key.
    let slow = "key-load-delay 400";
    let server = Server::with(&["appendonly yes", "appendfsync no", slow]);
    let (key, mark) = ("order:loading", logs::mark());
    let client = client_with(&server.url(), ms(500));
    let (lock, heard) = telling(client.lock(key).ttl(LONG));
    let lease = take(&lock.renew_every(ms(500)).build().unwrap());
    let fill = "for i = 1, 2500 do redis.call('SET', 'filler:' .. i, i) end";
    server.cmd(&["EVAL", fill, "0"]);
    renewed(&client, &lease, 1);
    server.restart();
    renewed(&client, &lease, 3);
    assert!(logs::any_containing(mark, "LOADING"));
    lease.release().unwrap();
    assert!(heard.try_recv().is_err());
}
