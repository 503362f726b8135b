//! A lock of the doctor's own, taken, renewed and given back, by the library as every lock is.

use std::time::Duration;

use leasehold::{Client, Error};

use super::finding::{Finding, Level};
use crate::exit::chain;

/// So long the record stands if it cannot be deleted again.
const TTL: Duration = Duration::from_secs(5);

/// The name of a lock that nobody else has.
pub(crate) struct Key {
    given: Option<String>,
    name: String,
}

impl Key {
    /// It begins with the key that was `given`, as the keys beside a lock's own do, so that the
    /// same pattern of the user's rights covers it.
    pub(crate) fn new(given: Option<String>) -> Self {
        let number = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        let begin = given.as_deref().unwrap_or_default();
        let colon = if begin.is_empty() || begin.ends_with(':') {
            ""
        } else {
            ":"
        };
        let name = format!("{begin}{colon}leasehold:doctor:{number:016x}");
        Self { given, name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }
}

pub(crate) fn look(client: &Client, key: &Key) -> Finding {
    const LOOK: &str = "lock";
    match cycle(client, key) {
        Ok(()) => Finding::new(
            Level::Ok,
            LOOK,
            "one was taken, renewed and released",
            "Locks work here now, and the scripts that renew and release them.",
        ),
        Err((_, None)) => Finding::new(
            Level::Unsafe,
            LOOK,
            "one that nobody else knows is held by another",
            "This server does not answer as Redis does.",
        ),
        Err((doing, Some(error))) => Finding::new(
            // It may have been a lost reply, and no more.
            if error.is_unknown() {
                Level::Warning
            } else {
                Level::Unsafe
            },
            LOOK,
            format!("one cannot be {doing}: {}", chain(&error)),
            "No lock works here as long as this is so. If something was left of this one, it is \
             gone after 5 s.",
        )
        .mend("see to what the server says, and to what else is found here"),
    }
}

/// What it failed at, and why; without a reason, another holds it.
fn cycle(client: &Client, key: &Key) -> Result<(), (&'static str, Option<Error>)> {
    let failed = |doing| move |error| (doing, Some(error));
    let options = client.lock(key.name()).ttl(TTL).without_renewal();
    let lock = options.build().map_err(failed("taken"))?;
    let lease = lock.try_acquire().map_err(failed("taken"))?;
    let lease = lease.ok_or(("taken", None))?;
    lease.renew().map_err(failed("renewed"))?;
    lease.release().map_err(failed("released"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_trial_begins_with_the_one_that_was_given() {
        for (given, begin) in [
            (None, "leasehold:doctor:"),
            (Some("order:"), "order:leasehold:doctor:"),
            (Some("order:1"), "order:1:leasehold:doctor:"),
        ] {
            let key = Key::new(given.map(str::to_owned));
            assert!(key.name().starts_with(begin), "{}", key.name());
        }
        assert_ne!(Key::new(None).name(), Key::new(None).name());
    }
}
