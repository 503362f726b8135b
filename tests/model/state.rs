//! One state of the whole system: the clients, what is on its way, and the record.
//!
//! Everything is kept as *time left* and never as a date, and a token that nothing mentions any
//! more gives its number back. So runs of any length fold into finitely many states, and no budget
//! of ticks or attempts cuts anything off.

use super::breach::Breach;
use super::phase::{Command, Link, Phase};
use super::queue::Queue;
use super::token::{TOKENS, Token, TokenSet};

/// The most broken connections of one client; a `Size` may allow fewer.
pub(super) const BROKEN: usize = 2;
/// The most renewals of one client that may be out at once; a `Size` may allow fewer.
pub(super) const RENEWALS: usize = 2;

/// A broken connection, by its place in [`Client::broken`], or a renewal, by its place in
/// [`Client::renewals`].
pub(super) type Slot = u8;

/// Exclusion is a matter of pairs, so two clients are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Who {
    A,
    B,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    clients: [Client; 2],
    pub(super) record: Option<Record>,
    /// Ticks that must pass before the server's clock may gain on the clients' again.
    pub(super) calm: u8,
    pub(super) breach: Option<Breach>,
}

/// What stands under the lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) owner: Who,
    pub(super) token: Token,
    /// Ticks of the server's clock until it expires; never 0.
    pub(super) left: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) link: Link,
    /// Connections that this client has given up. What they carry may still run, in order within
    /// one of them, and nobody will see the answer.
    pub(super) broken: [Queue<Command>; BROKEN],
    /// Each on a link of its own, in an order of no meaning: see [`State::settle`].
    pub(super) renewals: [Option<Renewal>; RENEWALS],
    pub(super) notices: Notices,
    pub(super) reaper: Reaper,
    /// Concluded "not ours" behind a barrier.
    pub(super) disowned: TokenSet,
    /// `release` has answered `Ok`.
    pub(super) released: TokenSet,
    /// Of processes that have died; nobody is to blame if their records stand for a ttl. Only
    /// where somebody looks at it.
    pub(super) orphaned: TokenSet,
    pub(super) bound: Bound,
}

/// A renewal by the renewal thread, or one that a call of the lease asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Renewal {
    pub(super) token: Token,
    pub(super) stage: Stage,
}

/// How far a renewal has come. `left` is what its confirmation would leave on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    /// In the batch, and the clock has been read for it, but no byte of it is written.
    Due {
        left: u8,
    },
    Sent {
        left: u8,
    },
    Answered {
        left: u8,
        ours: bool,
    },
    /// Sent, and nobody reads the answer any more.
    GivenUp,
}

/// What the watch thread has said about the present lease, and what the callback threads have
/// made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Notices {
    /// The watch has looked at the clock in this stay in the danger zone. Not the watch's
    /// knowledge: the truth that `told` is held against.
    pub(super) seen: bool,
    /// Of this stay the watch has told.
    pub(super) told: bool,
    /// The callback for this stay has begun. Again, the truth and not anybody's knowledge.
    pub(super) begun: bool,
    /// Told, and the callback has not begun yet.
    pub(super) dangers: u8,
    pub(super) loss: LossNotice,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum LossNotice {
    #[default]
    Untold,
    /// Told, and the callback has not begun yet.
    Waiting,
    Begun,
}

/// The tokens that never go into a `SET` again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reaper {
    doubts: [Option<Doubt>; TOKENS as usize],
    /// The compare-and-delete that is out.
    pub(super) out: Option<Token>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Doubt {
    /// Ticks until the reaper gives the token up; `None` while the server has not answered.
    pub(super) ends: Option<u8>,
    /// Not the reaper's knowledge: the truth that its end is held against. The server has run
    /// a compare-and-delete that did not find the record.
    pub(super) served: bool,
}

/// What an unknown release can say about how long its record may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bound {
    /// Nothing has been confirmed yet, or this run does not look at bounds.
    Unset,
    /// No longer than this, by the client's clock.
    Within { token: Token, left: u8 },
    /// A renewal went unanswered: whenever it runs it gives the record a whole ttl.
    Open,
}

impl Who {
    pub(super) const BOTH: [Who; 2] = [Who::A, Who::B];
}

