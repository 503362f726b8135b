//! What leasehold itself says: to standard error only, prefixed, or nothing.

use std::io::{ErrorKind, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// `EX_IOERR` of `sysexits.h`.
const CANNOT_WRITE: i32 = 74;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Quiet,
    Normal,
    Verbose,
}

/// Says it on standard error, if there is room for it: a pipe that nobody empties must not hold up
/// whoever has a command to end. Nobody may be there to read it either.
pub(crate) fn say(text: impl std::fmt::Display) {
    let line = format!("leasehold: {text}\n");
    let stderr = std::io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if poll(&mut polled, Some(&at_once)).is_ok_and(|ready| 0 < ready) {
        let _ = stderr.lock().write_all(line.as_bytes());
    }
}

/// Prints a result on standard output. A reader who has gone (`| head`) has seen enough.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout();
    let written = out.write_all(format!("{text}\n").as_bytes());
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            say(format_args!("cannot write to standard output: {error}"));
            std::process::exit(CANNOT_WRITE);
        }
        _ => {}
    }
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
