//! Acquisitions that were given up and are run later.

use super::{
    KEY, assert_deleted_long_before_its_ttl, brief, deletions, plain_and_fenced, without_a_barrier,
};
use crate::support::{Monitor, PATIENCE, Server, eventually};
use crate::wire::{acquisition, assert_nothing_unconditional};

#[test]
fn a_record_that_lands_late_is_deleted_long_before_its_ttl() {
    let server = Server::start();
    for fenced in [0, 1] {
        let proxy = without_a_barrier(&server);
        let client = brief(&proxy.url());
        let lock = plain_and_fenced(&client)[fenced].clone().build().unwrap();
        let held = proxy.hold(acquisition().once());
        let error = lock.try_acquire().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        // It has been looked for in vain before it comes.
        eventually("it is looked for", PATIENCE, || 2 < deletions(&proxy));
        let monitor = Monitor::on(&server);
        assert!(held.deliver(), "there was no barrier");
        assert_deleted_long_before_its_ttl(&server);
        let deleted = [["DEL", KEY]];
        let of_scripts = monitor.commands_of_scripts();
        let dels = of_scripts.iter().filter(|words| words[0] == "DEL");
        assert!(dels.eq(deleted.iter()), "it had landed: {of_scripts:?}");
        assert_nothing_unconditional(&proxy.commands());
    }
}

#[test]
fn a_foreign_record_at_the_key_is_never_deleted() {
    let server = Server::start();
    server.cmd(&["SET", KEY, "theirs", "PX", "60000"]);
    let proxy = without_a_barrier(&server);
    let client = brief(&proxy.url());
    let monitor = Monitor::on(&server);
    let [plain, _] = plain_and_fenced(&client);
    let held = proxy.hold(acquisition().once());
    let error = plain.build().unwrap().try_acquire().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    eventually("it is looked for", PATIENCE, || 4 < deletions(&proxy));
    assert!(held.deliver());
    let already = deletions(&proxy);
    eventually("and once more", PATIENCE, || already < deletions(&proxy));
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
    assert!(20_000 < server.pttl(KEY));
    for command in monitor.commands_of_scripts() {
        assert_eq!(command, ["GET", KEY], "a script has only looked");
    }
    assert_nothing_unconditional(&proxy.commands());
}
