//! Records that others delete or overwrite: the holder learns of it at the next renewal, long
//! before its deadline.

use std::thread;
use std::time::Duration;

use leasehold::{LeaseState, LossCause};

use super::{KEY, loss_heard, ms, renewed, telling};
use crate::support::{PATIENCE, Server, logs, within};
use crate::wire::{client_with, take};

/// A deadline that no test waits for.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_record_in_foreign_hands_is_lost_at_the_next_renewal() {
    let server = Server::start();
    let cases: [(&[&str], LossCause); 3] = [
        (&["DEL", KEY], LossCause::Vanished),
        (&["SET", KEY, "theirs"], LossCause::TakenOver),
        // The token alone is not the record: it is compared as a whole.
        (&["APPEND", KEY, " and more"], LossCause::TakenOver),
    ];
    for (command, cause) in cases {
        let client = client_with(&server.url(), ms(500));
        let (lock, heard) = telling(client.lock(KEY).ttl(LONG));
        let lease = take(&lock.renew_every(ms(500)).build().unwrap());
        let watch = lease.watch();
        // Without any callback a worker hears of it as well.
        let waiting = thread::spawn(move || (watch.wait_danger(LONG), watch));
        renewed(&client, &lease, 1);
        server.cmd(command);
        let theirs = server.get(KEY);
        assert_eq!(loss_heard(&heard), cause);
        let (state, watch) = within(PATIENCE, move || waiting.join().unwrap());
        assert_eq!(state, LeaseState::Lost);
        assert!(watch.remaining().is_zero() && watch.check().unwrap_err().is_lost());
        assert!(
            heard.try_recv().is_err(),
            "told once, and of no danger before"
        );
        let error = lease.release().unwrap_err();
        assert!(error.is_lost(), "{error:?}");
        assert_eq!(server.get(KEY), theirs, "it is not touched");
        let stats = client.stats();
        assert_eq!((stats.lost, stats.danger, stats.released), (1, 0, 0));
        server.cmd(&["DEL", KEY]);
    }
}

#[test]
fn a_record_that_has_become_a_list_was_taken_over() {
    let server = Server::start();
    let client = client_with(&server.url(), ms(500));
    let (lock, heard) = telling(client.lock(KEY).ttl(LONG));
    let lease = take(&lock.renew_every(ms(500)).build().unwrap());
    server.cmd(&["DEL", KEY]);
    server.cmd(&["RPUSH", KEY, "a list"]);
    let cause = loss_heard(&heard);
    // Between the two commands it may have been asked for.
    assert!(matches!(cause, LossCause::TakenOver | LossCause::Vanished));
    assert!(lease.check().unwrap_err().is_lost());
    assert_eq!(server.cmd(&["LLEN", KEY]), redis::Value::Int(1));
}

#[test]
fn a_loss_that_a_renewal_finds_is_logged_once_and_the_others_live_on() {
    let server = Server::start();
    let (key, mark) = ("order:foreign", logs::mark());
    let client = client_with(&server.url(), ms(500));
    let lock = |key: &str| {
        let lock = client.lock(key).ttl(LONG).renew_every(ms(500));
        take(&lock.build().unwrap())
    };
    let (lost, other) = (lock(key), lock("order:other"));
    server.cmd(&["DEL", key]);
    let watch = lost.watch();
    let state = within(PATIENCE, move || watch.wait_danger(LONG));
    assert_eq!(state, LeaseState::Lost);
    renewed(&client, &other, 2);
    drop(lost);
    let said = logs::containing(mark, &format!("`{key}`"));
    let warned: Vec<_> = said
        .iter()
        .filter(|record| record.level <= log::Level::Warn)
        .collect();
    assert_eq!(warned.len(), 1, "{warned:#?}");
    assert!(warned[0].text.contains("lost"), "{warned:?}");
    assert_eq!(server.get(key), None);
}
