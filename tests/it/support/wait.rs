//! Waiting for what must come, with a deadline: no test sleeps to "give it time".

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The patience of this module's users where a test names no bound of its own. Only a fault uses
/// it up, so it is generous: the machine may be starved.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Asks `condition` every millisecond until it holds; after `within` the test fails with `what`.
#[track_caller]
pub fn eventually(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    let (nobody, never) = (Mutex::new(()), Condvar::new());
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "{what}: not so within {within:?}"
        );
        never.wait_for(&mut nobody.lock(), Duration::from_millis(1));
    }
}

/// Runs `work` on a thread of its own and returns its value; where it takes longer than `bound`
/// the test fails, while the thread is left behind. A panic of `work` is passed on.
#[track_caller]
pub fn within<T: Send + 'static>(bound: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let worker = thread::Builder::new()
        .name(String::from("within"))
        .spawn(move || {
            // The receiver is gone only where the bound has passed and the test has failed.
            let _ = done.send(work());
        })
        .expect("a thread for the bounded work");
    match result.recv_timeout(bound) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("not back within {bound:?}"),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the work sends its value before it ends"),
        },
    }
}
