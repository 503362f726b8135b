//! What waiting here must not cost others, and what a holder that ends must not cost those here.

use super::*;

#[test]
fn a_lock_is_handed_on_sixteen_times_and_then_given_back() {
    let mut scene = Scene::held();
    let _seats: Vec<_> = (0..20).map(|claim| scene.sit(claim)).collect();
    for handed in 0..16 {
        let heir = scene.promise().expect("not yet");
        scene.hand(&heir, handed).unwrap();
    }
    assert!(scene.promise().is_none());
    scene.vacate(false);
    // Whoever takes it from the server begins anew.
    scene.take(Duration::from_secs(60));
    scene.let_go();
    assert!(scene.promise().is_some());
}

#[test]
fn a_lock_is_handed_on_for_ten_milliseconds_and_then_given_back() {
    let mut scene = Scene::held();
    let _seats: Vec<_> = (0..4).map(|claim| scene.sit(claim)).collect();
    scene.clock.advance(Duration::from_millis(6));
    let heir = scene.promise().unwrap();
    scene.hand(&heir, 0).unwrap();
    // Counted from the server, and not from the last hand-over.
    scene.clock.advance(Duration::from_millis(4));
    assert!(scene.promise().is_none());
}

#[test]
fn a_release_that_is_not_to_be_handed_on_promises_nothing() {
    let scene = Scene::held();
    let _seat = scene.sit(1);
    let leaves_by = scene.now().plus(Duration::from_secs(1));
    let heir = scene.queue.depart(KEY, scene.number, leaves_by, false);
    assert!(heir.is_none());
    assert!(scene.queue.depart(KEY, 77, leaves_by, true).is_none());
}

#[test]
fn a_holder_whose_time_runs_out_is_waited_for_no_longer() {
    let mut scene = Scene::empty();
    scene.take(Duration::from_secs(5));
    let (first, second) = (scene.sit(1), scene.sit(2));
    scene.clock.advance(Duration::from_nanos(4_999_999_999));
    assert!(matches!(first.find(), Found::Waiting));
    assert_eq!(
        scene.queue.look(KEY, &first),
        scene.now().plus(Duration::from_nanos(1))
    );
    assert_eq!(scene.queue.look(KEY, &second), Time::MAX);
    scene.clock.advance(Duration::from_nanos(1));
    let _ = scene.queue.look(KEY, &second);
    turn(scene.look(&first));
    assert_over(scene.look(&second));
}

#[test]
fn a_holder_that_is_renewed_is_waited_for_longer() {
    let mut scene = Scene::empty();
    scene.take(Duration::from_secs(5));
    let first = scene.sit(1);
    let renewed = scene.now().plus(Duration::from_secs(9));
    scene.lease.ends.store(renewed.as_nanos(), Ordering::SeqCst);
    scene.clock.advance(Duration::from_secs(6));
    assert_eq!(scene.queue.look(KEY, &first), renewed);
    assert!(matches!(first.find(), Found::Waiting));
}

#[test]
fn a_holder_that_has_lost_the_lock_or_vanished_is_not_waited_for() {
    for vanished in [false, true] {
        let mut scene = Scene::held();
        let first = scene.sit(1);
        if vanished {
            let _ = scene.next_lease(Duration::ZERO);
        } else {
            scene.lease.ends.store(0, Ordering::SeqCst);
        }
        scene.queue.look_again(KEY);
        turn(scene.look(&first));
    }
}

#[test]
fn a_release_that_does_not_come_back_holds_nobody_up_beyond_its_bound() {
    let scene = Scene::held();
    let first = scene.sit(1);
    let leaves_by = scene.now().plus(Duration::from_secs(3));
    let heir = scene.queue.depart(KEY, scene.number, leaves_by, false);
    assert!(heir.is_none());
    // The lease has ended, and yet nobody goes before it is given back or the bound is over.
    scene.lease.ends.store(0, Ordering::SeqCst);
    assert_eq!(scene.queue.look(KEY, &first), leaves_by);
    scene.clock.advance(Duration::from_secs(3));
    let _ = scene.queue.look(KEY, &first);
    turn(scene.look(&first));
}

#[test]
fn a_late_end_of_an_older_lease_does_not_end_the_present_one() {
    let mut scene = Scene::held();
    let old = scene.number;
    scene.take(Duration::from_secs(60));
    let first = scene.sit(1);
    scene.queue.vacate(&scene.key, old, false);
    scene.queue.look_again(KEY);
    assert_over(scene.look(&first));
    assert_eq!(scene.queue.pass(KEY, false), None);
}

