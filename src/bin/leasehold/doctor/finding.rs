//! A finding: what was seen, what it means for a lock, and how to mend it.

use serde_json::{Value, json};

/// How bad it is. The later, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Ok,
    /// To be known; nothing need be done.
    Note,
    /// Locks work, and something that may happen will cost them.
    Warning,
    /// Two may hold a lock at a time, or locks do not work at all.
    Unsafe,
}

impl Level {
    pub(crate) const ALL: [Self; 4] = [Self::Unsafe, Self::Warning, Self::Note, Self::Ok];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Unsafe => "unsafe",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// False where the question was refused: that is no good news.
    pub(crate) known: bool,
    /// What was looked at, in a word or two.
    pub(crate) look: &'static str,
    pub(crate) found: String,
    pub(crate) means: String,
    /// None where there is nothing to mend.
    pub(crate) mend: Option<String>,
}

impl Finding {
    pub(crate) fn new(
        level: Level,
        look: &'static str,
        found: impl AsRef<str>,
        means: impl Into<String>,
    ) -> Self {
        Self {
            level,
            known: true,
            look,
            found: printable(found.as_ref()),
            means: means.into(),
            mend: None,
        }
    }

    /// The question was refused, and `means` says what the answer would have told.
    pub(crate) fn unknown(look: &'static str, refused: &str, means: &str) -> Self {
        let found = format!("unknown: {refused} is refused");
        Self {
            known: false,
            ..Self::new(Level::Note, look, found, means)
        }
    }

    pub(crate) fn mend(mut self, mend: impl AsRef<str>) -> Self {
        self.mend = Some(printable(mend.as_ref()));
        self
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "level": self.level.name(),
            "known": self.known,
            "look": self.look,
            "found": self.found,
            "means": self.means,
            "mend": self.mend,
        })
    }
}

/// A server's words may hold what a terminal takes for commands.
fn printable(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_control() { '?' } else { char })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_cannot_command_a_terminal() {
        let finding = Finding::new(Level::Ok, "server", "7.0\x1b[2J\r\n", "");
        assert_eq!(finding.found, "7.0?[2J??");
    }

    #[test]
    fn levels_are_listed_from_the_worst() {
        assert!(Level::ALL.is_sorted_by(|one, next| next < one));
    }
}
