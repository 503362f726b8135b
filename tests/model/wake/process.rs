//! A process's side: what it sends, and what it makes of the answers.

use super::model::{Fault, Waking};
use super::server::BLOCKS;
use super::state::{Breach, Command, Out, Phase, Process, Reply};
use super::witness::Witness;
use crate::token::Token;

/// Ticks after which a process gives the link up on which it waits in `BLPOP`.
pub(super) const PATIENCE: u8 = BLOCKS + 1;

impl Waking {
    pub(super) fn begin(&self, process: &mut Process, phase: Phase, command: Command) {
        process.phase = phase;
        process.out = Out::Sent(command);
    }

    /// `SET NX PX` at first, `wait.lua` after that.
    pub(super) fn take(&self, process: &mut Process, token: Token) -> Option<Breach> {
        let again = process.could_set(token) || process.tainted.contains(token);
        let live = true;
        match process.phase {
            Phase::Outside { .. } => {
                self.begin(process, Phase::Asking { token, live }, Command::Wait(token));
            }
            _ => self.begin(process, Phase::Trying { token, live }, Command::Set(token)),
        }
        again.then_some(Breach::SetTooSoon)
    }

    pub(super) fn pop(&self, process: &mut Process) {
        if let Phase::Announced { token } = process.phase {
            let left = PATIENCE;
            self.begin(process, Phase::Popping { token, left }, Command::Pop);
        }
    }

    pub(super) fn settle(&self, process: &mut Process) {
        if let Phase::Unsettled { token } = process.phase {
            let phase = Phase::Settling { token, live: true };
            self.begin(process, phase, Command::Settle(token));
        }
    }

    pub(super) fn release_lease(&self, process: &mut Process) {
        if let Phase::Held { token } | Phase::Lost { token } = process.phase {
            self.begin(process, Phase::Releasing { token }, Command::Release(token));
        }
    }

    /// The budget is over, while nothing is out. What is unsettled goes to the reaper.
    pub(super) fn give_up(&self, process: &mut Process) {
        if let Phase::Unsettled { token } = process.phase {
            self.taint(process, token);
        }
        process.phase = Phase::Idle { polite: false };
    }

    fn taint(&self, process: &mut Process, token: Token) {
        self.witness(Witness::Tainted);
        process.tainted.insert(token);
        process.phase = Phase::Idle { polite: false };
    }

    /// The link is given up. An attempt to take the lock is unknown then, `wait.lua` like `SET`.
    /// A `BLPOP` is not worth a question: `wait.lua` comes next, as after any answer.
    pub(super) fn break_link(&self, process: &mut Process) {
        if process.out == Out::Answered(Reply::Popped(true)) {
            self.witness(Witness::WakeUpLost);
        }
        process.out = Out::Nothing;
        match process.phase {
            Phase::Asking { token, .. } if self.fault == Some(Fault::UnansweredWaitIsHeld) => {
                process.phase = Phase::Announced { token };
            }
            Phase::Trying { token, .. }
            | Phase::Asking { token, .. }
            | Phase::Settling { token, .. } => process.phase = Phase::Unsettled { token },
            Phase::Announcing { .. } => process.phase = Phase::Idle { polite: true },
            Phase::Popping { token, .. } => process.phase = Phase::Outside { token },
            // That it may be settled as well is in the other model.
            Phase::Releasing { token } => self.taint(process, token),
            _ => {}
        }
    }

    pub(super) fn read(&self, process: &mut Process, reply: Reply) {
        process.out = Out::Nothing;
        match (process.phase, reply) {
            (Phase::Trying { token, live } | Phase::Asking { token, live }, Reply::Taken(true)) => {
                self.take_up(process, token, live)
            }
            (Phase::Trying { token, .. }, Reply::Taken(false)) => {
                process.phase = Phase::Outside { token };
            }
            (Phase::Asking { token, .. } | Phase::Announcing { token }, Reply::Taken(false)) => {
                process.phase = Phase::Announced { token }
            }
            (Phase::Popping { token, .. }, Reply::Popped(element)) => {
                process.phase = if element && self.fault == Some(Fault::WakeUpGrants) {
                    Phase::Held { token }
                } else {
                    Phase::Outside { token }
                };
            }
            (Phase::Settling { token, live }, Reply::Settled { ours: true, .. }) => {
                self.witness(Witness::SettledAsOurs);
                self.take_up(process, token, live);
            }
            (Phase::Settling { token, .. }, Reply::Settled { barrier, .. }) => {
                if barrier {
                    self.witness(Witness::SettledAsNotOurs);
                    process.phase = Phase::Idle { polite: false };
                } else {
                    self.taint(process, token);
                }
            }
            (Phase::Releasing { .. }, Reply::Released { others }) => {
                process.phase = Phase::Idle { polite: others };
            }
            _ => {}
        }
    }

    fn take_up(&self, process: &mut Process, token: Token, live: bool) {
        if live {
            process.phase = Phase::Held { token };
        } else {
            self.begin(process, Phase::Releasing { token }, Command::Release(token));
        }
    }
}

impl Process {
    /// The deadline passes: at any moment, for here are no clocks that could say when.
    pub(super) fn pass_deadline(&mut self) {
        match &mut self.phase {
            Phase::Trying { live, .. }
            | Phase::Asking { live, .. }
            | Phase::Settling { live, .. } => *live = false,
            Phase::Held { token } => self.phase = Phase::Lost { token: *token },
            _ => {}
        }
    }

    pub(super) fn has_deadline(&self) -> bool {
        matches!(
            self.phase,
            Phase::Trying { live: true, .. }
                | Phase::Asking { live: true, .. }
                | Phase::Settling { live: true, .. }
                | Phase::Held { .. }
        )
    }
}
