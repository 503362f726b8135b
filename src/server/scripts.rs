//! The scripts of `lua/`, each with the digest it is called by.

use std::sync::LazyLock;

/// One script of `lua/`.
pub(crate) struct Script {
    code: &'static str,
    digest: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        let digest = redis::Script::new(code).get_hash().to_owned();
        Self { code, digest }
    }

    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    /// The SHA-1 that `EVALSHA` takes.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/release.lua")));
pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/renew.lua")));
pub(crate) static ACQUIRE_FENCED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../../lua/fence.lua"),
        include_str!("../../lua/acquire_fenced.lua")
    ))
});
pub(crate) static ADOPT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../../lua/fence.lua"),
        include_str!("../../lua/adopt.lua")
    ))
});
pub(crate) static READ: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/read.lua")));

pub(crate) static WAIT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../../lua/fence.lua"),
        include_str!("../../lua/wait.lua")
    ))
});

/// All scripts, for loading them when a link is opened: what came by `SCRIPT LOAD` stays,
/// while newer servers evict what came by `EVAL`.
pub(crate) fn all() -> [&'static Script; 6] {
    [&RELEASE, &RENEW, &ACQUIRE_FENCED, &ADOPT, &READ, &WAIT]
}
