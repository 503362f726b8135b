//! The options that cannot be used, each with the values that disagree.

use std::fmt;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Config {
    EmptyKey,
    SiblingKey {
        key: String,
    },
    EmptyLabel,
    LabelTooLong {
        length: usize,
        most: usize,
    },
    ControlInLabel {
        position: usize,
    },
    MalformedToken {
        length: usize,
    },
    Url {
        why: String,
    },
    Scheme {
        scheme: String,
    },
    TimeoutTooShort {
        option: &'static str,
        given: Duration,
        least: Duration,
    },
    NoLinks,
    TtlTooShort {
        ttl: Duration,
        least: Duration,
        renewed: bool,
    },
    TtlTooLong {
        ttl: Duration,
        most: Duration,
    },
    DangerTooLong {
        danger: Duration,
        validity: Duration,
        ttl: Duration,
    },
    RenewTooOften {
        renew_every: Duration,
        least: Duration,
    },
    RenewTooSeldom {
        renew_every: Duration,
        most: Duration,
        danger: Duration,
        ttl: Duration,
    },
    NoRoomForRenewal {
        danger: Duration,
        ttl: Duration,
    },
    MaxHoldTooShort {
        max_hold: Duration,
        danger: Duration,
    },
    EnsureTooLong {
        span: Duration,
        validity: Duration,
        ttl: Duration,
    },
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyKey => f.write_str("the key is empty"),
            Self::SiblingKey { key } => write!(
                f,
                "`{}` is a key that the locks of another name keep their own things in",
                key.escape_debug()
            ),
            Self::EmptyLabel => f.write_str("the label is empty"),
            Self::LabelTooLong { length, most } => {
                write!(f, "the label of {length} bytes is longer than {most}")
            }
            Self::ControlInLabel { position } => write!(
                f,
                "the label has a line break or another control character at position {position}"
            ),
            Self::MalformedToken { length } => write!(
                f,
                "a text of {length} bytes is not a token: 40 lower-case hexadecimal digits \
                 and, after a space, a label"
            ),
            Self::Url { why } => write!(f, "the server's URL cannot be used: {why}"),
            Self::Scheme { scheme } if scheme == "rediss" || scheme == "valkeys" => write!(
                f,
                "the URL scheme `{scheme}` asks for TLS, which this version does not speak"
            ),
            Self::Scheme { scheme } => write!(
                f,
                "the URL scheme `{scheme}` is not spoken here; use redis://, redis+unix:// \
                 or unix://"
            ),
            Self::TimeoutTooShort {
                option,
                given,
                least,
            } => write!(f, "`{option}` of {given:?} is below {least:?}"),
            Self::NoLinks => f.write_str("`max_links` of 0 leaves no way to the server"),
            Self::TtlTooShort {
                ttl,
                least,
                renewed,
            } => {
                let with = if *renewed { "with" } else { "without" };
                write!(
                    f,
                    "ttl {ttl:?} is below {least:?}, the least {with} renewal"
                )
            }
            Self::TtlTooLong { ttl, most } => {
                write!(f, "ttl {ttl:?} is above {most:?}, the most that is counted")
            }
            Self::DangerTooLong {
                danger,
                validity,
                ttl,
            } => write!(
                f,
                "danger {danger:?} is not below {validity:?}, the validity of a lease with \
                 ttl {ttl:?}"
            ),
            Self::RenewTooOften { renew_every, least } => write!(
                f,
                "renew_every {renew_every:?} is below {least:?}, the time one attempt may take"
            ),
            Self::RenewTooSeldom {
                renew_every,
                most,
                danger,
                ttl,
            } => write!(
                f,
                "renew_every {renew_every:?} is above {most:?}: with ttl {ttl:?} and danger \
                 {danger:?} two attempts would not fit before the danger zone"
            ),
            Self::NoRoomForRenewal { danger, ttl } => write!(
                f,
                "danger {danger:?} leaves no room for renewal with ttl {ttl:?}: make it shorter, \
                 or say `without_renewal`"
            ),
            Self::MaxHoldTooShort { max_hold, danger } => write!(
                f,
                "max_hold {max_hold:?} is not above danger {danger:?}: the lease would start in \
                 its danger zone"
            ),
            Self::EnsureTooLong {
                span,
                validity,
                ttl,
            } => write!(
                f,
                "{span:?} cannot be ensured: a lease with ttl {ttl:?} is valid for {validity:?} \
                 at most"
            ),
        }
    }
}
