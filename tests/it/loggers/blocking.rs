//! A logger that blocks: whoever logs waits, and nobody else.

use std::time::Instant;

use leasehold::{Client, DangerCause, LossCause};

use super::install;
use crate::danger::{Gate, OpenedAtLast, SLACK, heard, ms};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually, within};
use crate::threads::{CALL, LINK, RENEW, WATCH, alone};
use crate::wire::take;

/// From here on whatever is logged on a thread of this name waits at the gate.
fn block_the_log_of(thread: &'static str) -> (Gate, OpenedAtLast) {
    let gate = Gate::default();
    let of_logger = gate.clone();
    install(move |name| {
        if name == thread {
            of_logger.pass();
        }
    });
    (gate.clone(), OpenedAtLast(gate))
}

fn danger_and_loss_are_told_in_time(thread: &'static str) {
    let (gate, _opened) = block_the_log_of(thread);
    let server = Server::start();
    // The handshake logs what it has to do without.
    let rights = ["~*", "&*", "+@all", "-script|load"];
    server.cmd(&[&["ACL", "SETUSER", "app", "on", ">word"][..], &rights].concat());
    let builder = Client::builder(&server.url_as("app", "word"));
    let builder = builder.connect_timeout(PATIENCE);
    let client = builder.command_timeout(ms(300)).build().unwrap();
    let danger = ms(1_000);
    let (lock, ear) = heard(client.lock("order:1").ttl(ms(3_000)).danger(danger));
    let lease = take(&lock.build().unwrap());
    if thread != LINK {
        eventually("it has been renewed", PATIENCE, || {
            0 < client.stats().renewals_ok
        });
        server.stop();
        // The last command that went out was not answered, and no other one will be.
        eventually("a renewal fails", PATIENCE, || {
            0 < gate.inside() || 0 < client.stats().renewals_failed
        });
    } else {
        eventually("the logger blocks", PATIENCE, || 0 < gate.inside());
    }
    // The deadline does not move any more, and lies between these two.
    let before = Instant::now();
    let remaining = lease.remaining();
    let (first, last) = (before + remaining, Instant::now() + remaining);
    let endangered = ear.next();
    let (cause, remaining, _) = endangered.danger();
    assert_eq!(cause, DangerCause::Unconfirmed);
    assert!(!remaining.is_zero() && remaining <= danger, "{remaining:?}");
    assert!(first - danger <= endangered.at, "not before it is so");
    assert!(
        endangered.at < last - danger + SLACK,
        "danger is told in time"
    );
    let lost = ear.next();
    assert_eq!(lost.lost(), LossCause::Expired);
    assert!(first <= lost.at, "not before it is so");
    assert!(lost.at < last + SLACK, "the loss is told in time");
    if thread == WATCH {
        assert_eq!(gate.inside(), 0, "it has other things to do than to log");
    } else {
        eventually("the logger blocks", PATIENCE, || 0 < gate.inside());
    }
    server.cont();
}

#[test]
fn danger_and_loss_are_told_in_time_while_the_logger_blocks_the_renewal_thread() {
    alone(&[], || danger_and_loss_are_told_in_time(RENEW));
}

#[test]
fn danger_and_loss_are_told_in_time_since_the_thread_that_watches_the_clock_logs_nothing() {
    alone(&[], || danger_and_loss_are_told_in_time(WATCH));
}

#[test]
fn danger_and_loss_are_told_in_time_while_the_logger_blocks_those_who_open_links() {
    alone(&[], || danger_and_loss_are_told_in_time(LINK));
}

#[test]
fn danger_and_loss_are_told_in_time_while_the_logger_blocks_the_callback_threads() {
    alone(&[], || danger_and_loss_are_told_in_time(CALL));
}

#[test]
fn a_loss_is_logged_where_it_was_found_and_not_once_more_before_it_is_told() {
    alone(&[], || {
        let (gate, _opened) = block_the_log_of(CALL);
        let server = Server::start();
        let client = patient(&server.url());
        let (lock, ear) = heard(client.lock("order:1").ttl(ms(5_000)).renew_every(ms(500)));
        let lock = lock.build().unwrap();
        let lease = take(&lock);
        server.cmd(&["SET", "order:1", "another's"]);
        assert_eq!(ear.next().lost(), LossCause::TakenOver);
        drop((lease, lock, client));
        assert_eq!(ear.rest().len(), 0);
        assert_eq!(gate.inside(), 0);
    });
}

#[test]
fn a_release_keeps_its_bound_while_the_logger_blocks_the_renewal_thread() {
    alone(&[], || {
        let (gate, _opened) = block_the_log_of(RENEW);
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let (connect, command, ttl) = (ms(400), ms(400), ms(10_000));
        let builder = Client::builder(&proxy.url()).connect_timeout(connect);
        let client = builder.command_timeout(command).build().unwrap();
        let lock = |key: &str| client.lock(key).ttl(ttl).build().unwrap();
        let hurried = client.lock("in hand").ttl(ttl).renew_every(ms(400));
        let others = [take(&lock("answered")), take(&lock("unanswered"))];
        let busy = proxy.answer("EVALSHA", "-BUSY a script of the test's own\r\n");
        let in_hand = take(&hurried.build().unwrap());
        eventually("the logger blocks", PATIENCE, || 0 < gate.inside());
        busy.end();

        let bound = command.min(ttl / 10) + connect + command * 2 + SLACK;
        let [answered, unanswered] = others;
        within(bound, move || in_hand.release()).unwrap();
        within(bound, move || answered.release()).unwrap();
        assert_eq!(
            (server.get("in hand"), server.get("answered")),
            (None, None)
        );
        proxy.swallow_everything();
        let error = within(bound, move || unanswered.release()).unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        assert_eq!(gate.inside(), 1, "it blocks still");
        proxy.heal();
        gate.open();
        eventually("what was left behind is reaped", PATIENCE, || {
            server.get("unanswered").is_none()
        });
    });
}
