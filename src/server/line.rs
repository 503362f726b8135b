//! A pipelined link as a courier uses it: what goes out on it for one attempt, and whether it
//! takes more.

use std::io;
use std::sync::Arc;

use super::call::Call;
use super::command::Decimal;
use super::errand::Verb;
use super::link::Link;
use super::pipeline::{Part, Pipeline};
use super::scripts;
use super::siblings::{Siblings, WAKE_TTL};
use super::target::Target;
use crate::clock::Time;

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The script, by its digest.
    Digest,
    /// The role of the server, and the script once more.
    Proof,
    /// The role, and the script by its text, which is then to be kept.
    Text,
}

pub(super) struct Line {
    pub(super) id: u64,
    pub(super) pipe: Pipeline,
    /// An answer is overdue on it.
    pub(super) stalled: bool,
    /// It takes nothing new any more.
    pub(super) retired: bool,
    /// A script whose text is on its way on it.
    pub(super) loading: Option<Verb>,
    siblings: Arc<Siblings>,
}

impl Line {
    pub(super) fn new(
        id: u64,
        link: Link,
        siblings: &Arc<Siblings>,
        now: Time,
    ) -> io::Result<Self> {
        Ok(Self {
            id,
            pipe: Pipeline::new(link, now)?,
            stalled: false,
            retired: false,
            loading: None,
            siblings: Arc::clone(siblings),
        })
    }

    pub(super) const fn is_usable(&self) -> bool {
        !self.stalled && !self.retired
    }

    /// When the command was sent that has waited longest, or the last use.
    pub(super) fn oldest(&self) -> Time {
        self.pipe
            .expected
            .front()
            .map_or(self.pipe.last_used, |first| first.sent)
    }

    /// Packs what an attempt sends next; `times` are now, and when each
    /// reply has to be there.
    pub(super) fn pack(
        &mut self,
        flight: u64,
        verb: Verb,
        stage: Stage,
        target: Target<'_>,
        times: (Time, Time),
    ) {
        let keys = target.keys.of_release();
        let token = target.token.expose().as_bytes();
        let number = Decimal::of(match verb {
            Verb::Renew => target.ttl,
            Verb::Release => WAKE_TTL,
        });
        let arguments = [token, number.as_bytes(), self.siblings.name()];
        // A refusal would end the attempt: what is not known to be granted is left out.
        let wakes = verb == Verb::Release && self.siblings.are_granted();
        let (script, arguments) = match verb {
            Verb::Renew => (&scripts::RENEW, &arguments[..2]),
            Verb::Release if wakes => (&scripts::RELEASE, &arguments[..]),
            Verb::Release => (&scripts::RELEASE, &arguments[..1]),
        };
        let call = Call {
            script,
            keys: if wakes { &keys } else { &keys[..1] },
            arguments,
            compares: true,
            draws_fence: false,
        };
        if stage != Stage::Digest {
            self.pipe.batch.push(&[b"ROLE"]);
            self.pipe.expect(flight, Part::Role, "ROLE", times);
        }
        if stage == Stage::Text {
            call.pack(&mut self.pipe.batch, b"EVAL", script.code().as_bytes());
            self.pipe.expect(flight, Part::Script, "EVAL", times);
            let load: [&[u8]; 3] = [b"SCRIPT", b"LOAD", script.code().as_bytes()];
            self.pipe.batch.push(&load);
            self.pipe.expect(flight, Part::Load, "SCRIPT LOAD", times);
        } else {
            call.pack(&mut self.pipe.batch, b"EVALSHA", script.digest().as_bytes());
            self.pipe.expect(flight, Part::Script, "EVALSHA", times);
        }
    }
}
