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
    /// The reaper deletes whatever stands there.
    ReaperWithoutCompare,
    /// The reaper counts the ttl to its end from its first attempt, answered or not.
    UnansweredEndsReaper,
    /// Release leaves a renewal in the batch.
    RenewalNotStopped,
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
    /// A hand-over that was not answered counts as done.
    UnansweredHandedOver,
    /// The heir's record is set whatever stands there.
    HandOverWithoutCompare,
    /// A hand-over leaves the predecessor's renewal in the batch.
    RenewalHandedOver,
    /// When the hand-over has come to nothing, it is the heir's record that release deletes.
    ReleaseWithHeirsToken,
    /// The predecessor's release deletes the record of its key although it was handed over.
    HandedOverAndDeleted,
    /// A hand-over whose settling came to nothing leaves the heir's token to nobody.
    HeirLeftUntainted,
    /// The reaper has got both tokens, and the heir goes on to settle its own.
    TaintedHeirSettled,
    /// An heir whose hand-over may still run goes on with the same token.
    HeirsTokenReused,
    /// The heir's token is taken as disproven although the old connection was not fenced off.
    HeirDisprovenWithoutBarrier,
    /// The predecessor relies on its lease until the hand-over has been answered.
    HandOverMarkedLate,
    /// The heir's deadline counts from the reply.
    HeirsDeadlineFromReply,
    /// An unknown hand-over names the end of the predecessor's record, and not the heir's.
    BoundIgnoresHeir,
    /// The heir has left before the hand-over was settled, and nobody gives its lease back.
    HeirGoneUnnoticed,
    /// The watch does not remember that it has told of danger.
    DangerAtEveryLook,
    /// The watch does not remember that it has told of the loss.
    LossAtEveryLook,
    /// The watch tells of danger only when no renewal is out that could end it.
    DangerWaitsForRenewal,
    /// The callback threads begin what they were given without another look at the lease.
    NoticeBegunUnlooked,
    /// The callback threads look whether it is danger, and not whether it is the same one.
    StaleNoticeBegun,
    /// The server's clock gains without limit: no rule broken, but what the rules rest on.
    ClockBeyondAllowance,
}

impl Fault {
    /// Whether a late command with a spent token may do harm, so that none may be left out.
    pub(super) fn arms_spent_tokens(self) -> bool {
        matches!(
            self,
            Fault::TokenReusedAfterDelete
                | Fault::DeleteWithoutCompare
                | Fault::ReaperWithoutCompare
                | Fault::RenewalRecreates
                | Fault::HandOverWithoutCompare
                | Fault::HeirsTokenReused
        )
    }
}
