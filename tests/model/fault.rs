//! Rules left out one at a time, to see that the properties notice.

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A token goes into a `SET` again although a compare-and-delete for it has been sent.
    TokenReusedAfterDelete,
    /// The deadline counts from the reply and not from before the send.
    DeadlineFromReply,
    /// Release deletes whatever stands there.
    DeleteWithoutCompare,
    /// A renewal that finds nothing sets the record anew.
    RenewalRecreates,
    /// A confirmation that comes in after the deadline is applied.
    LateConfirmationApplied,
    /// "Not ours" is taken as proven although the old connection was not fenced off.
    ProvenWithoutBarrier,
    /// When resolving breaks off too, it is the latest connection that is fenced off, and not the
    /// one that carries the `SET`.
    WrongLinkFencedOff,
    /// Validity is the whole ttl.
    NoDriftAllowance,
    /// A second compare-and-delete that finds nothing counts as released even after the deadline.
    GoneAlwaysReleased,
    /// The lease is relied on until the compare-and-delete has been answered.
    ReleaseMarkedLate,
    /// An unknown release counts the end of its record from the last confirmation, although a
    /// later renewal went unanswered.
    BoundIgnoresUnansweredRenewal,
    /// The server's clock gains without limit: no rule broken, but what the rules rest on.
    ClockBeyondAllowance,
}

impl Fault {
    /// Whether a late command with a spent token may do harm, so that none may be left out.
    pub(super) fn arms_spent_tokens(self) -> bool {
        matches!(
            self,
            Fault::TokenReusedAfterDelete | Fault::DeleteWithoutCompare | Fault::RenewalRecreates
        )
    }
}
