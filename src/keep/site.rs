//! What all leases of one lock have in common.

use std::ops::Deref;
use std::sync::Arc;

use super::base::Base;
use super::terms::Terms;
use crate::error::{Action, Cause, Error, Kind};
use crate::server::{Class, Fault, Keys, Target};
use crate::token::Token;

/// A lock's place on a server: under which key, on which terms.
pub(crate) struct Site {
    pub(crate) base: Arc<Base>,
    pub(crate) keys: Keys,
    pub(crate) terms: Terms,
    pub(crate) label: Option<Box<str>>,
    pub(crate) fenced: bool,
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
        error_of(action, Some(self.key()), fault)
    }
}

/// The error for a fault that nothing more is done about, of a command on `key` if it was on one.
pub(crate) fn error_of(action: Action, key: Option<&Arc<str>>, fault: Fault) -> Error {
    // A question that went unanswered has changed nothing: there is nothing to settle.
    let asks = matches!(action, Action::Read | Action::Ping);
    let kind = match (fault.class, key.cloned()) {
        (Class::WrongType, Some(key)) => return Error::new(Kind::WrongType { key }, None),
        (Class::Unknown, Some(key)) if !asks => Kind::Unknown {
            action,
            key,
            until: None,
        },
        (Class::Refused, key) => Kind::Refused {
            command: fault.command,
            key,
        },
        (_, key) => Kind::Unavailable { action, key },
    };
    Error::new(kind, Some(fault.cause))
}

/// A site is a base and a name on it; what the base has is said without naming it.
impl Deref for Site {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}
