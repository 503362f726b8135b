//! What an exploration must have come across, or it proves little.

use super::model::Size;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    Woken,
    /// The wake-up had been there before `BLPOP`.
    WokenAhead,
    /// By then somebody else had taken the lock.
    WokenInVain,
    /// The lock was free, and `BLPOP` answered `nil`.
    NotWoken,
    WokenAndDead,
    WakeUpLost,
    /// The wake-up went to a link that nobody reads.
    GhostWoken,
    /// A command that was not waited for any longer took the lock.
    TookLate,
    SettledAsOurs,
    SettledAsNotOurs,
    Tainted,
    Reaped,
}

impl Witness {
    const ALL: [Witness; 12] = [
        Witness::Woken,
        Witness::WokenAhead,
        Witness::WokenInVain,
        Witness::NotWoken,
        Witness::WokenAndDead,
        Witness::WakeUpLost,
        Witness::GhostWoken,
        Witness::TookLate,
        Witness::SettledAsOurs,
        Witness::SettledAsNotOurs,
        Witness::Tainted,
        Witness::Reaped,
    ];

    /// What can be come across in an exploration of that size.
    pub(super) fn of(size: Size) -> impl Iterator<Item = Witness> {
        Witness::ALL
            .into_iter()
            .filter(move |witness| match witness {
                Witness::GhostWoken | Witness::TookLate => size.late > 0,
                Witness::Woken | Witness::WokenAhead | Witness::WokenInVain | Witness::NotWoken => {
                    true
                }
                _ => !size.lossless,
            })
    }
}
