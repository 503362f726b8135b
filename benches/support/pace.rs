//! Something that is done every millisecond on a thread of its own, beside what is measured.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(1);

/// Runs `beside` on a thread of its own while `measured` runs. It is called every millisecond
/// with how late the system has woken it, and what it returns is collected.
pub(crate) fn beside<T>(
    beside: impl FnMut(Duration) -> Duration + Send,
    measured: impl FnOnce() -> T,
) -> (T, Vec<Duration>) {
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let mut beside = beside;
        let thread = scope.spawn(move || {
            let mut collected = Vec::new();
            loop {
                let due = Instant::now() + STEP;
                if stopped.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
                    return collected;
                }
                collected.push(beside(due.elapsed()));
            }
        });
        let result = measured();
        drop(stop);
        (result, thread.join().expect("it does not panic"))
    })
}
