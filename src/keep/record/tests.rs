//! The record on a clock that is moved by hand.

use std::sync::atomic::AtomicUsize;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::clock::fake::FakeClock;
use crate::keep::fake::{START, ms, record};

#[test]
fn a_lease_goes_from_held_through_danger_to_lost_by_the_clock_alone() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    let standing = || record.standing(clock.now());
    assert_eq!(standing(), Standing::Held { remaining: ms(988) });
    clock.advance(ms(687));
    assert_eq!(standing(), Standing::Held { remaining: ms(301) });
    clock.advance(ms(1));
    assert_eq!(standing(), Standing::Danger { remaining: ms(300) });
    clock.advance(Duration::from_nanos(299_999_999));
    assert!(matches!(standing(), Standing::Danger { .. }));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(standing(), Standing::Lost(LostBy::Expired));
    assert_eq!(record.site.counters.read().lost, 1);
    assert!(record.check().unwrap_err().is_lost());
}

#[test]
fn a_confirmation_counts_from_before_it_was_sent_and_never_shortens() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    clock.advance(ms(500));
    let sent = Time::from_nanos(START).plus(ms(400));
    record.confirm(sent, clock.now()).unwrap();
    assert_eq!(
        record.standing(clock.now()),
        Standing::Held { remaining: ms(888) }
    );
    let earlier = Time::from_nanos(START).plus(ms(100));
    record.confirm(earlier, clock.now()).unwrap();
    assert_eq!(
        record.standing(clock.now()),
        Standing::Held { remaining: ms(888) }
    );
    let margin = record.site.counters.read().smallest_margin;
    assert_eq!(margin, Some(ms(488)));
}

#[test]
fn a_confirmation_that_comes_at_the_deadline_changes_nothing() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    let sent = Time::from_nanos(START).plus(ms(900));
    clock.advance(ms(988));
    assert_eq!(record.confirm(sent, clock.now()), Err(LostBy::Expired));
    assert_eq!(
        record.standing(Time::from_nanos(START)),
        Standing::Lost(LostBy::Expired),
        "the loss is final, also for a reader whose clock reading is older"
    );
}

#[test]
fn a_jump_of_the_clock_past_the_deadline_is_lost_at_once() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(
        record.standing(clock.now()),
        Standing::Lost(LostBy::Expired)
    );
}

#[test]
fn a_loss_proven_by_the_server_keeps_its_reason() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    assert_eq!(record.lose(LostBy::TakenOver), LostBy::TakenOver);
    assert_eq!(record.lose(LostBy::Vanished), LostBy::TakenOver);
    assert_eq!(
        record.confirm(clock.now(), clock.now()),
        Err(LostBy::TakenOver)
    );
    clock.advance(ms(5_000));
    assert_eq!(
        record.standing(clock.now()),
        Standing::Lost(LostBy::TakenOver)
    );
    assert_eq!(record.site.counters.read().lost, 1);
}

#[test]
fn a_released_lease_takes_no_confirmation_and_is_not_lost() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    let before = record.begin_release(clock.now());
    assert_eq!(before.deadline, Some(Time::from_nanos(START).plus(ms(988))));
    assert_eq!(before.lost, None);
    assert!(record.confirm(clock.now(), clock.now()).is_err());
    clock.advance(ms(5_000));
    assert_eq!(
        record.standing(clock.now()),
        Standing::Released(LostBy::Released)
    );
    assert_eq!(record.site.counters.read().lost, 0);
}

#[test]
fn max_hold_caps_the_first_deadline_and_every_later_one() {
    let clock = FakeClock::at(START);
    let capped = record(&clock, Some(ms(500)));
    assert_eq!(
        capped.standing(clock.now()),
        Standing::Held { remaining: ms(500) }
    );
    clock.advance(ms(100));
    capped.confirm(clock.now(), clock.now()).unwrap();
    assert_eq!(
        capped.standing(clock.now()),
        Standing::Held { remaining: ms(400) }
    );
    clock.advance(ms(400));
    assert_eq!(
        capped.standing(clock.now()),
        Standing::Lost(LostBy::MaxHold)
    );
}

