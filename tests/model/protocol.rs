//! The protocol as a transition system: which steps are open in a state, and where they lead.

use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Model, Property};

use super::fault::Fault;
use super::property;
use super::state::{Command, Phase, Slot, State, Token, Who};

/// Ticks that validity is shorter than the ttl, and that the server's clock may gain on the
/// clients' within one validity.
const ALLOWANCE: u8 = 1;

/// The rules, with at most one of them broken.
pub(super) struct Protocol {
    pub(super) size: Size,
    pub(super) fault: Option<Fault>,
    /// Whether to look at the bound that an unknown release names: it costs one more timer.
    pub(super) tracks_bound: bool,
    witnessed: AtomicU32,
}

/// How much is explored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Ticks of the server's clock for which a record stands.
    pub(super) ttl: u8,
    pub(super) rooms: [Room; 2],
}

/// What a client may have on its hands at the same time. Over time there is no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Tokens that the record, a command or the client itself still mentions.
    pub(super) tokens: Token,
    /// Broken connections with commands that may still run.
    pub(super) broken: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// All clocks go on.
    Tick,
    /// The server's clock gains one tick on the clients'.
    ServerGains,
    By(Who, Step),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Acquire(Token),
    Resolve,
    Renew,
    Release,
    ReleaseAgain,
    GiveUp,
    /// The reaper sends its compare-and-delete, on a link of its own. Its answer only tells it when
    /// to stop, and a reaper that stops is one that never sends again: every run with it is here.
    Reap(Token),
    /// The client reads a reply.
    Read,
    /// The link breaks on the client's side; what has not run yet stays on its way, in this slot.
    Break(Option<Slot>),
    /// The process dies, and its link with it.
    Crash(Option<Slot>),
    /// The server runs the link's next command.
    Run,
    /// The link's next command is a `CLIENT KILL`, and it is answered 0.
    RefuseKill,
    /// The server runs the next command of a broken connection.
    RunLate(Slot),
    RefuseKillLate(Slot),
    /// The server runs the reaper's command.
    RunReaper,
}

/// A situation that an exploration must have come across, or it proves little. Noted in the model
/// and not in the state, where each of them would double the number of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    LeaseOfA,
    LeaseOfB,
    ResolvedAsOurs,
    ResolvedAsNotOurs,
    TokenTainted,
    OrphanReaped,
    CommandFencedOff,
    SetRanLate,
    RenewalRanLate,
    DeleteRanLate,
    ConfirmedTooLate,
    LateConfirmation,
    ReleaseInferred,
    ExpiredUnderLease,
}

impl Witness {
    pub(super) const ALL: [Witness; 14] = [
        Witness::LeaseOfA,
        Witness::LeaseOfB,
        Witness::ResolvedAsOurs,
        Witness::ResolvedAsNotOurs,
        Witness::TokenTainted,
        Witness::OrphanReaped,
        Witness::CommandFencedOff,
        Witness::SetRanLate,
        Witness::RenewalRanLate,
        Witness::DeleteRanLate,
        Witness::ConfirmedTooLate,
        Witness::LateConfirmation,
        Witness::ReleaseInferred,
        Witness::ExpiredUnderLease,
    ];
}

impl Protocol {
    pub(super) fn new(size: Size) -> Protocol {
        Protocol {
            size,
            fault: None,
            tracks_bound: false,
            witnessed: AtomicU32::new(0),
        }
    }

    pub(super) fn validity(&self) -> u8 {
        match self.fault {
            Some(Fault::NoDriftAllowance) => self.size.ttl,
            _ => self.size.ttl - ALLOWANCE,
        }
    }

