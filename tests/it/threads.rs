//! The threads of a client: which there are, from when, and until when.
//!
//! A process has the threads of all its clients, and the tests of a binary run side by side: so
//! each test here has a process of its own.

mod beginnings;
mod endings;
mod numbers;
mod refused;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::support::PATIENCE;
use crate::support::children::{self, Child};

pub(crate) const RENEW: &str = "leasehold-renew";
/// The kernel keeps 15 letters of a name, which is what these have at most.
pub(crate) const WATCH: &str = "leasehold-watch";
pub(crate) const CALL: &str = "leasehold-call";
pub(crate) const LINK: &str = "leasehold-link";

/// How long they stay without work.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// What a starved machine may add to that, or to "at once".
pub(crate) const SLACK: Duration = Duration::from_secs(1);

/// The threads of this process that are the library's, by their ids.
pub(crate) fn threads() -> BTreeMap<u32, String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has an entry in /proc");
    let named = tasks.flatten().filter_map(|task| {
        // One that has ended meanwhile has no name any more.
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let id = task.file_name().to_str()?.parse().ok()?;
        Some((id, name.trim_end().to_owned()))
    });
    named
        .filter(|(_, name)| name.starts_with("leasehold"))
        .collect()
}

/// Their names, in the order of the alphabet.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<_> = threads().into_values().collect();
    names.sort();
    names
}

pub(crate) fn count(name: &str) -> usize {
    names().iter().filter(|found| *found == name).count()
}

/// Runs `test` in a process of its own. It has to be written into the test that calls this:
/// the process runs that one.
#[track_caller]
pub(crate) fn alone<T: FnOnce()>(variables: &[(&str, &str)], test: T) {
    if let Some(parent) = children::parent() {
        test();
        parent.say("done");
        return;
    }
    // `it::threads::endings::some_test::{{closure}}`
    let path = std::any::type_name::<T>();
    let path = path.strip_prefix("it::").expect("a test of this binary");
    let role = path.strip_suffix("::{{closure}}").expect("a closure");
    let mut child = Child::run(role, variables);
    assert_eq!(child.expect_line(3 * PATIENCE), "done");
    assert!(child.wait(PATIENCE).success());
}
