//! What was done wrong in a step, where the state after it does not show it.

/// A breach that shows in a step and not in the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Breach {
    /// A delete removed a record that was not its own, or that its client relied on.
    WrongDelete,
    /// A lost lease was held again.
    Revived,
    /// `release` answered `Ok` though no delete of ours had removed the record.
    UntrueRelease,
    /// A token went into a `SET` though an earlier one with it, or a compare-and-delete, may still
    /// run.
    SetTooSoon,
    /// A renewal was sent for a lease whose release had returned.
    RenewedAfterRelease,
    /// The callback of the danger began twice in one stay in the zone, or loss was told twice.
    ToldTwice,
    /// The callback of a danger began though the lease was lost.
    DangerAfterDeadline,
    /// A callback began after the release had returned.
    NoticeAfterEnd,
    /// Loss was told, and the danger was not, though the watch had looked while it lasted.
    DangerPassedOver,
    /// The reaper gave a token up that the server had never answered for.
    GivenUpUnserved,
}

impl Breach {
    /// What follows a breach is of no interest, and would bury the counterexample. But that
    /// one must be followed to where it does harm.
    pub(super) fn ends_run(self) -> bool {
        self != Breach::SetTooSoon
    }
}
