//! Whose turn it is, and whose it becomes when somebody goes.

use super::*;

#[test]
fn whoever_comes_to_a_key_that_is_nobodys_passes_at_once() {
    let scene = Scene::empty();
    assert_eq!(scene.queue.pass(KEY, false), Some(Start::default()));
    assert!(!scene.is_kept(), "to pass leaves nothing behind");
    assert_eq!(turn(scene.look(&scene.sit(1))), Start::default());
}

#[test]
fn whoever_comes_while_the_key_is_held_or_waited_for_here_waits() {
    let scene = Scene::held();
    assert_eq!(scene.queue.pass(KEY, false), None, "it is held");
    assert!(scene.queue.pass("another", false).is_some());
    scene.vacate(false);
    assert!(scene.queue.pass(KEY, false).is_some());
    let ahead = scene.sit(1);
    assert_eq!(scene.queue.pass(KEY, false), None, "one is at the server");
    turn(scene.look(&ahead));
    let behind = scene.sit(2);
    assert_over(scene.look(&behind));
}

#[test]
fn turns_are_given_in_the_order_of_arrival() {
    let scene = Scene::held();
    let seats: Vec<_> = (0..10).map(|claim| scene.sit(claim)).collect();
    scene.vacate(false);
    for (place, seat) in seats.iter().enumerate() {
        assert!(matches!(seat.find(), Found::Turn(_)), "{place}");
        let is_waiting = |seat: &Arc<Seat<u32, u32>>| matches!(seat.find(), Found::Waiting);
        assert!(seats[place + 1..].iter().all(is_waiting), "{place}");
        scene.let_go();
    }
    assert!(!scene.is_kept(), "nothing is left of the key");
}

#[test]
fn of_those_who_wait_the_first_is_the_heir_and_then_the_next() {
    let mut scene = Scene::held();
    let seats: Vec<_> = (0..3).map(|claim| scene.sit(claim)).collect();
    for (claim, seat) in seats.iter().enumerate() {
        let heir = scene.promise().expect("somebody waits");
        assert_eq!(heir.claim as usize, claim);
        scene.hand(&heir, 7).unwrap();
        assert!(matches!(scene.look(seat), Came::Handed(7)));
    }
    assert!(scene.promise().is_none(), "nobody waits any more");
    scene.vacate(false);
    assert!(!scene.is_kept());
}

#[test]
fn whoever_gives_up_in_memory_passes_its_turn_wherever_it_stood() {
    for gone in 0..3 {
        let scene = Scene::held();
        let seats: Vec<_> = (0..3).map(|claim| scene.sit(claim)).collect();
        assert_over(scene.look(&seats[gone]));
        scene.vacate(false);
        for seat in seats.iter().enumerate().filter(|(place, _)| *place != gone) {
            turn(scene.look(seat.1));
            scene.let_go();
        }
        assert!(!scene.is_kept());
    }
}

#[test]
fn whoever_gives_up_at_the_server_passes_its_turn() {
    let scene = Scene::empty();
    let (first, second) = (scene.sit(1), scene.sit(2));
    turn(scene.look(&first));
    assert!(matches!(second.find(), Found::Waiting));
    scene.let_go();
    turn(scene.look(&second));
    scene.let_go();
    assert!(!scene.is_kept());
}

#[test]
fn a_turn_that_comes_in_the_moment_of_giving_up_is_not_lost() {
    let scene = Scene::held();
    let (first, second) = (scene.sit(1), scene.sit(2));
    scene.vacate(false);
    // It has not looked since: whoever leaves now is told, and passes it on.
    let came = scene.queue.leave(&scene.key, &first, true);
    assert!(matches!(came, Some(Came::Turn(_))));
    assert!(matches!(second.find(), Found::Waiting));
    scene.let_go();
    turn(scene.look(&second));
}

#[test]
fn what_is_handed_over_in_the_moment_of_giving_up_is_not_lost() {
    let mut scene = Scene::held();
    let first = scene.sit(1);
    let heir = scene.promise().unwrap();
    scene.hand(&heir, 7).unwrap();
    let came = scene.queue.leave(&scene.key, &first, true);
    assert!(matches!(came, Some(Came::Handed(7))));
}

#[test]
fn an_heir_whose_time_ends_stays_for_as_long_as_a_hand_over_may_take() {
    let mut scene = Scene::held();
    let seat = scene.sit(1);
    let heir = scene.promise().unwrap();
    let (queue, key) = (Arc::clone(&scene.queue), Arc::clone(&scene.key));
    let over = scene.now();
    let waiter = std::thread::spawn(move || {
        let times = (over, Duration::from_secs(1));
        matches!(queue.wait(&key, &seat, times, || false), Came::Handed(7))
    });
    scene.clock.advance(Duration::from_millis(999));
    scene.hand(&heir, 7).unwrap();
    assert!(waiter.join().unwrap());
}

