//! What an exploration must have come across, or it proves little.

use super::protocol::Protocol;

/// Noted in the model and not in the state, where each of them would double the number of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    LeaseOfA,
    LeaseOfB,
    ResolvedAsOurs,
    ResolvedAsNotOurs,
    TokenTainted,
    OrphanReaped,
    /// The `SET` of its token may still run.
    ReaperEndedFirst,
    CommandFencedOff,
    SetRanLate,
    RenewalRanLate,
    DeleteRanLate,
    ConfirmedTooLate,
    LateConfirmation,
    /// The other renewal of the same lease was not answered yet, or is one that went astray.
    OneOfTwoConfirmed,
    ReleaseInferred,
    ExpiredUnderLease,
    HandedOver,
    HandedOverLate,
    HeirSettledAsOurs,
    HeirSettledAsNotOurs,
    BothTainted,
    HeirWasGone,
    DangerBegun,
    /// When a callback thread came to it, it was not true any more.
    DangerDropped,
    DangerOver,
    /// A renewal sent long ago was confirmed, and what it left is still the danger zone.
    DangerLengthened,
    LossAfterDanger,
    LossAtOnce,
}

impl Witness {
    const ALL: [Witness; 28] = [
        Witness::LeaseOfA,
        Witness::LeaseOfB,
        Witness::ResolvedAsOurs,
        Witness::ResolvedAsNotOurs,
        Witness::TokenTainted,
        Witness::OrphanReaped,
        Witness::ReaperEndedFirst,
        Witness::CommandFencedOff,
        Witness::SetRanLate,
        Witness::RenewalRanLate,
        Witness::DeleteRanLate,
        Witness::ConfirmedTooLate,
        Witness::LateConfirmation,
        Witness::OneOfTwoConfirmed,
        Witness::ReleaseInferred,
        Witness::ExpiredUnderLease,
        Witness::HandedOver,
        Witness::HandedOverLate,
        Witness::HeirSettledAsOurs,
        Witness::HeirSettledAsNotOurs,
        Witness::BothTainted,
        Witness::HeirWasGone,
        Witness::DangerBegun,
        Witness::DangerDropped,
        Witness::DangerOver,
        Witness::DangerLengthened,
        Witness::LossAfterDanger,
        Witness::LossAtOnce,
    ];

    /// What can be come across in an exploration of `protocol`.
    pub(super) fn of(protocol: &Protocol) -> impl Iterator<Item = Witness> {
        let [a, b] = protocol.size.rooms;
        let broken = a.broken.max(b.broken);
        let renewals = a.renewals.max(b.renewals);
        let heirs = a.heirs.max(b.heirs);
        let margin = a.margin.max(b.margin);
        let settles_by_delete = protocol.settles_by_delete;
        let counts_reaper = protocol.counts_reaper;
        Witness::ALL
            .into_iter()
            .filter(move |witness| match witness {
                Witness::CommandFencedOff | Witness::SetRanLate | Witness::DeleteRanLate => {
                    broken > 0
                }
                Witness::ReaperEndedFirst => broken > 0 && counts_reaper,
                Witness::RenewalRanLate | Witness::LateConfirmation => renewals > 0,
                Witness::LeaseOfB => b.tokens > 0,
                Witness::HandedOver
                | Witness::HeirSettledAsOurs
                | Witness::BothTainted
                | Witness::HeirWasGone => heirs > 0,
                Witness::HeirSettledAsNotOurs => heirs > 0 && !settles_by_delete,
                Witness::HandedOverLate => heirs > 0 && broken > 0,
                Witness::OneOfTwoConfirmed => renewals > 1,
                Witness::DangerBegun
                | Witness::DangerDropped
                | Witness::LossAfterDanger
                | Witness::LossAtOnce => margin > 0,
                Witness::DangerOver => margin > 0 && renewals > 0,
                Witness::DangerLengthened => margin > 1 && renewals > 0,
                _ => true,
            })
    }
}