impl State {
    pub(super) fn initial() -> State {
        State {
            clients: [Client::new(), Client::new()],
            record: None,
            calm: 0,
            breach: None,
        }
    }

    pub(super) fn client(&self, who: Who) -> &Client {
        &self.clients[who as usize]
    }

    pub(super) fn client_mut(&mut self, who: Who) -> &mut Client {
        &mut self.clients[who as usize]
    }

    /// Whether the record is there and carries this client's token.
    pub(super) fn record_is(&self, owner: Who, token: Token) -> bool {
        self.record
            .is_some_and(|record| record.owner == owner && record.token == token)
    }

    /// A number that stands for a token fresh from the operating system.
    pub(super) fn fresh_token(&self, who: Who, room: Token) -> Option<Token> {
        let mentioned = self.mentioned(who);
        if mentioned.len() >= u32::from(room) {
            return None;
        }
        (0..TOKENS).find(|&token| !mentioned.contains(token))
    }

    pub(super) fn mentioned(&self, who: Who) -> TokenSet {
        let mut tokens = self.client(who).mentioned();
        if let Some(record) = self.record
            && record.owner == who
        {
            tokens.insert(record.token);
        }
        tokens
    }

    /// Drops what can have no effect in any future, so that states which differ in nothing else
    /// are one state.
    ///
    /// A token goes into a `SET` only while it is fresh. So once it is not in the record and no
    /// `SET` with it is on its way, it never stands again: a late compare-and-anything with it
    /// does nothing, and what was concluded about it cannot turn out wrong any more. Under some
    /// planted faults such a command does harm; there `keep_idle_commands` is set.
    pub(super) fn settle(&mut self, keep_idle_commands: bool) {
        for who in Who::BOTH {
            if !keep_idle_commands {
                self.drop_idle_commands(who);
            }
            let mentioned = self.mentioned(who);
            let client = self.client_mut(who);
            client.reaper.retain(mentioned);
            client.disowned = client.disowned.and(mentioned);
            client.released = client.released.and(mentioned);
            client.orphaned = client.orphaned.and(mentioned);
            client.settle_renewals();
        }
    }

    fn drop_idle_commands(&mut self, who: Who) {
        let may_stand = self.may_stand(who);
        for token in (0..TOKENS).filter(|&token| !may_stand.contains(token)) {
            self.client_mut(who).drop_commands_with(token);
        }
    }

    /// The tokens in the record, in a `SET` that is on its way, or in a hand-over from one of them.
    fn may_stand(&self, who: Who) -> TokenSet {
        let mut tokens = TokenSet::default();
        if let Some(record) = self.record
            && record.owner == who
        {
            tokens.insert(record.token);
        }
        loop {
            let before = tokens;
            for command in self.client(who).commands() {
                match command {
                    Command::Set(token) => tokens.insert(token),
                    Command::HandOver(from, to) if tokens.contains(from) => tokens.insert(to),
                    _ => {}
                }
            }
            if tokens == before {
                return tokens;
            }
        }
    }
}

impl Client {
    fn new() -> Client {
        Client {
            phase: Phase::Idle,
            link: Link::default(),
            broken: [Queue::default(); BROKEN],
            renewals: [None; RENEWALS],
            notices: Notices::default(),
            reaper: Reaper::default(),
            disowned: TokenSet::default(),
            released: TokenSet::default(),
            orphaned: TokenSet::default(),
            bound: Bound::Unset,
        }
    }

    /// Whether a `SET` with this token could still run, alone or in a hand-over.
    pub(super) fn could_set(&self, token: Token) -> bool {
        self.commands().any(|command| match command {
            Command::Set(set) | Command::HandOver(_, set) => set == token,
            Command::Renew(_) | Command::Delete(_) | Command::Kill(_) => false,
        })
    }

    /// Whether a hand-over to this token could still run.
    pub(super) fn may_be_handed(&self, token: Token) -> bool {
        self.commands()
            .any(|command| matches!(command, Command::HandOver(_, to) if to == token))
    }

