//! Any order of events: whoever waits is served, in the order of arrival, and one at a time.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Somebody comes and sits down.
    Come,
    /// The one so far behind the first gives up.
    GiveUp(usize),
    /// The one at the server comes back with the lock, or without.
    Return { with_it: bool },
    /// The holder gives the lock back, or hands it on.
    Release(Fate),
    /// The holder's time runs out, or it is found to have lost the lock.
    Lose,
}

/// What becomes of a release.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Deleted,
    Handed,
    Disappointed,
    InDoubt,
    /// The heir goes before it is settled, as each of the above.
    TooLateHanded,
    TooLateDisappointed,
    TooLateInDoubt,
}

fn event() -> impl Strategy<Value = Event> {
    let fate = prop_oneof![
        Just(Fate::Deleted),
        Just(Fate::Handed),
        Just(Fate::Disappointed),
        Just(Fate::InDoubt),
        Just(Fate::TooLateHanded),
        Just(Fate::TooLateDisappointed),
        Just(Fate::TooLateInDoubt),
    ];
    prop_oneof![
        5 => Just(Event::Come),
        1 => (0_usize..8).prop_map(Event::GiveUp),
        3 => any::<bool>().prop_map(|with_it| Event::Return { with_it }),
        4 => fate.prop_map(Event::Release),
        1 => Just(Event::Lose),
    ]
}

/// What has to be true of the queue, kept beside it in the plainest way.
struct Book {
    scene: Scene,
    waiting: VecDeque<Arc<Seat<u32, u32>>>,
    /// Whoever is at the server.
    ahead: bool,
    held: bool,
    next: u32,
}

impl Book {
    /// Whoever is served next must be the first of those who wait.
    fn settle(&mut self) {
        if self.ahead || self.held {
            return;
        }
        if let Some(first) = self.waiting.pop_front() {
            assert!(matches!(first.find(), Found::Turn(_)), "nobody is served");
            self.ahead = true;
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Come => {
                self.next += 1;
                self.waiting.push_back(self.scene.sit(self.next));
            }
            Event::GiveUp(place) => {
                if let Some(seat) = self.waiting.remove(place) {
                    assert!(matches!(self.scene.look(&seat), Came::Over(_)));
                }
            }
            Event::Return { with_it } if self.ahead => {
                if with_it {
                    self.scene.take(Duration::from_secs(60));
                }
                self.scene.let_go();
                (self.ahead, self.held) = (false, with_it);
            }
            Event::Release(fate) if self.held => self.release(fate),
            Event::Lose if self.held => {
                self.scene.lease.ends.store(0, Ordering::SeqCst);
                self.scene.queue.look_again(KEY);
                self.held = false;
            }
            Event::Return { .. } | Event::Release(_) | Event::Lose => return,
        }
        self.settle();
        let waiting = |seat: &Arc<Seat<u32, u32>>| matches!(seat.find(), Found::Waiting);
        assert!(self.waiting.iter().all(waiting), "two are served at once");
    }

    fn release(&mut self, fate: Fate) {
        let is_deleted = matches!(fate, Fate::Deleted);
        let heir = (!is_deleted).then(|| self.scene.promise()).flatten();
        let Some(heir) = heir else {
            self.scene.vacate(false);
            self.held = false;
            return;
        };
        let seat = self.waiting.pop_front().unwrap();
        assert!(Arc::ptr_eq(&heir, &seat), "the first is the heir");
        let is_gone = matches!(
            fate,
            Fate::TooLateHanded | Fate::TooLateDisappointed | Fate::TooLateInDoubt
        );
        if is_gone {
            assert!(matches!(self.scene.look(&seat), Came::LeftInDoubt));
        }
        self.held = false;
        match fate {
            Fate::Deleted => unreachable!(),
            Fate::Handed => {
                self.scene.hand(&heir, 7).unwrap();
                assert!(matches!(seat.find(), Found::Handed(7)));
                self.held = true;
            }
            Fate::TooLateHanded => assert_eq!(self.scene.hand(&heir, 7), Err(7)),
            Fate::Disappointed | Fate::TooLateDisappointed => {
                self.scene.queue.disappoint(KEY, heir);
                if !is_gone {
                    self.waiting.push_front(seat);
                }
                self.scene.vacate(false);
            }
            Fate::InDoubt => {
                self.scene.queue.leave_in_doubt(KEY, &heir, 7);
                assert!(matches!(seat.find(), Found::Handed(7)));
                self.ahead = true;
            }
            Fate::TooLateInDoubt => self.scene.queue.leave_in_doubt(KEY, &heir, 7),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_those_who_wait_are_served_one_by_one_in_the_order_of_arrival(
        events in prop::collection::vec(event(), 0..200)
    ) {
        let mut book = Book {
            scene: Scene::empty(),
            waiting: VecDeque::new(),
            ahead: false,
            held: false,
            next: 0,
        };
        for event in events {
            book.happen(event);
        }
        // Everybody goes home, and nothing is left.
        while book.ahead || book.held || !book.waiting.is_empty() {
            book.happen(Event::Return { with_it: false });
            book.happen(Event::Release(Fate::Deleted));
        }
        prop_assert!(!book.scene.is_kept());
    }
}
