//! The protocol as a transition system: which steps are open in a state, and where they lead.

use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Model, Property};

use super::breach::Breach;
use super::explorer::Explored;
use super::fault::Fault;
use super::phase::{Command, Phase, Reply};
use super::property;
use super::state::{Client, LossNotice, Slot, Stage, State, Who};
use super::token::Token;
use super::witness::Witness;

/// Ticks that validity is shorter than the ttl, and that the server's clock may gain on the
/// clients' within one validity.
const ALLOWANCE: u8 = 1;

/// The rules, with at most one of them broken.
pub(super) struct Protocol {
    pub(super) size: Size,
    pub(super) fault: Option<Fault>,
    /// Whether the reaper ends as it should. It costs two timers; else it ends at any moment, and
    /// every run in which it ends as it should is among those.
    pub(super) counts_reaper: bool,
    /// Whether to look at the bound that an unknown release names: it costs one more timer.
    pub(super) tracks_bound: bool,
    /// Whether to tell the records of dead processes from those that somebody has to see to.
    pub(super) tracks_owners: bool,
    /// Whether an unknown hand-over is settled by the predecessor's compare-and-delete, and not
    /// behind a barrier.
    pub(super) settles_by_delete: bool,
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
    /// As many more, if they go to heirs: to threads of the same client that wait for its lease.
    pub(super) heirs: Token,
    /// Broken connections with commands that may still run.
    pub(super) broken: Slot,
    /// Renewals that are due or out, those of former leases and former processes included.
    pub(super) renewals: Slot,
    /// Ticks of the danger zone before the deadline. Where there are none, there is no watch.
    pub(super) margin: u8,
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
    Release,
    ReleaseAgain,
    /// A release with an heir, whose fresh token this is.
    HandOver(Token),
    SettleHandOver,
    GiveUp,
    /// The renewal thread puts the lease into a batch.
    BeginRenewal,
    SendRenewal(Slot),
    RunRenewal(Slot),
    ReadRenewal(Slot),
    /// The answer has come, and the link breaks before it is read.
    MissRenewal(Slot),
    /// The watch thread looks at the clock, and has something to tell.
    Look,
    /// A callback thread comes to a notice.
    CallDanger,
    CallLoss,
    /// The reaper sends its compare-and-delete, on a link of its own.
    Reap(Token),
    /// The client reads a reply.
    Read,
    /// The reply makes the heir the holder, but the heir has left: its budget is over.
    ReadWithoutHeir,
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
    /// The same, and the answer is lost.
    RunReaperUnheard,
}

