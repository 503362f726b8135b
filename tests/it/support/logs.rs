//! What the crate has said to the `log` facade.
//!
//! A process has one logger, and the tests of a binary run side by side: what one finds here may
//! come from another. Search for something that is the test's own, such as its key, or ask only
//! for what its own thread has logged.

use std::sync::Once;
use std::thread::{self, ThreadId};

use log::{Level, LevelFilter, Log, Metadata};
use parking_lot::Mutex;

#[derive(Clone, Debug)]
pub struct Record {
    pub level: Level,
    pub target: String,
    pub text: String,
    pub thread: ThreadId,
}

/// A moment in the log.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

static LOGGER: Logger = Logger {
    records: Mutex::new(Vec::new()),
};
static INSTALLED: Once = Once::new();

/// From now on everything is kept, whatever its level. [`mark`] does it too.
pub fn install() {
    INSTALLED.call_once(|| {
        log::set_logger(&LOGGER).expect("no other logger in the test binary");
        log::set_max_level(LevelFilter::Trace);
    });
}

pub fn mark() -> Mark {
    install();
    Mark(LOGGER.records.lock().len())
}

/// What all threads have logged since `mark`.
pub fn since(mark: Mark) -> Vec<Record> {
    LOGGER.records.lock()[mark.0..].to_vec()
}

/// What the calling thread has logged since `mark`.
pub fn of_this_thread(mark: Mark) -> Vec<Record> {
    let own = thread::current().id();
    since(mark)
        .into_iter()
        .filter(|record| record.thread == own)
        .collect()
}

/// The records since `mark` whose text holds `needle`.
pub fn containing(mark: Mark, needle: &str) -> Vec<Record> {
    since(mark)
        .into_iter()
        .filter(|record| record.text.contains(needle))
        .collect()
}

pub fn any_containing(mark: Mark, needle: &str) -> bool {
    LOGGER.records.lock()[mark.0..]
        .iter()
        .any(|record| record.text.contains(needle))
}

struct Logger {
    records: Mutex<Vec<Record>>,
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        // Formatted before the lock is taken: an argument's `Display` may log as well.
        let record = Record {
            level: record.level(),
            target: String::from(record.target()),
            text: record.args().to_string(),
            thread: thread::current().id(),
        };
        self.records.lock().push(record);
    }

    fn flush(&self) {}
}
