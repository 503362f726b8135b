//! When a lease is looked at, on a clock that is moved by hand, and what it is found to be.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::clock::Time;
use crate::clock::fake::FakeClock;
use crate::error::LostBy;
use crate::keep::fake::{START, ms, record};

/// A lease of 988 ms, the last 300 in danger, as the watch has it.
struct Lease {
    clock: FakeClock,
    record: Arc<Record>,
    told: Told,
}

impl Lease {
    fn new(max_hold: Option<Duration>) -> Self {
        let clock = FakeClock::at(START);
        Self {
            record: Arc::new(record(&clock, max_hold)),
            clock,
            told: Told::default(),
        }
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(START).plus(ms(millis))
    }

    /// Moves the clock to so long after the acquisition, and looks.
    fn look_at(&mut self, millis: u64) -> Look {
        self.clock.advance(Self::at(millis).since(self.clock.now()));
        self.record.look(&mut self.told)
    }

    fn confirm(&self, sent: u64) {
        self.record
            .confirm(Self::at(sent), self.clock.now())
            .unwrap();
    }

    fn dangers(&self) -> u64 {
        self.record.site.counters.read().danger
    }
}

const fn look(notice: Option<Notice>, next: Option<Time>) -> Look {
    Look { notice, next }
}

const LOST: Look = look(Some(Notice::Lost { unlogged: true }), None);

const OVER: Look = look(None, None);

#[test]
fn a_lease_is_looked_at_when_its_danger_begins_and_at_its_deadline_and_told_once_at_each() {
    let mut lease = Lease::new(None);
    let danger = look(None, Some(Lease::at(688)));
    assert_eq!(lease.look_at(0), danger);
    assert_eq!(lease.look_at(687), danger);
    let deadline = Some(Lease::at(988));
    let notice = Some(Notice::Danger {
        stay: 0,
        unlogged: true,
    });
    assert_eq!(lease.look_at(688), look(notice, deadline));
    assert_eq!(lease.look_at(689), look(None, deadline));
    assert_eq!(lease.look_at(987), look(None, deadline));
    assert_eq!(lease.look_at(988), LOST);
}

#[test]
fn a_jump_past_the_deadline_is_lost_at_once_and_no_danger_is_told_or_counted() {
    for slept in [988, 989, 3_600_000] {
        let mut lease = Lease::new(None);
        lease.look_at(10);
        assert_eq!(lease.look_at(slept), LOST);
        let stats = lease.record.site.counters.read();
        assert_eq!((stats.danger, stats.lost), (0, 1));
    }
}

#[test]
fn a_jump_past_the_deadline_in_the_danger_zone_is_lost_as_well() {
    let mut lease = Lease::new(None);
    assert!(lease.look_at(700).notice.is_some());
    assert_eq!(lease.look_at(3_600_000), LOST);
}

#[test]
fn max_hold_moves_both_looks_up() {
    let mut lease = Lease::new(Some(ms(500)));
    assert_eq!(lease.look_at(0), look(None, Some(Lease::at(200))));
    assert_eq!(lease.look_at(500), LOST);
}

#[test]
fn a_confirmation_in_the_danger_zone_ends_the_stay_and_the_next_one_is_told() {
    let mut lease = Lease::new(None);
    let notice = lease.look_at(700).notice;
    assert_eq!(
        notice,
        Some(Notice::Danger {
            stay: 0,
            unlogged: true
        })
    );
    lease.confirm(690);
    assert_eq!(lease.look_at(710), look(None, Some(Lease::at(1_378))));
    let notice = lease.look_at(1_400).notice;
    assert_eq!(
        notice,
        Some(Notice::Danger {
            stay: 1,
            unlogged: true
        })
    );
    assert_eq!(lease.look_at(1_500).notice, None);
    assert_eq!(lease.dangers(), 2);
}

#[test]
fn a_stay_and_the_next_one_are_told_though_nobody_looked_in_between() {
    let mut lease = Lease::new(None);
    assert!(lease.look_at(700).notice.is_some());
    lease.confirm(690);
    let notice = lease.look_at(1_400).notice;
    assert_eq!(
        notice,
        Some(Notice::Danger {
            stay: 1,
            unlogged: true
        })
    );
}

#[test]
fn a_confirmation_that_does_not_lead_out_of_the_danger_zone_leaves_it_the_same_stay() {
    let mut lease = Lease::new(None);
    assert!(lease.look_at(700).notice.is_some());
    lease.clock.advance(ms(80));
    lease.confirm(50);
    // In danger from 738 on, and until 1,038.
    assert_eq!(lease.look_at(790), look(None, Some(Lease::at(1_038))));
    assert_eq!(lease.dangers(), 1);
}

#[test]
fn a_stay_that_began_while_its_confirmation_was_read_is_over_and_the_next_one_is_told() {
    let mut lease = Lease::new(None);
    // The clock was read for the confirmation, and then somebody was quicker with a look.
    let read = Lease::at(687);
    assert!(lease.look_at(688).notice.is_some());
    lease.record.confirm(Lease::at(680), read).unwrap();
    assert!(lease.look_at(1_400).notice.is_some());
    assert_eq!(lease.dangers(), 2);
}

#[test]
fn a_lease_that_was_ended_by_its_holder_is_looked_at_no_more() {
    let end: [fn(&Record, Time); 2] = [
        |record, now| {
            record.begin_release(now);
        },
        |record, now| record.give_away(now),
    ];
    for end in end {
        let mut lease = Lease::new(None);
        assert!(lease.look_at(700).notice.is_some());
        end(&lease.record, lease.clock.now());
        assert_eq!(lease.look_at(720), OVER);
        assert_eq!(lease.look_at(2_000), OVER);
    }
}

#[test]
fn a_proven_loss_is_told_at_the_next_look_and_was_logged_where_it_was_found() {
    let mut lease = Lease::new(None);
    lease.look_at(10);
    lease.record.lose(LostBy::TakenOver);
    let logged = Some(Notice::Lost { unlogged: false });
    assert_eq!(lease.look_at(20), look(logged, None));
}