impl Protocol {
    pub(super) fn new(size: Size) -> Protocol {
        Protocol {
            size,
            fault: None,
            counts_reaper: false,
            tracks_bound: false,
            tracks_owners: false,
            settles_by_delete: false,
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
        match client.reaper.out {
            Some(token) => {
                steps.push(Step::RunReaper);
                if self.counts_reaper && client.reaper.doubt(token).is_some() {
                    steps.push(Step::RunReaperUnheard);
                }
            }
            None => steps.extend(client.reaper.doubted().map(Step::Reap)),
        }
        self.open_renewals(client, room, steps);
        self.open_notices(client, room, steps);
        match client.link.requests.first() {
            Some(Command::Kill(_)) => steps.extend([Step::Run, Step::RefuseKill]),
            Some(_) => steps.push(Step::Run),
            None => {}
        }
        let unread = !client.link.replies.is_empty();
        if unread {
            steps.push(Step::Read);
            if client.phase.heir().is_some() && self.confirms_heir(client) {
                steps.push(Step::ReadWithoutHeir);
            }
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

    fn open_renewals(&self, client: &Client, room: Room, steps: &mut Vec<Step>) {
        let mut out = 0;
        let mut due = false;
        for (slot, renewal) in (0..).zip(&client.renewals) {
            let Some(renewal) = renewal else { continue };
            out += 1;
            match renewal.stage {
                Stage::Due { .. } => {
                    due = true;
                    steps.push(Step::SendRenewal(slot));
                }
                Stage::Sent { .. } | Stage::GivenUp => steps.push(Step::RunRenewal(slot)),
                Stage::Answered { .. } => {
                    steps.extend([Step::ReadRenewal(slot), Step::MissRenewal(slot)]);
                }
            }
        }
        // One thread, one batch at a time.
        if matches!(client.phase, Phase::Held { .. }) && out < room.renewals && !due {
            steps.push(Step::BeginRenewal);
        }
    }

    fn open_notices(&self, client: &Client, room: Room, steps: &mut Vec<Step>) {
        if self.would_tell(client, room.margin) {
            steps.push(Step::Look);
        }
        if client.notices.dangers > 0 {
            steps.push(Step::CallDanger);
        }
        if client.notices.loss == LossNotice::Waiting {
            steps.push(Step::CallLoss);
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
                    steps.extend(client.reaper.out.map(Step::Acquire));
                }
                if self.fault == Some(Fault::HeirsTokenReused) {
                    let tokens = client.reaper.doubted();
                    let heirs = tokens.filter(|&token| client.may_be_handed(token));
                    steps.extend(heirs.map(Step::Acquire));
                }
            }
            Phase::Unsettled { .. } => steps.extend([Step::Resolve, Step::GiveUp]),
            Phase::Held { .. } | Phase::Lost { .. } => {
                steps.push(Step::Release);
                let room = self.size.rooms[who as usize];
                if room.heirs > 0 {
                    let fresh = state.fresh_token(who, room.tokens + room.heirs);
                    steps.extend(fresh.map(Step::HandOver));
                }
            }
            Phase::ReleaseUnsettled { .. } => steps.extend([Step::ReleaseAgain, Step::GiveUp]),
            Phase::HandUnsettled { .. } => steps.extend([Step::SettleHandOver, Step::GiveUp]),
            Phase::Acquiring { .. }
            | Phase::Resolving { .. }
            | Phase::Releasing { .. }
            | Phase::HandingOver(_)
            | Phase::HandSettling { .. } => {}
        }
    }

    fn apply(&self, state: &mut State, who: Who, step: Step) {
        let margin = self.size.rooms[who as usize].margin;
        let client = state.client_mut(who);
        let mut breach = None;
        match step {
            Step::Acquire(token) => breach = self.acquire(client, token),
            Step::Resolve => self.resolve(client),
            Step::Release => self.release_lease(client),
            Step::ReleaseAgain => self.release_again(client),
            Step::HandOver(token) => breach = self.begin_hand_over(client, token),
            Step::SettleHandOver => self.settle_hand_over(client),
            Step::GiveUp => self.give_up(client),
            Step::BeginRenewal => self.begin_renewal(client),
            Step::SendRenewal(slot) => breach = self.send_renewal(client, slot),
            Step::RunRenewal(slot) => self.run_renewal(state, who, slot),
            Step::ReadRenewal(slot) => breach = self.read_renewal(client, margin, slot),
            Step::MissRenewal(slot) => self.miss_renewal(client, slot),
            Step::Look => breach = self.look(client),
            Step::CallDanger => breach = self.call_danger(client, margin),
            Step::CallLoss => breach = self.call_loss(client),
            Step::Reap(token) => self.reap(client, token),
            Step::Read => breach = self.read_next(client, who, margin),
            Step::ReadWithoutHeir => self.read_without_heir(client, margin),
            Step::Break(slot) => self.break_link(client, slot),
            Step::Crash(slot) => {
                if self.tracks_owners {
                    let orphaned = state.mentioned(who);
                    state.client_mut(who).orphaned = orphaned;
                }
                self.crash(state.client_mut(who), slot);
            }
            Step::Run => self.run_next(state, who, true),
            Step::RefuseKill => self.run_next(state, who, false),
            Step::RunLate(slot) => self.run_late(state, who, slot, true),
            Step::RefuseKillLate(slot) => self.run_late(state, who, slot, false),
            Step::RunReaper => self.run_reaper(state, who, true),
            Step::RunReaperUnheard => self.run_reaper(state, who, false),
        }
        state.breach = breach.or(state.breach);
    }

    /// Whether the next reply makes the heir the holder.
    fn confirms_heir(&self, client: &Client) -> bool {
        let reply = client.link.replies.first();
        reply == Some(Reply::HandOver(true)) || reply == Some(Reply::Renew(true))
    }

    fn read_without_heir(&self, client: &mut Client, margin: u8) {
        if let Some(reply) = client.link.replies.pop() {
            self.read_hand_over(client, margin, reply, false);
        }
    }

    fn read_next(&self, client: &mut Client, who: Who, margin: u8) -> Option<Breach> {
        let reply = client.link.replies.pop()?;
        let breach = self.read(client, margin, reply);
        if matches!(client.phase, Phase::Held { .. }) {
            self.witness(match who {
                Who::A => Witness::LeaseOfA,
                Who::B => Witness::LeaseOfB,
            });
        }
        breach
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
                Command::Delete(_) => self.witness(Witness::DeleteRanLate),
                Command::HandOver(..) => self.witness(Witness::HandedOverLate),
                Command::Renew(_) | Command::Kill(_) => {}
            }
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
        if state.breach.is_some_and(Breach::ends_run) {
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
                    let client = state.client_mut(who);
                    client.tick();
                    let breach = self.reaper_tick(client);
                    state.breach = state.breach.or(breach);
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
        state.settle(self.fault.is_some_and(Fault::arms_spent_tokens));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        property::all()
    }
}

impl Explored for Protocol {}
