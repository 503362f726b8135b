//! Explores a model, and says what came of it.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

const THREADS: usize = 2;
/// As the explorer writes it.
const UNBOUNDED: usize = 0;

/// What the explorer asks of a model.
pub(super) trait Explored:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
    + Send
    + Sync
    + 'static
{
}

pub(super) fn explore<M: Explored>(
    model: M,
    size: impl Debug,
    finish_when: HasDiscoveries,
) -> impl Checker<M> {
    let begun = Instant::now();
    let checker = model
        .checker()
        .finish_when(finish_when)
        .threads(THREADS)
        .spawn_bfs()
        .join();
    println!(
        "model: {} unique states, max depth {}, {} steps, {:.1} s, {size:?}",
        checker.unique_state_count(),
        checker.max_depth(),
        checker.state_count(),
        begun.elapsed().as_secs_f64(),
    );
    checker
}

/// The models that `plant` makes must break the property, and the shortest way to it is printed.
pub(super) fn shows<M: Explored>(fault: impl Debug, property: &'static str, plant: impl Fn() -> M) {
    let mut shortest: Option<Vec<M::Action>> = None;
    // The explorer keeps the last counterexample of the many that it finds at a time.
    while let Some(shorter) = counterexample(plant(), property, shortest.as_deref()) {
        shortest = Some(shorter);
    }
    let shortest = shortest.expect("the fault has to show");
    println!("{fault:?} breaks \"{property}\":");
    for action in shortest {
        println!("  {action:?}");
    }
}

fn counterexample<M: Explored>(
    model: M,
    property: &'static str,
    than: Option<&[M::Action]>,
) -> Option<Vec<M::Action>> {
    // With one thread it is always the same. A path of n steps has a depth of n + 1.
    let explored = model
        .checker()
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .target_max_depth(than.map_or(UNBOUNDED, |actions| actions.len() + 1))
        .spawn_bfs()
        .join();
    explored.discovery(property).map(Path::into_actions)
}
