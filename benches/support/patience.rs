//! Waiting for what must come soon, unless something is wrong.

use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if deadline < Instant::now() {
            return Err(format!("waited {PATIENCE:?} in vain: {what}"));
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    Ok(())
}
