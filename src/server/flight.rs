//! One attempt on its way: what a reply means for it.

use std::sync::{Arc, Weak};

use redis::Value;

use super::call::{Role, owner_of, role_of};
use super::errand::{Errand, Verb};
use super::fault::{Class, Fault};
use super::line::{Line, Stage};
use super::pipeline::{Expected, Part};
use super::target::Owner;
use crate::clock::Time;
use crate::error::Cause;

pub(super) struct Flight {
    pub(super) number: u64,
    /// Weak: whoever waits for a reply must not keep the last lease of a client alive.
    pub(super) errand: Weak<dyn Errand>,
    pub(super) verb: Verb,
    pub(super) sent: Time,
    pub(super) end: Time,
    /// The link it went out on; none before that.
    pub(super) line: Option<u64>,
    pub(super) stage: Stage,
    role: Role,
    /// It has landed as unanswered.
    pub(super) overdue: bool,
}

/// What a reply has come to.
pub(super) enum Heard {
    /// There is more to come.
    More,
    /// It has to be asked once more.
    Again(Stage),
    Landed(Result<Owner, Fault>),
    /// No command of ours is answered like that: the link is no good.
    Garbage,
}

impl Flight {
    pub(super) fn new(number: u64, errand: &Arc<dyn Errand>, sent: Time) -> Self {
        Self {
            number,
            errand: Arc::downgrade(errand),
            verb: errand.verb(),
            sent,
            end: sent.plus(errand.patience()),
            line: None,
            stage: Stage::Digest,
            role: Role::Untold,
            overdue: false,
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.errand
            .upgrade()
            .is_some_and(|errand| errand.is_wanted())
    }

    /// Goes on to ask once more.
    pub(super) fn ask_again(&mut self, stage: Stage) {
        self.stage = stage;
        self.role = Role::Untold;
    }

    /// Takes a reply that came on `line`.
    pub(super) fn hear(
        &mut self,
        line: &mut Line,
        expected: &Expected,
        value: &Value,
        server: &str,
    ) -> Heard {
        if expected.part == Part::Role {
            self.role = role_of(value);
            return Heard::More;
        }
        let owner = match value {
            Value::Int(code @ -1..=2) => owner_of(*code),
            Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                if self.stage == Stage::Text {
                    return Heard::Landed(Err(Fault::of_reply(expected.command, server, error)));
                }
                // Whoever is first brings the text; the others ask again behind it.
                let is_coming = self.stage == Stage::Digest && line.loading == Some(self.verb);
                line.loading = Some(self.verb);
                let stage = if is_coming { Stage::Proof } else { Stage::Text };
                return Heard::Again(stage);
            }
            Value::ServerError(error) => {
                let fault = Fault::of_reply(expected.command, server, error);
                if fault.class != Class::WrongType {
                    // Another link may lead to the primary; and one that answers in words that
                    // nobody knows is not asked again.
                    line.retired |= fault.class == Class::Unknown || fault.is_of_a_replica();
                    return Heard::Landed(Err(fault));
                }
                // A list, say, is not our record.
                Owner::Another
            }
            _ => return Heard::Garbage,
        };
        if owner == Owner::Ours {
            // It has written, which a replica cannot.
            return Heard::Landed(Ok(owner));
        }
        if self.stage == Stage::Digest {
            // A replica says the same without an error: it counts when the role is known.
            return Heard::Again(Stage::Proof);
        }
        let server = server.to_owned();
        let cause = match self.role {
            Role::Primary | Role::Untold => return Heard::Landed(Ok(owner)),
            Role::Replica => {
                line.retired = true;
                Cause::Replica { server }
            }
            Role::NotNow => Cause::RoleNotNow { server },
        };
        Heard::Landed(Err(Fault::new(Class::NotRun, expected.command, cause)))
    }
}
