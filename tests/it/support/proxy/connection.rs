//! One client's connection through the proxy: two threads, one for each direction.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::rules::{Action, Rule, decide};
use crate::support::{loopback, resp};

/// What all connections of a proxy and the test itself share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Notified at every change of the state.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) rules: Vec<Rule>,
    pub(super) log: Vec<Vec<String>>,
    pub(super) accepted: usize,
    pub(super) connections: Vec<Arc<Connection>>,
    pub(super) held: Vec<Ticket>,
    pub(super) silent: bool,
    pub(super) closing: bool,
    pub(super) pace: Pace,
}

/// How bytes are passed on.
#[derive(Clone, Default)]
pub(super) struct Pace {
    pub(super) delay_commands: Duration,
    pub(super) delay_replies: Duration,
    pub(super) pieces: Pieces,
}

#[derive(Clone, Default)]
pub(super) enum Pieces {
    #[default]
    Whole,
    Every(usize, Duration),
    At(Vec<usize>, Duration),
}

/// A command, or the reply to it, that is or was held.
pub(super) struct Ticket {
    pub(super) rule: usize,
    pub(super) command: Vec<String>,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stage {
    /// Its reply is to be held, and has not come yet.
    Coming,
    Held,
    LetGo,
    Discarded,
    /// The reply has been passed on.
    Answered,
    /// The server had ended the connection before it answered.
    Undeliverable,
}

pub(super) struct Connection {
    client: TcpStream,
    /// `None` for one that was accepted while the proxy was silent.
    server: Option<TcpStream>,
    /// From now on no byte is passed on; the server's side stays open until the proxy goes.
    silent: AtomicBool,
    /// A command was swallowed: nothing that follows it reaches the server.
    stuck: AtomicBool,
    /// A reply was dropped: nothing that follows it reaches the client.
    deaf: AtomicBool,
    replies: Mutex<Replies>,
    /// The threads that have ended, of two.
    ended: AtomicUsize,
}

/// What is to become of the replies that are still to come, in order.
#[derive(Default)]
struct Replies {
    due: VecDeque<Due>,
    /// One of the server's replies is being dealt with, and whatever follows it must wait.
    busy: bool,
    server_gone: bool,
}

enum Due {
    PassOn,
    Drop,
    Delay(Duration),
    Reset,
    OfHeld(usize),
    Hold(usize),
    Instead(Vec<u8>),
}

impl Shared {
    /// Waits until `deadline`, or less where the proxy closes.
    fn pause_until(&self, deadline: Instant) {
        let mut state = self.state.lock();
        while !state.closing && !self.changed.wait_until(&mut state, deadline).timed_out() {}
    }

    fn settle(&self, ticket: usize, stage: Stage) {
        self.state.lock().held[ticket].stage = stage;
        self.changed.notify_all();
    }