#[test]
fn an_heir_who_has_gone_leaves_the_lock_to_the_giver_and_the_turn_to_the_next() {
    let mut scene = Scene::held();
    let (first, second) = (scene.sit(1), scene.sit(2));
    let heir = scene.promise().unwrap();
    assert!(matches!(scene.look(&first), Came::LeftInDoubt));
    assert!(matches!(second.find(), Found::Waiting), "it is not settled");
    assert_eq!(scene.hand(&heir, 7), Err(7));
    turn(scene.look(&second));
    scene.let_go();
    assert!(!scene.is_kept());
}

#[test]
fn an_heir_who_goes_before_he_is_disappointed_or_in_doubt_leaves_his_turn_to_the_next() {
    for in_doubt in [false, true] {
        let scene = Scene::held();
        let (first, second) = (scene.sit(1), scene.sit(2));
        let heir = scene.promise().unwrap();
        assert!(matches!(scene.look(&first), Came::LeftInDoubt));
        if in_doubt {
            scene.queue.leave_in_doubt(KEY, &heir, 7);
        } else {
            scene.queue.disappoint(KEY, heir);
            assert!(matches!(second.find(), Found::Waiting), "it is held yet");
            scene.vacate(false);
        }
        turn(scene.look(&second));
        scene.let_go();
        assert!(!scene.is_kept());
    }
}

#[test]
fn a_disappointed_heir_is_in_front_again_and_his_claim_is_spent() {
    let scene = Scene::held();
    let (first, second) = (scene.sit(1), scene.sit(2));
    let heir = scene.promise().unwrap();
    scene.queue.disappoint(KEY, heir);
    scene.vacate(false);
    assert!(turn(scene.look(&first)).fresh, "it was offered to a server");
    scene.let_go();
    assert!(!turn(scene.look(&second)).fresh);
}

#[test]
fn to_a_claim_that_is_spent_nothing_is_handed() {
    let mut scene = Scene::held();
    let _first = scene.sit(1);
    let heir = scene.promise().unwrap();
    scene.queue.disappoint(KEY, heir);
    assert!(scene.promise().is_none());
    // Nor does it let another one go first.
    let second = scene.sit(2);
    assert!(scene.promise().is_none());
    scene.take(Duration::from_secs(60));
    assert!(scene.promise().is_none());
    assert!(matches!(second.find(), Found::Waiting));
}

#[test]
fn an_heir_in_doubt_is_the_one_at_the_server_with_it() {
    let scene = Scene::held();
    let (first, second) = (scene.sit(1), scene.sit(2));
    let heir = scene.promise().unwrap();
    scene.queue.leave_in_doubt(KEY, &heir, 7);
    assert!(matches!(scene.look(&first), Came::Handed(7)));
    assert!(matches!(second.find(), Found::Waiting));
    assert_eq!(scene.queue.pass(KEY, false), None);
    scene.let_go();
    turn(scene.look(&second));
}

#[test]
fn nobody_goes_to_the_server_while_a_hand_over_is_on_its_way() {
    let scene = Scene::held();
    let (_first, second) = (scene.sit(1), scene.sit(2));
    let _heir = scene.promise().unwrap();
    scene.clock.advance(Duration::from_secs(3600));
    assert_over(scene.look(&second));
    assert_eq!(scene.queue.pass(KEY, false), None);
    assert!(scene.promise().is_none(), "it is promised once");
}

#[test]
fn whoever_gives_up_in_front_is_not_in_the_way_of_the_next() {
    let mut scene = Scene::empty();
    scene.take(Duration::from_secs(5));
    let (first, second) = (scene.sit(1), scene.sit(2));
    assert_over(scene.look(&first));
    // Now the second one is the first: it is the heir, and it knows how long to wait.
    let ends = scene.now().plus(Duration::from_secs(5));
    assert_eq!(scene.queue.look(KEY, &second), ends);
    let heir = scene.promise().expect("somebody waits");
    assert!(Arc::ptr_eq(&heir, &second));
}

#[test]
fn whoever_gives_up_when_the_turn_is_due_gives_it_to_the_next() {
    let mut scene = Scene::empty();
    scene.take(Duration::from_secs(5));
    let (first, second) = (scene.sit(1), scene.sit(2));
    scene.clock.advance(Duration::from_secs(5));
    // Nobody has looked since the holder's time ran out.
    assert_over(scene.look(&second));
    assert!(matches!(first.find(), Found::Turn(_)));
}
