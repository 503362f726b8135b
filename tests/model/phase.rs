//! What a client is doing, and what it has under way for it.

use super::queue::Queue;
use super::state::Slot;
use super::token::Token;

/// What a client is doing. `left` counts by the client's own clock, from before the send of the
/// command that the deadline rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// `SET NX PX` is out.
    Acquiring {
        token: Token,
        left: u8,
    },
    /// The link broke under the `SET`, or under its resolving. `suspect` is the connection that
    /// may still carry the `SET`; `None` if nothing is left on it.
    Unsettled {
        token: Token,
        suspect: Option<Slot>,
        barrier: bool,
    },
    /// `CLIENT KILL` and compare-and-renew are out, on a new link.
    Resolving {
        token: Token,
        suspect: Option<Slot>,
        barrier: bool,
        left: u8,
    },
    /// The lease is relied on, and `left` is not 0.
    Held {
        token: Token,
        left: u8,
    },
    Lost {
        token: Token,
    },
    /// Compare-and-delete is out. `deleted` is not the client's knowledge: it is the truth that
    /// the answer is held against.
    Releasing {
        token: Token,
        left: u8,
        again: bool,
        deleted: bool,
    },
    /// The link broke under the compare-and-delete.
    ReleaseUnsettled {
        token: Token,
        left: u8,
        suspect: Option<Slot>,
        deleted: bool,
    },
    /// The script is out that sets the heir's record in the place of the predecessor's.
    HandingOver(Hand),
    /// The link broke under that script, or under its settling.
    HandUnsettled {
        hand: Hand,
        suspect: Option<Slot>,
        barrier: bool,
    },
    /// `CLIENT KILL` and compare-and-renew with the heir's token are out, on a new link.
    HandSettling {
        hand: Hand,
        suspect: Option<Slot>,
        barrier: bool,
    },
}

/// A hand-over between two threads of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hand {
    /// The predecessor's token, and what is left of its lease, which nobody relies on any more.
    pub(super) from: Token,
    pub(super) left: u8,
    /// The heir's token, and what a confirmation of the command that is out would leave it.
    pub(super) to: Token,
    pub(super) heirs: u8,
}

/// The connection in use: what the server has not run yet, and what the client has not read yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) requests: Queue<Command>,
    pub(super) replies: Queue<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Set(Token),
    /// If the record is the first one's, it becomes the second one's.
    HandOver(Token, Token),
    Renew(Token),
    Delete(Token),
    /// `CLIENT KILL`; `None` if nothing is left on that connection that could run.
    Kill(Option<Slot>),
}

/// `HandOver(false)`, `Renew(false)` and `Delete(false)` stand for both "gone" and "another's": no
/// rule of the protocol needs to tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Set(bool),
    HandOver(bool),
    Renew(bool),
    Delete(bool),
    Kill(bool),
}

impl Phase {
    /// The token of the lease that is sought, held or given back.
    pub(super) fn token(self) -> Option<Token> {
        match self {
            Phase::Idle => None,
            Phase::Acquiring { token, .. }
            | Phase::Unsettled { token, .. }
            | Phase::Resolving { token, .. }
            | Phase::Held { token, .. }
            | Phase::Lost { token }
            | Phase::Releasing { token, .. }
            | Phase::ReleaseUnsettled { token, .. } => Some(token),
            Phase::HandingOver(hand)
            | Phase::HandUnsettled { hand, .. }
            | Phase::HandSettling { hand, .. } => Some(hand.from),
        }
    }

    /// The token that waits for the lease to be handed over.
    pub(super) fn heir(self) -> Option<Token> {
        match self {
            Phase::HandingOver(hand)
            | Phase::HandUnsettled { hand, .. }
            | Phase::HandSettling { hand, .. } => Some(hand.to),
            _ => None,
        }
    }
}
