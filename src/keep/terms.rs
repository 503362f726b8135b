//! The terms of a lease: how long it is valid, where its danger zone starts, and which
//! options go together.

use std::time::Duration;

use crate::error::Config;

/// What a rounding of the two clocks may add to their difference in rate.
const ROUNDING: Duration = Duration::from_millis(2);
/// A tick or two of a socket timeout: what a wait of τ may take longer than τ.
const TICK: Duration = Duration::from_millis(8);
const LEAST_TTL: Duration = Duration::from_millis(10);
const LEAST_RENEWED_TTL: Duration = Duration::from_millis(150);
const LEAST_RENEWAL: Duration = Duration::from_millis(10);
/// Half of what the clock can count in nanoseconds: 292 years. A server takes more, but a
/// deadline beyond the end of the clock would be cut down into its own danger zone.
const LONGEST_TTL: Duration = Duration::from_millis(i64::MAX as u64 / 1_000_000);

pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The options of a lock as they were given.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) danger: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            renewal: Renewal::Automatic,
            danger: None,
            max_hold: None,
        }
    }
}

/// Whether and how often a lease is to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// As often as the other options ask for.
    Automatic,
    Every(Duration),
    Off,
}

/// Options that go together, with what follows from them.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    ttl: Duration,
    danger: Duration,
    renew_every: Option<Duration>,
    max_hold: Option<Duration>,
    attempt: Duration,
}

impl Terms {
    /// Checks the rules one by one. An error names the values that disagree.
    pub(crate) fn new(options: &Options, command_timeout: Duration) -> Result<Self, Config> {
        // The server counts in milliseconds; what lies below is not part of the lease.
        let ttl = whole_millis(options.ttl);
        let renewed = options.renewal != Renewal::Off;
        let least = if renewed {
            LEAST_RENEWED_TTL
        } else {
            LEAST_TTL
        };
        if ttl < least {
            return Err(Config::TtlTooShort {
                ttl: options.ttl,
                least,
                renewed,
            });
        }
        if LONGEST_TTL < ttl {
            return Err(Config::TtlTooLong {
                ttl,
                most: LONGEST_TTL,
            });
        }
        let danger = options.danger.unwrap_or(ttl / 3);
        let validity = validity(ttl);
        if validity <= danger {
            return Err(Config::DangerTooLong {
                danger,
                validity,
                ttl,
            });
        }
        let attempt = command_timeout.min(ttl / 10);
        let renew_every = renew_every(options.renewal, ttl, danger, attempt)?;
        if let Some(max_hold) = options.max_hold
            && max_hold <= danger
        {
            return Err(Config::MaxHoldTooShort { max_hold, danger });
        }
        Ok(Self {
            ttl,
            danger,
            renew_every,
            max_hold: options.max_hold,
            attempt,
        })
    }

    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The time to live as commands carry it.
    pub(crate) fn ttl_millis(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// V(T), see [`validity`].
    pub(crate) fn validity(&self) -> Duration {
        validity(self.ttl)
    }

    pub(crate) const fn danger(&self) -> Duration {
        self.danger
    }

    /// How often it is renewed in the background; `None` if it is not.
    pub(crate) const fn renew_every(&self) -> Option<Duration> {
        self.renew_every
    }

    pub(crate) const fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// τ: the longest that one attempt to renew may take, reconnecting included.
    pub(crate) const fn attempt(&self) -> Duration {
        self.attempt
    }

    /// The longest that a record of this ttl can stand, by our own clock, after the server
    /// has set it: the allowance of [`validity`] in the other direction.
    pub(crate) fn longest_standing(&self) -> Duration {
        self.ttl
            .saturating_add(self.ttl / 100)
            .saturating_add(ROUNDING)
    }
}

/// V(T) = T − T/100 − 2 ms: how long the holder relies on a lease of `ttl`, counted from
/// before the command was sent.
///
/// One per cent is the allowance for clocks that run at different rates, the holder's and
/// the server's; quartz is off by less than a hundredth of that, but a clock that is being
/// slewed is not.
pub(crate) fn validity(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100).saturating_sub(ROUNDING)
}

/// Two attempts, each of τ and a tick, have to fit between a renewal that falls due and the
/// danger zone.
fn renew_every(
    renewal: Renewal,
    ttl: Duration,
    danger: Duration,
    attempt: Duration,
) -> Result<Option<Duration>, Config> {
    let least = attempt.max(LEAST_RENEWAL);
    let most = validity(ttl)
        .saturating_sub(danger)
        .saturating_sub((attempt + TICK) * 2);
    let renew_every = match renewal {
        Renewal::Off => return Ok(None),
        Renewal::Every(renew_every) => renew_every,
        Renewal::Automatic if most < least => {
            return Err(Config::NoRoomForRenewal { danger, ttl });
        }
        Renewal::Automatic => (ttl / 3).min(most).max(least),
    };
    if renew_every < least {
        return Err(Config::RenewTooOften { renew_every, least });
    }
    if most < renew_every {
        return Err(Config::RenewTooSeldom {
            renew_every,
            most,
            danger,
            ttl,
        });
    }
    Ok(Some(renew_every))
}

