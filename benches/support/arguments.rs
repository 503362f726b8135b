//! What a bench without a harness is asked for.

use std::env;
use std::time::Duration;

/// The words of the command line, without what is criterion's or cargo's own.
pub(crate) fn words() -> Vec<String> {
    let arguments = env::args().skip(1);
    arguments
        .filter(|argument| !argument.starts_with('-'))
        .collect()
}

/// `cargo test --benches` and criterion's `--test` want to see it run, not its figures.
pub(crate) fn is_smoke() -> bool {
    let has = |wanted: &str| env::args().skip(1).any(|argument| argument == wanted);
    !has("--bench") || has("--test")
}

/// A size that the environment may change.
pub(crate) fn number(variable: &str, default: usize) -> Result<usize, String> {
    match env::var(variable) {
        Err(_) => Ok(default),
        Ok(text) => match text.parse() {
            Ok(number) if 0 < number => Ok(number),
            _ => Err(format!("{variable} is not a number above 0: {text}")),
        },
    }
}

/// A time that the environment may change.
pub(crate) fn millis(variable: &str, default: usize) -> Result<Duration, String> {
    let millis = u64::try_from(number(variable, default)?).unwrap_or(u64::MAX);
    Ok(Duration::from_millis(millis))
}
