//! The steps that are open in a state, and where they lead.

use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Model, Property};

use super::process::PATIENCE;
use super::property;
use super::server::Mood;
use super::state::{Breach, Command, Out, Phase, Reply, State, Who};
use super::witness::Witness;
use crate::explorer::Explored;
use crate::token::Token;

/// The rules, with at most one of them broken.
pub(super) struct Waking {
    pub(super) size: Size,
    pub(super) fault: Option<Fault>,
    witnessed: AtomicU32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) processes: Who,
    /// Tokens of one process that something still mentions.
    pub(super) tokens: Token,
    /// The first so many of them have links that they gave up and that may still carry a command,
    /// or on which the server lets them wait.
    pub(super) late: Who,
    /// Nothing is lost, refused or given up, nothing expires, and nobody dies.
    pub(super) lossless: bool,
}

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Whoever is woken takes itself for the holder.
    WakeUpGrants,
    /// `BLPOP 0`, and the socket's timeout counts from that.
    BlocksForEver,
    /// `BLPOP` has a timeout, and the socket has none.
    WaitsForTheServer,
    /// `release.lua` pushes without a look whether a wake-up is there.
    PushedUnchecked,
    /// `release.lua` pushes only if the last to announce itself was another.
    PushedForOthersAlone,
    /// `release.lua` takes the announcement away with the push.
    AnnouncementCleared,
    /// `wait.lua` takes a free lock in its second mode as well.
    AnnouncementTakes,
    /// A `wait.lua` that was not answered counts as "held by another".
    UnansweredWaitIsHeld,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Tick,
    /// *waiting* expires, or is evicted.
    AnnouncementExpires,
    WakeUpExpires,
    RecordExpires,
    By(Who, Step),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// With `SET` at first, with `wait.lua` after that.
    Take(Token),
    Announce(Token),
    /// A second has passed since the release that told of others.
    BePoliteNoMore,
    Pop,
    Settle,
    Release,
    GiveUp,
    PassDeadline,
    Reap(Token),
    Read,
    /// The link is given up; what is on it may still run, or go on waiting at the server.
    Break,
    /// The link is given up, and the server takes no command from it any more.
    BreakForGood,
    Crash,
    Run(Mood),
    RunLate(Mood),
    /// The server notices that a link is closed on which somebody waited.
    DropGhost,
}

impl Step {
    fn loses(self) -> bool {
        matches!(
            self,
            Step::GiveUp
                | Step::PassDeadline
                | Step::Break
                | Step::BreakForGood
                | Step::Crash
                | Step::Run(Mood::Unwilling)
        )
    }
}

impl Waking {
    pub(super) fn new(size: Size) -> Waking {
        Waking {
            size,
            fault: None,
            witnessed: AtomicU32::new(0),
        }
    }

