//! Starting a thread of the background: by name, and a refusal is an error.

use std::sync::Arc;
use std::thread;

use crate::error::Cause;

pub(crate) fn start(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<(), Cause> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(drop)
        .map_err(|source| Cause::Thread {
            name,
            source: Arc::new(source),
        })
}
