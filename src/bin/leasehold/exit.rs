//! What the command ends with, and what a failure of the library is among it.

use std::fmt;

use leasehold::Error;

/// The code that a program ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u8);

impl Code {
    pub(crate) const OK: Self = Self(0);
    /// `EX_USAGE` of `sysexits.h`.
    pub(crate) const USAGE: Self = Self(64);
    /// `EX_UNAVAILABLE`.
    pub(crate) const UNAVAILABLE: Self = Self(69);
    /// `EX_SOFTWARE`, which stands for: the lease was lost and the command ended for it.
    pub(crate) const LOST: Self = Self(70);
    /// `EX_TEMPFAIL`.
    pub(crate) const BUSY: u8 = 75;
    /// As shells have it for a command that is there and cannot be run.
    pub(crate) const CANNOT_RUN: Self = Self(126);
    /// As shells have it for a command that is not there.
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// As shells have it for a command that a signal has ended.
    pub(crate) fn of_signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }
}

/// A failure: one line, and the code to end with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Code::USAGE, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = if error.is_lost() {
            Code::LOST
        } else if error.is_timeout() {
            Code(Code::BUSY)
        } else if error.is_config() || error.is_wrong_type() {
            Code::USAGE
        } else {
            Code::UNAVAILABLE
        };
        Self::new(code, chain(&error))
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