    pub(super) fn witness(&self, witness: Witness) {
        let bit = 1 << witness as u32;
        if self.witnessed.load(Ordering::Relaxed) & bit == 0 {
            self.witnessed.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn has_witnessed(&self, witness: Witness) -> bool {
        self.witnessed.load(Ordering::Relaxed) & (1 << witness as u32) != 0
    }

    /// Whoever has waited as long as it will has to act before time goes on.
    fn may_tick(&self, state: &State) -> bool {
        let overdue = |phase| matches!(phase, Phase::Popping { left: 0, .. });
        !state.processes.iter().any(|process| overdue(process.phase))
    }

    fn open_steps(&self, state: &State, who: Who, steps: &mut Vec<Step>) {
        let process = state.process(who);
        let room = who < self.size.late && !state.has_late(who);
        match process.out {
            Out::Nothing => self.open_calls(state, who, steps),
            Out::Sent(command) => {
                open_run(command, Step::Run, steps);
                steps.push(Step::BreakForGood);
                if room && !matches!(command, Command::Settle(_)) {
                    steps.push(Step::Break);
                }
            }
            Out::Blocked => {
                steps.push(Step::BreakForGood);
                if room {
                    steps.push(Step::Break);
                }
            }
            Out::Answered(_) => steps.extend([Step::Read, Step::BreakForGood]),
        }
        if process.has_deadline() {
            steps.push(Step::PassDeadline);
        }
        if let Some(command) = process.late {
            open_run(command, Step::RunLate, steps);
        }
        if state.has_ghost(who) {
            steps.push(Step::DropGhost);
        }
        steps.extend(process.tainted().map(Step::Reap));
        if self.size.lossless {
            steps.retain(|step| !step.loses());
        }
    }

    /// What a process may begin while nothing of its own is out.
    fn open_calls(&self, state: &State, who: Who, steps: &mut Vec<Step>) {
        let process = state.process(who);
        if process.phase != (Phase::Idle { polite: false }) {
            steps.push(Step::Crash);
        }
        match process.phase {
            Phase::Idle { polite } => {
                let fresh = state.fresh_token(who, self.size.tokens);
                if polite {
                    steps.extend(fresh.map(Step::Announce));
                    steps.push(Step::BePoliteNoMore);
                } else {
                    steps.extend(fresh.map(Step::Take));
                }
            }
            Phase::Outside { token } => steps.extend([Step::Take(token), Step::GiveUp]),
            Phase::Announced { .. } => steps.extend([Step::Pop, Step::GiveUp]),
            Phase::Unsettled { .. } => steps.extend([Step::Settle, Step::GiveUp]),
            Phase::Held { .. } | Phase::Lost { .. } => steps.push(Step::Release),
            _ => {}
        }
    }

    fn apply(&self, state: &mut State, who: Who, step: Step) {
        let record = state.record;
        let process = state.process_mut(who);
        match step {
            Step::Take(token) => {
                let breach = self.take(process, token);
                state.breach = state.breach.or(breach);
            }
            Step::Announce(token) => {
                self.begin(
                    process,
                    Phase::Announcing { token },
                    Command::Announce(token),
                );
            }
            Step::BePoliteNoMore => process.phase = Phase::Idle { polite: false },
            Step::Pop => self.pop(process),
            Step::Settle => self.settle(process),
            Step::Release => self.release_lease(process),
            Step::GiveUp => self.give_up(process),
            Step::PassDeadline => process.pass_deadline(),
            Step::Reap(token) => {
                if self.release(state, who, token, true) {
                    self.witness(Witness::Reaped);
                }
            }
            Step::Read => {
                if let Out::Answered(reply) = process.out {
                    match reply {
                        Reply::Popped(true) if record.is_some() => {
                            self.witness(Witness::WokenInVain);
                        }
                        Reply::Popped(true) => self.witness(Witness::Woken),
                        Reply::Popped(false) if record.is_none() => {
                            self.witness(Witness::NotWoken);
                        }
                        _ => {}
                    }
                    self.read(process, reply);
                }
            }
            Step::Break => self.leave_link(state, who),
            Step::BreakForGood => {
                state
                    .blocked
                    .retain(|blocked| blocked.who != who || blocked.ghost);
                self.break_link(state.process_mut(who));
            }
            Step::Crash => self.crash(state, who),
            Step::Run(mood) => {
                if let Out::Sent(command) = process.out {
                    match self.run(state, who, command, mood) {
                        Some(reply) => state.process_mut(who).out = Out::Answered(reply),
                        None => self.block(state, who, false),
                    }
                }
            }
            Step::RunLate(mood) => self.run_late(state, who, mood),
            Step::DropGhost => state
                .blocked
                .retain(|blocked| blocked.who != who || !blocked.ghost),
        }
    }

    fn leave_link(&self, state: &mut State, who: Who) {
        let process = state.process_mut(who);
        if let Out::Sent(command) = process.out {
            process.late = Some(command);
        }
        self.break_link(process);
        for blocked in &mut state.blocked {
            blocked.ghost |= blocked.who == who;
        }
    }

    fn run_late(&self, state: &mut State, who: Who, mood: Mood) {
        let Some(command) = state.process_mut(who).late.take() else {
            return;
        };
        match self.run(state, who, command, mood) {
            Some(Reply::Taken(true)) => self.witness(Witness::TookLate),
            Some(Reply::Popped(true)) => self.witness(Witness::WakeUpLost),
            Some(_) => {}
            None => self.block(state, who, true),
        }
    }

    /// The process dies, and another takes its place that knows nothing.
    fn crash(&self, state: &mut State, who: Who) {
        let process = state.process_mut(who);
        let phase = process.phase;
        for token in process.tainted().chain(phase.token()) {
            process.orphaned.insert(token);
        }
        process.tainted = Default::default();
        process.phase = Phase::Idle { polite: false };
        if matches!(phase, Phase::Outside { .. }) && state.record.is_none() {
            self.witness(Witness::WokenAndDead);
        }
    }

    fn tick(&self, state: &mut State) {
        self.server_tick(state);
        let free = state.record.is_none();
        for process in &mut state.processes {
            let Phase::Popping { left, .. } = &mut process.phase else {
                continue;
            };
            if !matches!(
                self.fault,
                Some(Fault::BlocksForEver | Fault::WaitsForTheServer)
            ) {
                *left -= 1;
            }
            process.missed = if free {
                (process.missed + 1).min(PATIENCE + 1)
            } else {
                0
            };
        }
    }
}

/// The choices that the server has with this command.
fn open_run(command: Command, step: fn(Mood) -> Step, steps: &mut Vec<Step>) {
    steps.push(step(Mood::Willing));
    if matches!(command, Command::Settle(_) | Command::Release(_)) {
        steps.push(step(Mood::Unwilling));
    }
}

impl Model for Waking {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.breach.is_some_and(Breach::ends_run) {
            return;
        }
        if self.may_tick(state) {
            actions.push(Action::Tick);
        }
        let expires = !self.size.lossless;
        if state.announced.is_some() && expires {
            actions.push(Action::AnnouncementExpires);
        }
        if state.wake > 0 && expires {
            actions.push(Action::WakeUpExpires);
        }
        if let Some(record) = state.record
            && expires
            && state.process(record.owner).counts_on() != Some(record.token)
        {
            actions.push(Action::RecordExpires);
        }
        let mut steps = Vec::new();
        for who in 0..self.size.processes {
            self.open_steps(state, who, &mut steps);
            actions.extend(steps.drain(..).map(|step| Action::By(who, step)));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => self.tick(&mut state),
            Action::AnnouncementExpires => state.announced = None,
            Action::WakeUpExpires => state.wake = 0,
            Action::RecordExpires => state.record = None,
            Action::By(who, step) => self.apply(&mut state, who, step),
        }
        state.settle();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Waking>> {
        property::all()
    }
}

impl Explored for Waking {}
