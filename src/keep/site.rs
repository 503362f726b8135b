//! What all leases of one lock have in common.

use std::sync::Arc;
use std::time::Duration;

use super::terms::Terms;
use crate::clock::Clock;
use crate::error::{Action, Cause, Error, Kind};
use crate::fork::Origin;
use crate::server::{Class, Fault, Keys, Target, Verbs};
use crate::stats::Counters;
use crate::token::Token;

/// A lock's place on a server: where, under which key, on which terms.
pub(crate) struct Site {
    pub(crate) server: Arc<dyn Verbs>,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) origin: Origin,
    pub(crate) timeouts: Timeouts,
    pub(crate) keys: Keys,
    pub(crate) terms: Terms,
    pub(crate) label: Option<Box<str>>,
    pub(crate) fenced: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) command: Duration,
}

impl Timeouts {
    /// The longest that one attempt and the settling of its unknown may begin things for:
    /// connect, send, connect again, settle.
    pub(crate) fn attempt(self) -> Duration {
        self.connect.saturating_mul(2).saturating_add(self.command)
    }
}

impl Site {
    pub(crate) fn key(&self) -> &Arc<str> {
        self.keys.record()
    }

    pub(crate) fn target<'a>(&'a self, token: &'a Token) -> Target<'a> {
        Target {
            keys: &self.keys,
            token,
            ttl: self.terms.ttl_millis(),
            fenced: self.fenced,
        }
    }

    pub(crate) fn unavailable(&self, action: Action, cause: Cause) -> Error {
        let key = Some(Arc::clone(self.key()));
        Error::new(Kind::Unavailable { action, key }, Some(cause))
    }

    /// The error for a fault that nothing more is done about.
    pub(crate) fn error(&self, action: Action, fault: Fault) -> Error {
        let key = Arc::clone(self.key());
        let kind = match fault.class {
            Class::NotSent | Class::NotRun => Kind::Unavailable {
                action,
                key: Some(key),
            },
            Class::Refused => Kind::Refused {
                command: fault.command,
                key: Some(key),
            },
            Class::WrongType => return Error::new(Kind::WrongType { key }, None),
            Class::Unknown => Kind::Unknown {
                action,
                key,
                until: None,
            },
        };
        Error::new(kind, Some(fault.cause))
    }
}
