//! Which of the crate's scripts a command calls, and with what: how many keys and arguments each
//! of them takes is its own business.

use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    AcquireFenced,
    Adopt,
    Read,
    Release,
    Renew,
    Wait,
}

/// A call of one of the crate's scripts, by its digest or with its text.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub script: Script,
    pub arguments: &'a [String],
}

impl Script {
    /// What `words` call, if it is one of the scripts.
    pub fn called(words: &[String]) -> Option<Call<'_>> {
        let [command, script, count, rest @ ..] = words else {
            return None;
        };
        let mut known = KNOWN.iter();
        let known = match command.as_str() {
            "EVALSHA" => known.find(|known| known.digest == *script),
            "EVAL" => known.find(|known| known.text == *script),
            _ => None,
        };
        let (_, arguments) = rest.split_at_checked(count.parse().ok()?)?;
        known.map(|known| Call {
            script: known.script,
            arguments,
        })
    }

    pub fn is_called(self, words: &[String]) -> bool {
        Script::called(words).is_some_and(|call| call.script == self)
    }
}

struct Known {
    script: Script,
    text: &'static str,
    digest: String,
}

static KNOWN: LazyLock<[Known; 6]> = LazyLock::new(|| {
    macro_rules! known {
        ($script:ident, $($file:literal),+) => {{
            let text = concat!($(include_str!(concat!("../../../lua/", $file))),+);
            let digest = redis::Script::new(text).get_hash().to_owned();
            Known { script: Script::$script, text, digest }
        }};
    }
    [
        known!(AcquireFenced, "fence.lua", "acquire_fenced.lua"),
        known!(Adopt, "fence.lua", "adopt.lua"),
        known!(Read, "read.lua"),
        known!(Release, "release.lua"),
        known!(Renew, "renew.lua"),
        known!(Wait, "fence.lua", "wait.lua"),
    ]
});
