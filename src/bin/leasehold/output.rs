//! What leasehold itself says: to standard error only, prefixed, or nothing.

use std::io::Write;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Quiet,
    Normal,
    Verbose,
}

/// Says it on standard error. Nobody may be there to read it, and that is no reason to fail.
pub(crate) fn say(text: impl std::fmt::Display) {
    let line = format!("leasehold: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints a result on standard output. A reader who has gone (`| head`) has seen enough.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().write_all(format!("{text}\n").as_bytes());
}

/// Shows what the library logs, with `--verbose`; without it, its warnings.
pub(crate) fn install_log(level: Level) {
    static LOGGER: Logger = Logger;
    let filter = match level {
        Level::Quiet => log::LevelFilter::Off,
        Level::Normal => log::LevelFilter::Error,
        Level::Verbose => log::LevelFilter::Debug,
    };
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(filter);
    }
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            say(record.args());
        }
    }

    fn flush(&self) {}
}
