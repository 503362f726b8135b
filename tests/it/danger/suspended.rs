//! A holder that stands still past its deadline: what it is told when it wakes up.

use leasehold::{DangerCause, LockBuilder, LossCause};

use super::ms;
use crate::links::patient;
use crate::support::children::{self, Child};
use crate::support::{PATIENCE, Server, eventually};
use crate::wire::take;

const KEYS: [&str; 3] = ["renewed", "unrenewed", "held for long"];

#[test]
fn a_holder_that_is_stopped_past_its_deadline_is_told_of_the_loss_at_once_and_of_no_danger() {
    let server = Server::start();
    let url = server.url();
    let mut child = Child::run("danger::suspended::holds_three_leases", &[("URL", &url)]);
    assert_eq!(child.expect_line(PATIENCE), "holding");
    child.stop();
    // Their records outlive the deadlines.
    eventually("all records have expired", PATIENCE, || {
        KEYS.iter().all(|key| server.get(key).is_none())
    });
    child.cont();
    let mut told: Vec<_> = KEYS.iter().map(|_| child.expect_line(PATIENCE)).collect();
    told.sort();
    assert_eq!(
        told,
        [
            "held for long: lost, MaxHold",
            "renewed: lost, Expired",
            "unrenewed: lost, Expired"
        ]
    );
    child.send("that is all");
    assert_eq!(child.expect_line(PATIENCE), "0 dangers, 3 losses");
    assert!(child.wait(PATIENCE).success());
}

#[test]
fn holds_three_leases() {
    let Some(parent) = children::parent() else {
        return;
    };
    let client = patient(&parent.var("URL"));
    // Danger is far away: it is not to come before the parent has stopped this process.
    let lock = |key| telling(client.lock(key).ttl(ms(1_500)).danger(ms(200)));
    let leases = [
        take(&lock(KEYS[0]).build().unwrap()),
        take(&lock(KEYS[1]).without_renewal().build().unwrap()),
        take(&lock(KEYS[2]).max_hold(ms(1_400)).build().unwrap()),
    ];
    parent.say("holding");
    parent.hear();
    let stats = client.stats();
    parent.say(&format!("{} dangers, {} losses", stats.danger, stats.lost));
    drop(leases);
}

fn telling(lock: LockBuilder) -> LockBuilder {
    let say = |key: &str, what: String| {
        let parent = children::parent().expect("the parent that stops this process");
        parent.say(&format!("{key}: {what}"));
    };
    lock.on_danger(move |danger| {
        let cause: DangerCause = danger.cause();
        say(danger.key(), format!("danger, {cause:?}"));
    })
    .on_lost(move |loss| {
        let cause: LossCause = loss.cause();
        say(loss.key(), format!("lost, {cause:?}"));
    })
}