    /// Takes the commands off a broken connection: they have run, or they never will.
    ///
    /// Its place may be taken by the next broken connection, so nothing may refer to it any more,
    /// least of all a `CLIENT KILL` that is still on its way.
    pub(super) fn vacate(&mut self, slot: Slot) {
        self.broken[usize::from(slot)] = Queue::default();
        let queues = self.broken.iter_mut().chain([&mut self.link.requests]);
        for command in queues.flat_map(Queue::iter_mut) {
            if *command == Command::Kill(Some(slot)) {
                *command = Command::Kill(None);
            }
        }
        if let Phase::Unsettled { suspect, .. }
        | Phase::Resolving { suspect, .. }
        | Phase::ReleaseUnsettled { suspect, .. }
        | Phase::HandUnsettled { suspect, .. }
        | Phase::HandSettling { suspect, .. } = &mut self.phase
            && *suspect == Some(slot)
        {
            *suspect = None;
        }
    }

    /// Whether a compare-and-delete with this token may have been sent: the reaper sends one
    /// whenever it likes.
    pub(super) fn may_have_sent_delete(&self, token: Token) -> bool {
        self.reaper.doubt(token).is_some()
            || self.reaper.out == Some(token)
            || self.commands().any(|sent| sent == Command::Delete(token))
    }

    fn drop_commands_with(&mut self, token: Token) {
        if self.reaper.out == Some(token) {
            self.reaper.out = None;
        }
        let unread = Renewal {
            token,
            stage: Stage::GivenUp,
        };
        for renewal in &mut self.renewals {
            renewal.take_if(|renewal| *renewal == unread);
        }
        for slot in 0..BROKEN as Slot {
            let queue = &mut self.broken[usize::from(slot)];
            if queue.is_empty() {
                continue;
            }
            queue.retain(|command| match command {
                Command::HandOver(other, _) | Command::Renew(other) | Command::Delete(other) => {
                    other != token
                }
                Command::Set(_) | Command::Kill(_) => true,
            });
            if queue.is_empty() {
                self.vacate(slot);
            }
        }
    }

    /// A confirmation that would not lengthen what is left changes nothing, however much less it
    /// would leave; and which renewal has which place changes nothing either.
    fn settle_renewals(&mut self) {
        if let Phase::Held { left: held, .. } = self.phase {
            for renewal in self.renewals.iter_mut().flatten() {
                if let Some(left) = renewal.stage.left_mut()
                    && *left <= held
                {
                    *left = 0;
                }
            }
        }
        self.renewals.sort_unstable();
    }

    fn commands(&self) -> impl Iterator<Item = Command> {
        let queues = self.broken.iter().chain([&self.link.requests]);
        queues.flat_map(Queue::iter)
    }

    fn mentioned(&self) -> TokenSet {
        let mut tokens = TokenSet::default();
        for command in self.commands() {
            match command {
                Command::Set(token) | Command::Renew(token) | Command::Delete(token) => {
                    tokens.insert(token);
                }
                Command::HandOver(from, to) => {
                    tokens.insert(from);
                    tokens.insert(to);
                }
                Command::Kill(_) => {}
            }
        }
        let renewed = self.renewals.iter().flatten().map(|renewal| renewal.token);
        for token in self
            .phase
            .token()
            .into_iter()
            .chain(self.phase.heir())
            .chain(self.reaper.out)
            .chain(renewed)
        {
            tokens.insert(token);
        }
        tokens
    }
}

impl Stage {
    pub(super) fn left_mut(&mut self) -> Option<&mut u8> {
        match self {
            Stage::Due { left } | Stage::Sent { left } | Stage::Answered { left, .. } => Some(left),
            Stage::GivenUp => None,
        }
    }
}

impl Reaper {
    pub(super) fn doubt(&self, token: Token) -> Option<&Doubt> {
        self.doubts[usize::from(token)].as_ref()
    }

    pub(super) fn doubt_mut(&mut self, token: Token) -> &mut Option<Doubt> {
        &mut self.doubts[usize::from(token)]
    }

    pub(super) fn doubted(&self) -> impl Iterator<Item = Token> {
        (0..TOKENS).filter(|&token| self.doubt(token).is_some())
    }

    /// Forgets everything; but a command that is sent is sent.
    pub(super) fn die(&mut self) {
        self.doubts = [None; TOKENS as usize];
    }

    fn retain(&mut self, tokens: TokenSet) {
        for token in 0..TOKENS {
            self.doubt_mut(token).take_if(|_| !tokens.contains(token));
        }
    }
}
