//! What is watched, as the watch and its callbacks see it.

use std::fmt;
use std::sync::Arc;

use crate::clock::Time;

/// A lease as the watch looks at it.
///
/// Apart from [`Told`] and [`Watched`], whose implementation holds a user's callbacks: whoever
/// holds it last drops them, and that must not be the thread that watches the clock.
pub(super) trait Looked: Send + Sync {
    /// Where it stands by the clock, and whether anybody is to be told. `told` is the watch's
    /// memory of it.
    fn look(&self, told: &mut Told) -> Look;
}

/// Whoever is told.
pub(crate) trait Watched: Send + Sync {
    fn key(&self) -> Arc<str>;

    fn wants(&self) -> Wants;

    /// Tells, on a thread where user code may run. Called only after a look asked for it.
    fn tell(self: Arc<Self>, notice: Notice);
}

/// What somebody wants to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants {
    pub(crate) danger: bool,
    pub(crate) lost: bool,
}

/// What a watcher remembers of one lease: the stay in the danger zone of which it has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told(pub(super) Option<u32>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) notice: Option<Notice>,
    /// When to look next; `None` when it is over.
    pub(super) next: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Of this stay in the danger zone, as the record counts them. `unlogged` if it was the watch
    /// that found it: what is logged may take its time, and a look must not.
    Danger {
        stay: u32,
        unlogged: bool,
    },
    Lost {
        unlogged: bool,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Danger { .. } => "danger",
            Self::Lost { .. } => "loss",
        })
    }
}
