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
        let key = Arc::clone(self.key());
        let kind = match fault.class {
            Class::NoTurn | Class::NoLink | Class::NotSent | Class::NotRun => Kind::Unavailable {
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

/// A site is a base and a name on it; what the base has is said without naming it.
impl Deref for Site {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}
