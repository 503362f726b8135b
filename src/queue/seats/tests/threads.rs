//! Waiting threads are told, and do not find out by looking once a second.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use super::*;

/// How often each is done: whoever is not told looks after a second, so that this many take
/// longer than [`BOUND`].
const TIMES: u32 = 12;
const BOUND: Duration = Duration::from_secs(6);

/// Whether the thread at this seat has gone to sleep in it, or is about to.
fn is_parked(thread: &thread::JoinHandle<bool>, asleep: &AtomicBool) -> bool {
    !thread.is_finished() && asleep.load(Ordering::SeqCst)
}

/// Has `tell` end the wait of a thread, again and again; `wanted` is what comes of it.
#[track_caller]
fn assert_told(
    wanted: fn(Came<u32>) -> bool,
    tell: impl Fn(&mut Scene, &Arc<Seat<u32, u32>>, &AtomicBool),
) {
    let begun = Instant::now();
    for _ in 0..TIMES {
        let mut scene = Scene::held();
        let seat = scene.queue.sit(&scene.key, 1, true, false);
        let cancelled = Arc::new(AtomicBool::new(false));
        let asleep = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (queue, key) = (Arc::clone(&scene.queue), Arc::clone(&scene.key));
            let (seat, asleep) = (Arc::clone(&seat), Arc::clone(&asleep));
            let cancelled = Arc::clone(&cancelled);
            thread::spawn(move || {
                let times = (Time::MAX, Duration::from_secs(1));
                wanted(queue.wait(&key, &seat, times, || {
                    // Asked with nothing locked, right before it looks and goes to sleep.
                    asleep.store(true, Ordering::SeqCst);
                    cancelled.load(Ordering::SeqCst)
                }))
            })
        };
        while !is_parked(&waiter, &asleep) {
            thread::yield_now();
        }
        tell(&mut scene, &seat, &cancelled);
        assert!(waiter.join().unwrap());
    }
    let took = begun.elapsed();
    assert!(took < BOUND, "{took:?}");
}

#[test]
fn a_turn_wakes_its_owner() {
    assert_told(
        |came| matches!(came, Came::Turn(_)),
        |scene, _, _| scene.vacate(false),
    );
}

#[test]
fn what_is_handed_over_wakes_its_owner() {
    assert_told(
        |came| matches!(came, Came::Handed(7)),
        |scene, _, _| {
            let heir = scene.promise().unwrap();
            scene.hand(&heir, 7).unwrap();
        },
    );
}

#[test]
fn doubt_wakes_its_owner() {
    assert_told(
        |came| matches!(came, Came::Handed(8)),
        |scene, _, _| {
            let heir = scene.promise().unwrap();
            scene.queue.leave_in_doubt(KEY, &heir, 8);
        },
    );
}

#[test]
fn a_server_that_is_away_wakes_those_who_do_not_wait_for_it() {
    assert_told(
        |came| matches!(came, Came::Away(_)),
        |scene, _, _| scene.queue.turn_away(KEY, &away()),
    );
}

#[test]
fn a_kick_has_a_cancelled_one_look() {
    assert_told(
        |came| matches!(came, Came::Over(_)),
        |_, seat, cancelled| {
            cancelled.store(true, Ordering::SeqCst);
            seat.kick();
        },
    );
}

#[test]
fn a_loss_wakes_whoever_is_in_front() {
    assert_told(
        |came| matches!(came, Came::Turn(_)),
        |scene, _, _| {
            scene.lease.ends.store(0, Ordering::SeqCst);
            scene.queue.look_again(KEY);
        },
    );
}

#[test]
fn the_turn_of_one_who_leaves_the_server_wakes_the_next() {
    let begun = Instant::now();
    let scene = Scene::empty();
    let first = scene.sit(0);
    turn(scene.look(&first));
    let waiters: Vec<_> = (1..=TIMES)
        .map(|claim| {
            let seat = scene.sit(claim);
            let (queue, key) = (Arc::clone(&scene.queue), Arc::clone(&scene.key));
            thread::spawn(move || {
                let times = (Time::MAX, Duration::from_secs(1));
                turn(queue.wait(&key, &seat, times, || false));
                queue.let_go(&key);
            })
        })
        .collect();
    scene.let_go();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    let took = begun.elapsed();
    assert!(took < BOUND, "{took:?}");
    assert!(!scene.is_kept());
}

/// Whoever comes to the front behind a new holder knows how long that one has.
#[track_caller]
fn assert_the_next_goes_when_a_new_holder_ends(take: impl Fn(&mut Scene, &Arc<Seat<u32, u32>>)) {
    const SPAN: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    for _ in 0..TIMES {
        let mut scene = Scene::held();
        let first = scene.sit(1);
        let second = scene.sit(2);
        let asleep = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (queue, key) = (Arc::clone(&scene.queue), Arc::clone(&scene.key));
            let asleep = Arc::clone(&asleep);
            thread::spawn(move || {
                let times = (Time::MAX, Duration::from_secs(1));
                let came = queue.wait(&key, &second, times, || {
                    asleep.store(true, Ordering::SeqCst);
                    false
                });
                matches!(came, Came::Turn(_))
            })
        };
        while !is_parked(&waiter, &asleep) {
            thread::yield_now();
        }
        take(&mut scene, &first);
        scene.clock.advance(SPAN);
        assert!(waiter.join().unwrap());
    }
    let took = begun.elapsed();
    assert!(took < BOUND, "{took:?}");
}

#[test]
fn a_holder_to_whom_it_was_handed_is_waited_for_until_its_end_and_not_a_second() {
    assert_the_next_goes_when_a_new_holder_ends(|scene, _| {
        let heir = scene.promise().unwrap();
        let tenancy = scene.next_lease(Duration::from_millis(20));
        scene.queue.hand(KEY, &heir, tenancy, 7).unwrap();
    });
}

#[test]
fn a_holder_who_took_it_from_the_server_is_waited_for_until_its_end_and_not_a_second() {
    assert_the_next_goes_when_a_new_holder_ends(|scene, first| {
        scene.vacate(false);
        turn(scene.look(first));
        scene.take(Duration::from_millis(20));
        scene.let_go();
    });
}