#[test]
fn a_release_that_woke_another_process_sends_the_next_from_here_behind_it() {
    let scene = Scene::held();
    let (first, second) = (scene.sit(1), scene.sit(2));
    scene.vacate(true);
    assert!(turn(scene.look(&first)).behind);
    scene.let_go();
    assert!(!turn(scene.look(&second)).behind);
}

#[test]
fn with_nobody_here_the_next_to_come_within_a_second_goes_behind_once() {
    let scene = Scene::held();
    scene.vacate(true);
    assert!(!scene.queue.pass("another", false).unwrap().behind);
    scene.clock.advance(Duration::from_millis(999));
    assert!(scene.queue.pass(KEY, false).unwrap().behind);
    assert!(!scene.queue.pass(KEY, false).unwrap().behind);

    let scene = Scene::held();
    scene.vacate(true);
    scene.clock.advance(Duration::from_secs(1));
    assert!(!scene.queue.pass(KEY, false).unwrap().behind);
}

#[test]
fn what_is_owed_to_others_is_bounded() {
    let mut scene = Scene::empty();
    for number in 0..1_000_u64 {
        let key: Arc<str> = number.to_string().into();
        let (number, tenancy) = scene.next_lease(Duration::from_secs(1));
        scene.queue.occupy(&key, number, tenancy);
        scene.queue.vacate(&key, number, true);
    }
    assert!(!scene.is_kept());
    assert_eq!(scene.queue.state.lock().owed.len(), MOST_OWED);
    assert!(scene.queue.pass("999", false).unwrap().behind);
    assert!(!scene.queue.pass("0", false).unwrap().behind);
}

#[test]
fn a_crowd_pauses_for_those_who_poll_once_a_second() {
    let mut scene = Scene::held();
    let mut pauses = 0;
    // A crowd that does not end, and a holder for 50 ms at a time: for 10 seconds.
    let mut next = scene.sit(0);
    for claim in 1..=200 {
        let behind = scene.sit(claim);
        scene.clock.advance(Duration::from_millis(50));
        scene.vacate(false);
        pauses += usize::from(turn(scene.look(&next)).pause);
        scene.take(Duration::from_secs(60));
        scene.let_go();
        next = behind;
    }
    assert!((9..=10).contains(&pauses), "{pauses}");
}

#[test]
fn whoever_comes_after_a_while_does_not_pause() {
    let mut scene = Scene::held();
    scene.clock.advance(Duration::from_secs(10));
    let first = scene.sit(1);
    scene.vacate(false);
    assert!(!turn(scene.look(&first)).pause, "it is the first to wait");
    scene.let_go();
    scene.clock.advance(Duration::from_secs(10));
    let nobody_had_it = scene.sit(2);
    assert!(!turn(scene.look(&nobody_had_it)).pause);
    scene.take(Duration::from_secs(60));
    scene.let_go();
}

#[test]
fn a_server_that_is_away_ends_the_wait_of_those_who_do_not_wait_for_it() {
    let scene = Scene::empty();
    let ahead = scene.sit(1);
    turn(scene.look(&ahead));
    let hasty = scene.queue.sit(&scene.key, 2, true, false);
    let patient = scene.sit(3);
    scene.queue.turn_away(KEY, &away());
    assert!(matches!(scene.look(&hasty), Came::Away(_)));
    // Who comes now may see for himself, or waits behind the others.
    assert!(scene.queue.pass(KEY, true).is_some());
    assert_eq!(scene.queue.pass(KEY, false), None);
    let another = scene.sit(4);
    assert!(matches!(scene.look(&another), Came::Over(Word::Away(_))));
    scene.queue.note(KEY, Word::Held);
    assert_eq!(scene.queue.pass(KEY, true), None);
    assert!(matches!(scene.look(&patient), Came::Over(Word::Held)));
}

#[test]
fn those_whose_time_is_up_are_told_what_the_last_one_at_the_server_has_heard() {
    let mut scene = Scene::empty();
    let ahead = scene.sit(1);
    turn(scene.look(&ahead));
    let unheard = scene.sit(2);
    assert!(matches!(scene.look(&unheard), Came::Over(Word::Unheard)));
    let (first, second, third) = (scene.sit(3), scene.sit(4), scene.sit(5));
    scene.queue.note(KEY, Word::Away(away()));
    // It leaves without having heard anything else, and so does the next.
    scene.let_go();
    turn(scene.look(&first));
    assert!(matches!(scene.queue.word(KEY), Word::Away(_)));
    assert!(matches!(scene.look(&second), Came::Over(Word::Away(_))));
    // Whoever takes the lock has reached the server.
    scene.take(Duration::from_secs(60));
    scene.let_go();
    assert!(matches!(scene.look(&third), Came::Over(Word::Held)));
}