#[test]
fn a_record_can_stand_for_a_ttl_from_the_last_reply_and_one_more_for_each_lost_one() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    let span = ms(1_012);
    assert_eq!(record.stands_until().since(clock.now()), span);
    record.note_unanswered(1);
    assert_eq!(record.stands_until().since(clock.now()), span * 2);
    // The unanswered one may still be on its way when a later one is confirmed.
    clock.advance(ms(500));
    record.confirm(clock.now(), clock.now()).unwrap();
    assert_eq!(record.stands_until().since(clock.now()), span * 2);
    // A confirmation that comes too late for the lease has set the expiry all the same.
    clock.advance(ms(2_000));
    assert!(record.confirm(clock.now(), clock.now()).is_err());
    assert_eq!(record.stands_until().since(clock.now()), span * 2);
}

#[test]
fn of_many_observers_of_the_end_one_counts_it() {
    let clock = FakeClock::at(START);
    let record = record(&clock, None);
    clock.advance(ms(988));
    let losses = AtomicUsize::new(0);
    thread::scope(|scope| {
        for index in 0..8 {
            let (record, clock, losses) = (&record, &clock, &losses);
            scope.spawn(move || {
                let lost = if index % 2 == 0 {
                    matches!(record.standing(clock.now()), Standing::Lost(_))
                } else {
                    record.confirm(clock.now(), clock.now()).is_err()
                };
                losses.fetch_add(usize::from(lost), Ordering::SeqCst);
            });
        }
    });
    assert_eq!(losses.into_inner(), 8);
    assert_eq!(record.site.counters.read().lost, 1);
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Confirm { sent_before: u64 },
    Look,
    Lose,
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..700).prop_map(Step::Advance),
        1 => any::<u64>().prop_map(Step::Advance),
        4 => (0_u64..700).prop_map(|sent_before| Step::Confirm { sent_before }),
        4 => Just(Step::Look),
        1 => Just(Step::Lose),
        1 => Just(Step::Release),
    ];
    prop::collection::vec(step, 1..30)
}

proptest! {
    #[test]
    fn nothing_revives_a_lease_that_has_ended(
        steps in steps(),
        max_hold in prop::option::of(301_u64..5_000),
    ) {
        let clock = FakeClock::at(START);
        let record = record(&clock, max_hold.map(ms));
        let mut ended = None;
        // The latest confirmed deadline, kept by hand.
        let cap = max_hold.map_or(Time::MAX, |hold| Time::from_nanos(START).plus(ms(hold)));
        let mut deadline = Time::from_nanos(START).plus(ms(988)).min(cap);
        for step in steps {
            let now = clock.now();
            match step {
                Step::Advance(millis) => clock.advance(ms(millis)),
                Step::Confirm { sent_before } => {
                    let sent = now.as_nanos().saturating_sub(sent_before * 1_000_000).max(START);
                    let sent = Time::from_nanos(sent);
                    let stood = ended.is_none() && now < deadline;
                    prop_assert_eq!(record.confirm(sent, now).is_ok(), stood);
                    if stood {
                        deadline = deadline.max(sent.plus(ms(988)).min(cap));
                    }
                }
                Step::Look => {}
                Step::Lose => { record.lose(LostBy::Vanished); }
                Step::Release => { record.begin_release(now); }
            }
            let standing = record.standing(clock.now());
            match (ended, standing) {
                (Some(ending), _) => prop_assert_eq!(standing, ending),
                (None, Standing::Held { remaining } | Standing::Danger { remaining }) => {
                    prop_assert!(clock.now() < deadline);
                    prop_assert_eq!(remaining, deadline.since(clock.now()));
                    prop_assert!(remaining <= ms(988));
                }
                (None, ending) => ended = Some(ending),
            }
        }
    }
}
