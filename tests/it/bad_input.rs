//! Bad input: a clear error, nothing sent, nothing lost.

mod access;
mod keys;
mod options;

use std::error::Error as _;

use leasehold::{
    Canceller, Client, ClientBuilder, Error, FenceGate, Holder, Lease, LeaseState, LeaseWatch,
    Lock, LockBuilder, Stale, Stats, Token,
};

/// The messages of `error` and of its causes, outermost first, after a look at how they are
/// written: lower case, no full stop, nothing said twice.
#[track_caller]
pub(crate) fn said(error: &Error) -> Vec<String> {
    let mut chain = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        chain.push(cause.to_string());
        next = cause.source();
    }
    let first = chain[0].chars().next();
    assert!(
        first.is_some_and(|first| !first.is_uppercase()),
        "{chain:?}"
    );
    for (index, text) in chain.iter().enumerate() {
        assert!(!text.ends_with('.'), "{chain:?}");
        let repeated = chain[index + 1..]
            .iter()
            .find(|later| text.contains(*later));
        assert_eq!(repeated, None, "{chain:?}");
    }
    chain
}

/// What `error` says, causes included, in one line.
#[track_caller]
pub(crate) fn in_one_line(error: &Error) -> String {
    said(error).join(": ")
}

#[test]
fn handles_cross_threads_and_those_that_promise_it_can_be_cloned() {
    fn crosses<T: Send + Sync + 'static>() {}
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    is_shared::<Client>();
    is_shared::<ClientBuilder>();
    is_shared::<Lock>();
    is_shared::<LockBuilder>();
    is_shared::<LeaseWatch>();
    is_shared::<LeaseState>();
    is_shared::<Canceller>();
    is_shared::<Token>();
    is_shared::<Holder>();
    is_shared::<Stats>();
    is_shared::<Stale>();
    crosses::<Lease>();
    crosses::<FenceGate>();
    crosses::<Error>();
}