    fn pace(&self) -> Pace {
        self.state.lock().pace.clone()
    }
}

/// Starts the connection's threads. They end when both sides have ended, or with the proxy.
pub(super) fn open(shared: &Arc<Shared>, client: TcpStream, server: Option<TcpStream>) {
    let silent = AtomicBool::new(server.is_none());
    let (replies, ended) = (Mutex::default(), AtomicUsize::new(0));
    let connection = Arc::new(Connection {
        client,
        server,
        silent,
        stuck: AtomicBool::new(false),
        deaf: AtomicBool::new(false),
        replies,
        ended,
    });
    for stream in [Some(&connection.client), connection.server.as_ref()]
        .into_iter()
        .flatten()
    {
        // Pieces must leave one by one. A socket that has been reset already refuses the option.
        let _ = stream.set_nodelay(true);
    }
    {
        let mut state = shared.state.lock();
        state.accepted += 1;
        if state.silent {
            // It was accepted just before the silence fell.
            connection.silence();
        }
        state.connections.push(Arc::clone(&connection));
        shared.changed.notify_all();
    }
    let spawn = |name: &str, work: fn(&Connection, &Shared)| {
        let (shared, connection) = (Arc::clone(shared), Arc::clone(&connection));
        thread::Builder::new()
            .name(String::from(name))
            .spawn(move || {
                work(&connection, &shared);
                connection.forget_when_over(&shared);
            })
            .expect("a thread for the connection");
    };
    spawn("proxy-commands", Connection::pass_commands);
    spawn("proxy-replies", Connection::pass_replies);
}

impl Due {
    /// The server has ended the connection and will answer no more.
    fn give_up(self, shared: &Shared) {
        if let Due::OfHeld(ticket) | Due::Hold(ticket) = self {
            shared.settle(ticket, Stage::Undeliverable);
        }
    }
}

impl Connection {
    pub(super) fn silence(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// RST to the client; the server sees the ordinary end of the connection.
    pub(super) fn reset(&self) {
        loopback::reset(&self.client);
        self.end_server(Shutdown::Both);
    }

    pub(super) fn close(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        self.end_server(Shutdown::Both);
    }

    /// Lets go of the sockets when both threads have ended, or a test with many faults would run
    /// out of descriptors. A silent connection stays: its peers must not see it end.
    fn forget_when_over(self: &Arc<Self>, shared: &Shared) {
        if self.ended.fetch_add(1, Ordering::SeqCst) == 1 && !self.is_silent() {
            shared
                .state
                .lock()
                .connections
                .retain(|other| !Arc::ptr_eq(self, other));
        }
    }

    fn end_server(&self, how: Shutdown) {
        // Fails only where the server has ended the connection already.
        let _ = self.server.as_ref().map(|server| server.shutdown(how));
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }

    fn pass_commands(&self, shared: &Shared) {
        let mut bytes = Vec::new();
        while read_more(&self.client, &mut bytes) {
            let arrived = Instant::now();
            while let Some((words, length)) = resp::command(&bytes) {
                let frame: Vec<u8> = bytes.drain(..length).collect();
                if !self.pass_command(shared, &resp::text(&words), frame, arrived) {
                    return;
                }
            }
        }
        // In a silent network the end of the connection does not come through either.
        if !self.is_silent() {
            self.end_server(Shutdown::Write);
        }
    }

    /// Returns whether the connection lives on.
    fn pass_command(
        &self,
        shared: &Shared,
        words: &[String],
        frame: Vec<u8>,
        arrived: Instant,
    ) -> bool {
        let mut state = shared.state.lock();
        state.log.push(words.to_vec());
        let silent = self.is_silent();
        let decided = if silent {
            None
        } else {
            decide(&mut state.rules, words)
        };
        shared.changed.notify_all();
        let delay = state.pace.delay_commands;
        let ticket = state.held.len();
        let stage = match &decided {
            Some((rule, Action::Hold)) => Some((*rule, Stage::Held)),
            Some((rule, Action::HoldReply)) => Some((*rule, Stage::Coming)),
            _ => None,
        };
        if let Some((rule, stage)) = stage {
            let command = words.to_vec();
            state.held.push(Ticket {
                rule,
                command,
                stage,
            });
        }
        drop(state);
        if !delay.is_zero() {
            shared.pause_until(arrived + delay);
        }
        match decided.map(|(_, action)| action) {
            _ if silent => {}
            _ if self.stuck.load(Ordering::SeqCst) => {}
            None | Some(Action::Dice(_)) => self.send(shared, &frame, Due::PassOn),
            Some(Action::Swallow) => self.stuck.store(true, Ordering::SeqCst),
            Some(Action::HoldReply) => self.send(shared, &frame, Due::Hold(ticket)),
            Some(Action::DropReply) => self.send(shared, &frame, Due::Drop),
            Some(Action::Delay(delay)) => self.send(shared, &frame, Due::Delay(delay)),
            Some(Action::ResetAfter) => self.send(shared, &frame, Due::Reset),
            Some(Action::ResetBefore) => {
                self.reset();
                return false;
            }
            Some(Action::Answer(reply)) => {
                let mut replies = self.replies.lock();
                replies.due.push_back(Due::Instead(reply));
                self.give_own_answers(shared, &mut replies, Instant::now());
            }
            Some(Action::Hold) => match self.hold(shared, ticket) {
                Stage::LetGo => self.send(shared, &frame, Due::OfHeld(ticket)),
                Stage::Discarded => {}
                _ => return false,
            },
        }
        true
    }

    /// What comes behind on the same way waits too, as it would behind a packet that is late.
    fn hold(&self, shared: &Shared, ticket: usize) -> Stage {
        let mut state = shared.state.lock();
        while state.held[ticket].stage == Stage::Held && !state.closing {
            shared.changed.wait(&mut state);
        }
        state.held[ticket].stage
    }

    fn send(&self, shared: &Shared, frame: &[u8], due: Due) {
        let mut replies = self.replies.lock();
        if replies.server_gone {
            due.give_up(shared);
            return;
        }
        replies.due.push_back(due);
        drop(replies);
        if let Some(mut server) = self.server.as_ref() {
            // A failure shows as the end of the stream in the other thread, which settles it.
            let _ = server.write_all(frame);
        }
    }

    fn pass_replies(&self, shared: &Shared) {
        let Some(server) = &self.server else { return };
        let mut bytes = Vec::new();
        while read_more(server, &mut bytes) {
            let arrived = Instant::now();
            while let Some(length) = resp::reply_len(&bytes) {
                let frame: Vec<u8> = bytes.drain(..length).collect();
                self.pass_reply(shared, &frame, arrived);
            }
        }
        let mut replies = self.replies.lock();
        replies.server_gone = true;
        replies.due.drain(..).for_each(|due| due.give_up(shared));
        if !self.is_silent() {
            let _ = self.client.shutdown(Shutdown::Both);
        }
    }

    fn pass_reply(&self, shared: &Shared, frame: &[u8], arrived: Instant) {
        // A push message of RESP3 answers no command.
        let is_push = frame.starts_with(b">");
        let mut replies = self.replies.lock();
        let due = if is_push {
            None
        } else {
            replies.due.pop_front()
        };
        replies.busy = true;
        // The commands that follow must get through while this reply is held or delayed.
        drop(replies);
        match due.unwrap_or(Due::PassOn) {
            Due::PassOn => self.answer(shared, frame, arrived),
            Due::Drop => self.deaf.store(true, Ordering::SeqCst),
            Due::Delay(delay) => {
                shared.pause_until(arrived + delay);
                self.answer(shared, frame, arrived);
            }
            Due::Reset if self.is_silent() => {}
            Due::Reset => self.reset(),
            Due::OfHeld(ticket) => {
                self.answer(shared, frame, arrived);
                shared.settle(ticket, Stage::Answered);
            }
            Due::Hold(ticket) => {
                shared.settle(ticket, Stage::Held);
                if self.hold(shared, ticket) == Stage::LetGo {
                    self.answer(shared, frame, arrived);
                    shared.settle(ticket, Stage::Answered);
                }
            }
            Due::Instead(_) => unreachable!("given as soon as it was first in the line"),
        }
        let mut replies = self.replies.lock();
        replies.busy = false;
        self.give_own_answers(shared, &mut replies, arrived);
    }

    /// The proxy's own answers that no reply of the server is to precede any more.
    fn give_own_answers(&self, shared: &Shared, replies: &mut Replies, arrived: Instant) {
        while let (false, Some(Due::Instead(_))) = (replies.busy, replies.due.front()) {
            if let Some(Due::Instead(reply)) = replies.due.pop_front() {
                self.answer(shared, &reply, arrived);
            }
        }
    }

    /// Passes a reply on, at the pace that is set. A client that has gone misses it.
    fn answer(&self, shared: &Shared, reply: &[u8], arrived: Instant) {
        let pace = shared.pace();
        if !pace.delay_replies.is_zero() {
            shared.pause_until(arrived + pace.delay_replies);
        }
        let (cuts, pause) = match pace.pieces {
            Pieces::Whole => (Vec::new(), Duration::ZERO),
            Pieces::Every(size, pause) => (
                (1..reply.len())
                    .filter(|at| at % size.max(1) == 0)
                    .collect(),
                pause,
            ),
            Pieces::At(cuts, pause) => (cuts, pause),
        };
        let mut from = 0;
        for to in cuts
            .into_iter()
            .filter(|at| (1..reply.len()).contains(at))
            .chain([reply.len()])
        {
            if from > 0 {
                shared.pause_until(Instant::now() + pause);
            }
            if self.is_silent()
                || self.deaf.load(Ordering::SeqCst)
                || (&self.client).write_all(&reply[from..to]).is_err()
            {
                return;
            }
            from = to;
        }
    }
}

/// Returns whether anything came.
fn read_more(mut stream: &TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 16 * 1024];
    loop {
        match stream.read(&mut chunk) {
            Ok(count) => {
                bytes.extend_from_slice(&chunk[..count]);
                return count > 0;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}
