//! A logger is somebody else's code: it may block, and it may panic.
//!
//! A process has one logger, so that each test here has a process of its own.

mod blocking;
mod panicking;

use std::thread;

use log::{LevelFilter, Log, Metadata, Record};

/// Does with each record of the library what a test wants of a logger.
struct Logger<F>(F);

impl<F: Fn(&str) + Send + Sync> Log for Logger<F> {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        if record.target().starts_with("leasehold") {
            self.0(thread::current().name().unwrap_or_default());
        }
    }

    fn flush(&self) {}
}

/// `hear` is called on the thread that logs, and with its name. It comes before anything else.
fn install(hear: impl Fn(&str) + Send + Sync + 'static) {
    let logger = Box::leak(Box::new(Logger(hear)));
    log::set_logger(logger).expect("no other logger in this process");
    log::set_max_level(LevelFilter::Trace);
}