fn whole_millis(span: Duration) -> Duration {
    let below = Duration::from_nanos(u64::from(span.subsec_nanos() % 1_000_000));
    span.saturating_sub(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn options(ttl: Duration) -> Options {
        Options {
            ttl,
            ..Options::default()
        }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_defaults_are_those_that_the_docs_state() {
        let terms = Terms::new(&Options::default(), SECOND).unwrap();
        assert_eq!(terms.ttl(), ms(30_000));
        assert_eq!(terms.danger(), ms(10_000));
        assert_eq!(terms.validity(), ms(29_698));
        assert_eq!(terms.attempt(), ms(1_000));
        assert_eq!(terms.max_hold(), None);
    }

    #[test]
    fn a_renewal_falls_due_after_a_third_of_the_ttl_or_as_early_as_it_must() {
        let automatic =
            |ttl, danger| renew_every(Renewal::Automatic, ttl, danger, SECOND.min(ttl / 10));
        assert_eq!(automatic(ms(30_000), ms(10_000)).unwrap(), Some(ms(10_000)));
        // 29698 − 20000 − 2 × (1000 + 8) = 7682
        assert_eq!(automatic(ms(30_000), ms(20_000)).unwrap(), Some(ms(7_682)));
        assert!(automatic(ms(30_000), ms(28_000)).is_err());
        assert_eq!(
            renew_every(Renewal::Off, SECOND, SECOND, SECOND).unwrap(),
            None
        );
    }

    #[test]
    fn the_least_ttl_depends_on_renewal() {
        let renewed = |ttl| Terms::new(&options(ttl), SECOND);
        assert!(renewed(ms(150)).is_ok());
        assert!(matches!(
            renewed(ms(149)),
            Err(Config::TtlTooShort { renewed: true, .. })
        ));
        let alone = |ttl| {
            let options = Options {
                renewal: Renewal::Off,
                ..options(ttl)
            };
            Terms::new(&options, SECOND)
        };
        assert!(alone(ms(10)).is_ok());
        assert!(alone(Duration::from_micros(9_999)).is_err());
        assert!(alone(LONGEST_TTL).is_ok());
        assert!(matches!(
            alone(LONGEST_TTL + ms(1)),
            Err(Config::TtlTooLong { .. })
        ));
        assert!(alone(Duration::MAX).is_err());
        assert!(alone(Duration::ZERO).is_err());
    }

    #[test]
    fn danger_has_to_start_after_the_lease() {
        let danger = |danger| {
            let options = Options {
                danger: Some(danger),
                renewal: Renewal::Off,
                ..options(SECOND)
            };
            Terms::new(&options, SECOND)
        };
        assert!(danger(ms(987)).is_ok());
        assert!(matches!(danger(ms(988)), Err(Config::DangerTooLong { .. })));
        assert!(danger(Duration::ZERO).is_ok());
    }

    #[test]
    fn a_renewal_leaves_room_for_two_attempts() {
        let every = |renew_every| {
            let options = Options {
                renewal: Renewal::Every(renew_every),
                ..options(ms(3_000))
            };
            Terms::new(&options, SECOND)
        };
        // 2968 − 1000 − 2 × (300 + 8) = 1352
        assert!(every(ms(1_352)).is_ok());
        assert!(matches!(
            every(ms(1_353)),
            Err(Config::RenewTooSeldom { .. })
        ));
        assert!(every(ms(300)).is_ok());
        assert!(matches!(every(ms(299)), Err(Config::RenewTooOften { .. })));
    }

    #[test]
    fn max_hold_has_to_be_longer_than_the_danger_zone() {
        let hold = |max_hold| {
            let options = Options {
                max_hold: Some(max_hold),
                ..options(ms(3_000))
            };
            Terms::new(&options, SECOND)
        };
        assert!(hold(ms(1_001)).is_ok());
        assert!(matches!(
            hold(ms(1_000)),
            Err(Config::MaxHoldTooShort { .. })
        ));
    }

    fn any_span() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0_u64..2_000).prop_map(Duration::from_millis),
            any::<u64>().prop_map(Duration::from_nanos),
            any::<u64>().prop_map(Duration::from_millis),
            Just(Duration::ZERO),
            Just(Duration::MAX),
        ]
    }

    proptest! {
        #[test]
        fn options_that_are_accepted_obey_every_rule(
            ttl in any_span(),
            danger in prop::option::of(any_span()),
            max_hold in prop::option::of(any_span()),
            every in prop::option::of(any_span()),
            off in any::<bool>(),
            command_timeout in any_span(),
        ) {
            let renewal = match every {
                _ if off => Renewal::Off,
                Some(every) => Renewal::Every(every),
                None => Renewal::Automatic,
            };
            let options = Options { ttl, renewal, danger, max_hold };
            let Ok(terms) = Terms::new(&options, command_timeout) else {
                return Ok(());
            };
            prop_assert!(terms.ttl() <= ttl && ttl - terms.ttl() < ms(1));
            prop_assert!(terms.danger() < terms.validity());
            prop_assert!(terms.validity() + ms(2) <= terms.ttl());
            prop_assert!(terms.ttl() < terms.longest_standing());
            prop_assert!(1 <= terms.ttl_millis() && terms.ttl_millis() < 1 << 53);
            let every = renew_every(renewal, terms.ttl(), terms.danger(), terms.attempt());
            if let Some(every) = every.unwrap() {
                prop_assert!(terms.attempt() <= every);
                prop_assert!(
                    every + (terms.attempt() + TICK) * 2 + terms.danger() <= terms.validity()
                );
            }
            if let Some(max_hold) = terms.max_hold() {
                prop_assert!(terms.danger() < max_hold);
            }
        }
    }
}
