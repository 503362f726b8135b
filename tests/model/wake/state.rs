//! One state: the processes, what each of them has under way, and what the server keeps.

use crate::token::{TOKENS, Token, TokenSet};

/// The most processes; a `Size` may allow fewer.
pub(super) const PROCESSES: usize = 3;

/// A process, by its place in [`State::processes`].
pub(super) type Who = u8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) processes: [Process; PROCESSES],
    pub(super) record: Option<Record>,
    /// *waiting* stands, and was set last by this process.
    pub(super) announced: Option<Who>,
    /// Elements of *wake*.
    pub(super) wake: u8,
    /// Who stands in `BLPOP` at the server, first come, first served.
    pub(super) blocked: Vec<Blocked>,
    pub(super) breach: Option<Breach>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) owner: Who,
    pub(super) token: Token,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Blocked {
    pub(super) who: Who,
    /// The process has given that link up, and the server does not know yet.
    pub(super) ghost: bool,
    /// Ticks until the server answers `nil`.
    pub(super) left: u8,
}

/// A process with one thread, or the front one of several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) phase: Phase,
    pub(super) out: Out,
    /// A command on a link that was given up; it may still run, and nobody will see the answer.
    pub(super) late: Option<Command>,
    /// The reaper's.
    pub(super) tainted: TokenSet,
    /// Of processes that died in this place.
    pub(super) orphaned: TokenSet,
    /// Ticks that the lock has been free for, all of which the process spent in one `BLPOP`.
    pub(super) missed: u8,
}

/// `live` says that the deadline has not passed that counts from before the command was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// `polite` after a release that told of others.
    Idle {
        polite: bool,
    },
    /// `SET NX PX` is out.
    Trying {
        token: Token,
        live: bool,
    },
    /// `wait.lua` comes next, whatever came before.
    Outside {
        token: Token,
    },
    /// `wait.lua` is out.
    Asking {
        token: Token,
        live: bool,
    },
    /// `wait.lua` is out, and shall only announce.
    Announcing {
        token: Token,
    },
    /// The lock was held, and a waiter is announced; `BLPOP` comes next.
    Announced {
        token: Token,
    },
    /// `BLPOP` is out. `left` is what the process itself waits before it gives the link up.
    Popping {
        token: Token,
        left: u8,
    },
    Unsettled {
        token: Token,
    },
    /// `CLIENT KILL` and compare-and-renew are out.
    Settling {
        token: Token,
        live: bool,
    },
    Held {
        token: Token,
    },
    Lost {
        token: Token,
    },
    Releasing {
        token: Token,
    },
}

/// What is on the link in use: one command, or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Out {
    Nothing,
    Sent(Command),
    /// The server has taken it in, and keeps it in [`State::blocked`].
    Blocked,
    Answered(Reply),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Set(Token),
    Wait(Token),
    /// The second mode of `wait.lua`.
    Announce(Token),
    Pop,
    Settle(Token),
    Release(Token),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    /// To `SET` and to both modes of `wait.lua`.
    Taken(bool),
    /// An element, or `nil`.
    Popped(bool),
    Settled {
        barrier: bool,
        ours: bool,
    },
    /// `others`: and the last to announce itself was another process.
    Released {
        others: bool,
    },
}

/// A breach that shows in a step and not in the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Breach {
    /// A token was sent to be set although an earlier command may still set it.
    SetTooSoon,
    /// A delete removed a record that was not its own, or that its process relied on.
    WrongDelete,
    /// The second mode of `wait.lua` has taken the lock.
    TookUnasked,
}

impl Breach {
    /// What follows a breach is of no interest. But this one must be followed to where it does
    /// harm.
    pub(super) fn ends_run(self) -> bool {
        self != Breach::SetTooSoon
    }
}

impl State {
    pub(super) fn initial() -> State {
        let process = Process {
            phase: Phase::Idle { polite: false },
            out: Out::Nothing,
            late: None,
            tainted: TokenSet::default(),
            orphaned: TokenSet::default(),
            missed: 0,
        };
        State {
            processes: [process.clone(), process.clone(), process],
            record: None,
            announced: None,
            wake: 0,
            blocked: Vec::new(),
            breach: None,
        }
    }

    pub(super) fn process(&self, who: Who) -> &Process {
        &self.processes[usize::from(who)]
    }

