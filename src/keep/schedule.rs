//! What is to be looked at when, and what of it first: any of it can be taken out at once.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::clock::Time;

/// How long a thread stays when there is nothing in its schedule: so that a lone holder's cycles
/// start none.
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// Items by number. Each waits until it is due, and is then taken in the order of urgency: what
/// fell due first is not what can wait least.
///
/// In memory it is as large as what is in it: nothing is left behind by what was taken out.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    items: HashMap<u64, Item<T>>,
    /// By the time at which they are due.
    waiting: BTreeSet<(Time, u64)>,
    /// What has been found due, by urgency.
    ripe: BTreeSet<(Time, u64)>,
}

#[derive(Debug)]
struct Item<T> {
    value: T,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Waiting {
        due: Time,
        urgency: Time,
    },
    Ripe {
        urgency: Time,
    },
    /// Somebody is at it.
    InHand,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            items: HashMap::new(),
            waiting: BTreeSet::new(),
            ripe: BTreeSet::new(),
        }
    }
}

impl<T> Schedule<T> {
    /// Adds an item under a number of its own. `urgency` is the time by which it should have
    /// been looked at.
    pub(super) fn insert(&mut self, number: u64, due: Time, urgency: Time, value: T) {
        let place = Place::Waiting { due, urgency };
        self.items.insert(number, Item { value, place });
        self.waiting.insert((due, number));
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let item = self.items.remove(&number)?;
        self.leave(number, item.place);
        Some(item.value)
    }

    /// Whether the item is there and nobody is at it.
    pub(super) fn is_free(&self, number: u64) -> bool {
        self.items
            .get(&number)
            .is_some_and(|item| !matches!(item.place, Place::InHand))
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.items.get_mut(&number).map(|item| &mut item.value)
    }

    /// When the next item falls due, apart from those that were found due already.
    pub(super) fn next_due(&self) -> Time {
        self.waiting.first().map_or(Time::MAX, |(due, _)| *due)
    }

    pub(super) fn has_ripe(&self) -> bool {
        !self.ripe.is_empty()
    }

    /// Finds out what is due by `now`. Whether anything is.
    pub(super) fn ripen(&mut self, now: Time) -> bool {
        while let Some((due, number)) = self.waiting.first().copied()
            && due <= now
        {
            self.waiting.remove(&(due, number));
            let Some(item) = self.items.get_mut(&number) else {
                continue;
            };
            if let Place::Waiting { urgency, .. } = item.place {
                item.place = Place::Ripe { urgency };
                self.ripe.insert((urgency, number));
            }
        }
        !self.ripe.is_empty()
    }

    /// What is ripe, the most urgent first.
    pub(super) fn ripe(&self) -> impl Iterator<Item = (u64, &T)> {
        self.ripe
            .iter()
            .filter_map(|(_, number)| Some((*number, &self.items.get(number)?.value)))
    }

    /// Takes the most urgent of what is ripe in hand: until it is put back, it waits for
    /// nothing.
    pub(super) fn take(&mut self) -> Option<(u64, &mut T)> {
        let (_, number) = self.ripe.pop_first()?;
        let item = self.items.get_mut(&number)?;
        item.place = Place::InHand;
        Some((number, &mut item.value))
    }

    /// Lets the item wait for `due`, if it is still there.
    pub(super) fn put_back(&mut self, number: u64, due: Time, urgency: Time) {
        let Some(item) = self.items.get_mut(&number) else {
            return;
        };
        let before = item.place;
        item.place = Place::Waiting { due, urgency };
        self.leave(number, before);
        self.waiting.insert((due, number));
    }

    /// Lets everything that is in hand wait for `due`.
    pub(super) fn put_all_back(&mut self, due: Time) {
        for (number, item) in &mut self.items {
            if matches!(item.place, Place::InHand) {
                let urgency = due;
                item.place = Place::Waiting { due, urgency };
                self.waiting.insert((due, *number));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn leave(&mut self, number: u64, place: Place) {
        match place {
            Place::Waiting { due, .. } => self.waiting.remove(&(due, number)),
            Place::Ripe { urgency } => self.ripe.remove(&(urgency, number)),
            Place::InHand => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn nothing_is_ripe_before_it_is_due() {
        let mut schedule = Schedule::default();
        schedule.insert(1, at(30), at(90), "late");
        schedule.insert(2, at(10), at(90), "early");
        assert_eq!(schedule.next_due(), at(10));
        assert!(!schedule.ripen(at(9)) && schedule.take().is_none());
        assert!(schedule.ripen(at(10)));
        assert!(schedule.has_ripe());
        assert_eq!(schedule.next_due(), at(30));
        assert_eq!(schedule.take(), Some((2, &mut "early")));
        assert!(schedule.take().is_none());
        assert!(!schedule.has_ripe());
    }

    #[test]
    fn of_what_is_ripe_the_most_urgent_comes_first_whenever_it_fell_due() {
        let mut schedule = Schedule::default();
        schedule.insert(1, at(10), at(900), "can wait");
        schedule.insert(2, at(20), Time::MAX, "can wait longest");
        schedule.insert(3, at(30), at(40), "cannot");
        schedule.ripen(at(30));
        let order: Vec<u64> = schedule.ripe().map(|(number, _)| number).collect();
        assert_eq!(order, [3, 1, 2]);
        assert_eq!(schedule.take(), Some((3, &mut "cannot")));
    }

    #[test]
    fn what_is_in_hand_waits_for_nothing_until_it_is_put_back() {
        let mut schedule = Schedule::default();
        schedule.insert(1, at(5), at(9), ());
        schedule.ripen(at(5));
        assert!(schedule.is_free(1));
        schedule.take();
        assert!(!schedule.is_free(1) && !schedule.has_ripe());
        assert_eq!(schedule.next_due(), Time::MAX);
        schedule.put_back(1, at(7), at(9));
        assert!(schedule.is_free(1));
        assert_eq!(schedule.next_due(), at(7));
        schedule.ripen(at(7));
        schedule.take();
        schedule.put_all_back(at(8));
        assert_eq!(schedule.next_due(), at(8));
    }

    #[test]
    fn what_was_taken_out_does_not_come_back_and_leaves_nothing_behind() {
        let mut schedule = Schedule::default();
        for number in 1..=4 {
            schedule.insert(number, at(5 * number), at(99), ());
        }
        schedule.ripen(at(15));
        assert_eq!(schedule.take().map(|(number, ())| number), Some(1));
        for number in 1..=4 {
            assert_eq!(schedule.remove(number), Some(()));
        }
        schedule.put_back(1, at(9), at(9));
        assert!(schedule.is_empty() && schedule.waiting.is_empty() && schedule.ripe.is_empty());
        assert_eq!(schedule.next_due(), Time::MAX);
    }
}