    pub(super) fn witness(&self, witness: Witness) {
        let bit = 1 << witness as u32;
        // The load first: a cache line that both threads keep writing to costs more than the step.
        if self.witnessed.load(Ordering::Relaxed) & bit == 0 {
            self.witnessed.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn has_witnessed(&self, witness: Witness) -> bool {
        self.witnessed.load(Ordering::Relaxed) & (1 << witness as u32) != 0
    }

    fn open_steps(&self, state: &State, who: Who, steps: &mut Vec<Step>) {
        let client = state.client(who);
        let room = self.size.rooms[who as usize];
        for slot in 0..room.broken {
            match client.broken[usize::from(slot)].first() {
                Some(Command::Kill(_)) => {
                    steps.extend([Step::RunLate(slot), Step::RefuseKillLate(slot)]);
                }
                Some(_) => steps.push(Step::RunLate(slot)),
                None => {}
            }
        }
        match client.reaping {
            Some(_) => steps.push(Step::RunReaper),
            None => steps.extend(client.tainted.iter().map(Step::Reap)),
        }
        match client.link.requests.first() {
            Some(Command::Kill(_)) => steps.extend([Step::Run, Step::RefuseKill]),
            Some(_) => steps.push(Step::Run),
            None => {}
        }
        let unread = !client.link.replies.is_empty();
        if unread {
            steps.push(Step::Read);
        }
        if client.link.requests.is_empty() {
            steps.push(Step::Crash(None));
            if unread {
                steps.push(Step::Break(None));
            } else {
                self.open_calls(state, who, steps);
            }
        } else {
            let free = (0..room.broken).find(|&slot| client.broken[usize::from(slot)].is_empty());
            if free.is_some() {
                steps.extend([Step::Break(free), Step::Crash(free)]);
            }
        }
    }

    /// What the client may begin while nothing of its own is out.
    fn open_calls(&self, state: &State, who: Who, steps: &mut Vec<Step>) {
        let client = state.client(who);
        match client.phase {
            Phase::Idle => {
                let fresh = state.fresh_token(who, self.size.rooms[who as usize].tokens);
                steps.extend(fresh.map(Step::Acquire));
                if self.fault == Some(Fault::TokenReusedAfterDelete) {
                    steps.extend(client.reaping.map(Step::Acquire));
                }
            }
            Phase::Unsettled { .. } => steps.extend([Step::Resolve, Step::GiveUp]),
            Phase::Held { .. } => steps.extend([Step::Renew, Step::Release]),
            Phase::Lost { .. } => steps.push(Step::Release),
            Phase::ReleaseUnsettled { .. } => steps.extend([Step::ReleaseAgain, Step::GiveUp]),
            Phase::Acquiring { .. } | Phase::Resolving { .. } | Phase::Releasing { .. } => {}
        }
    }

    fn apply(&self, state: &mut State, who: Who, step: Step) {
        let client = state.client_mut(who);
        match step {
            Step::Acquire(token) => self.acquire(client, token),
            Step::Resolve => self.resolve(client),
            Step::Renew => self.renew_lease(client),
            Step::Release => self.release_lease(client),
            Step::ReleaseAgain => self.release_again(client),
            Step::GiveUp => self.give_up(client),
            Step::Reap(token) => client.reaping = Some(token),
            Step::Read => self.read_next(state, who),
            Step::Break(slot) => self.break_link(client, slot),
            Step::Crash(slot) => self.crash(client, slot),
            Step::Run => self.run_next(state, who, true),
            Step::RefuseKill => self.run_next(state, who, false),
            Step::RunLate(slot) => self.run_late(state, who, slot, true),
            Step::RefuseKillLate(slot) => self.run_late(state, who, slot, false),
            Step::RunReaper => self.run_reaper(state, who),
        }
    }

    fn read_next(&self, state: &mut State, who: Who) {
        let client = state.client_mut(who);
        let Some(reply) = client.link.replies.pop() else {
            return;
        };
        let breach = self.read(client, reply);
        if matches!(client.phase, Phase::Held { .. }) {
            self.witness(match who {
                Who::A => Witness::LeaseOfA,
                Who::B => Witness::LeaseOfB,
            });
        }
        state.breach = breach;
    }

    fn run_next(&self, state: &mut State, who: Who, barrier: bool) {
        if let Some(command) = state.client_mut(who).link.requests.pop() {
            let reply = self.run(state, who, command, barrier);
            state.client_mut(who).link.replies.push(reply);
        }
    }

    fn run_late(&self, state: &mut State, who: Who, slot: Slot, barrier: bool) {
        let client = state.client_mut(who);
        let queue = &mut client.broken[usize::from(slot)];
        let Some(command) = queue.pop() else {
            return;
        };
        if queue.is_empty() {
            client.vacate(slot);
        }
        let before = state.record;
        self.run(state, who, command, barrier);
        if state.record != before {
            match command {
                Command::Set(_) => self.witness(Witness::SetRanLate),
                Command::Renew(_) => self.witness(Witness::RenewalRanLate),
                Command::Delete(_) => self.witness(Witness::DeleteRanLate),
                Command::Kill(_) => {}
            }
        }
    }

    fn run_reaper(&self, state: &mut State, who: Who) {
        if let Some(token) = state.client_mut(who).reaping.take() {
            if state.record_is(who, token) {
                self.witness(Witness::OrphanReaped);
            }
            self.run(state, who, Command::Delete(token), true);
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // What follows a breach is of no interest, and would bury the counterexample.
        if state.breach.is_some() {
            return;
        }
        actions.push(Action::Tick);
        if state.calm == 0 && state.record.is_some() {
            actions.push(Action::ServerGains);
        }
        let mut steps = Vec::new();
        for who in Who::BOTH {
            self.open_steps(state, who, &mut steps);
            actions.extend(steps.drain(..).map(|step| Action::By(who, step)));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => {
                self.server_tick(&mut state);
                state.calm = state.calm.saturating_sub(1);
                for who in Who::BOTH {
                    state.client_mut(who).tick();
                }
            }
            Action::ServerGains => {
                self.server_tick(&mut state);
                if self.fault != Some(Fault::ClockBeyondAllowance) {
                    state.calm = self.size.ttl - ALLOWANCE;
                }
            }
            Action::By(who, step) => self.apply(&mut state, who, step),
        }
        state.forget_spent_tokens(self.fault.is_some_and(Fault::arms_spent_tokens));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        property::all()
    }
}