    pub(super) fn process_mut(&mut self, who: Who) -> &mut Process {
        &mut self.processes[usize::from(who)]
    }

    pub(super) fn record_is(&self, owner: Who, token: Token) -> bool {
        self.record == Some(Record { owner, token })
    }

    /// Whether something stands or runs at the server for a link that `who` has given up.
    pub(super) fn has_late(&self, who: Who) -> bool {
        self.process(who).late.is_some() || self.has_ghost(who)
    }

    pub(super) fn has_ghost(&self, who: Who) -> bool {
        self.blocked
            .iter()
            .any(|blocked| blocked.who == who && blocked.ghost)
    }

    /// A number that stands for a token fresh from the operating system.
    pub(super) fn fresh_token(&self, who: Who, room: Token) -> Option<Token> {
        let mentioned = self.mentioned(who);
        (0..room).find(|&token| !mentioned.contains(token))
    }

    fn mentioned(&self, who: Who) -> TokenSet {
        let process = self.process(who);
        let mut tokens = TokenSet::default();
        let out = match process.out {
            Out::Sent(command) => command.token(),
            _ => None,
        };
        let late = process.late.and_then(Command::token);
        let own = self.record.filter(|record| record.owner == who);
        for token in [process.phase.token(), out, late]
            .into_iter()
            .flatten()
            .chain(own.map(|record| record.token))
        {
            tokens.insert(token);
        }
        tokens
    }

    /// Drops what can have no effect in any future.
    pub(super) fn settle(&mut self) {
        for who in 0..PROCESSES as Who {
            let stands = |token| self.record_is(who, token);
            if let Some(Command::Release(token)) = self.process(who).late
                && !stands(token)
            {
                self.process_mut(who).late = None;
            }
            let mentioned = self.mentioned(who);
            let process = self.process_mut(who);
            process.tainted = process.tainted.and(mentioned);
            process.orphaned = process.orphaned.and(mentioned);
            if !matches!(process.phase, Phase::Popping { .. }) {
                process.missed = 0;
            }
        }
    }
}

impl Process {
    /// Whether a command with this token could still set it.
    pub(super) fn could_set(&self, token: Token) -> bool {
        let sent = match self.out {
            Out::Sent(command) => Some(command),
            _ => None,
        };
        [sent, self.late]
            .into_iter()
            .flatten()
            .any(|command| command == Command::Set(token) || command == Command::Wait(token))
    }

    pub(super) fn tainted(&self) -> impl Iterator<Item = Token> + use<> {
        let tainted = self.tainted;
        (0..TOKENS).filter(move |&token| tainted.contains(token))
    }

    /// The record that the server may not let expire yet: that of a lease that is relied on, or
    /// of one that has been granted and whose deadline is to come.
    pub(super) fn counts_on(&self) -> Option<Token> {
        let granted = matches!(
            self.out,
            Out::Answered(Reply::Taken(true) | Reply::Settled { ours: true, .. })
        );
        match self.phase {
            Phase::Held { token } => Some(token),
            Phase::Trying { token, live }
            | Phase::Asking { token, live }
            | Phase::Settling { token, live } => (live && granted).then_some(token),
            _ => None,
        }
    }
}

impl Phase {
    pub(super) fn token(self) -> Option<Token> {
        match self {
            Phase::Idle { .. } => None,
            Phase::Outside { token }
            | Phase::Announcing { token }
            | Phase::Announced { token }
            | Phase::Popping { token, .. } => Some(token),
            _ => self.owned(),
        }
    }

    /// The token whose record, if there is one, this phase will see to.
    pub(super) fn owned(self) -> Option<Token> {
        match self {
            Phase::Trying { token, .. }
            | Phase::Asking { token, .. }
            | Phase::Unsettled { token }
            | Phase::Settling { token, .. }
            | Phase::Held { token }
            | Phase::Lost { token }
            | Phase::Releasing { token } => Some(token),
            _ => None,
        }
    }
}

impl Command {
    pub(super) fn token(self) -> Option<Token> {
        match self {
            Command::Set(token)
            | Command::Wait(token)
            | Command::Announce(token)
            | Command::Settle(token)
            | Command::Release(token) => Some(token),
            Command::Pop => None,
        }
    }
}
