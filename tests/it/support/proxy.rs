//! A network between client and server that fails as the test says.

mod connection;
mod rules;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::connection::{Pieces, Shared, Stage, State, open};
use self::rules::{Action, Rule};
pub use self::rules::{Faults, Matcher};
use super::loopback::{self, Acceptor};
use super::resp;
use super::server::Server;
use super::wait::PATIENCE;

/// A TCP proxy that sees whole commands and whole replies, in order, on each connection.
///
/// Without rules it passes everything on. Rules are looked at in the order in which they were
/// set, and the first that wants a command has it.
///
/// ```ignore
/// let proxy = Proxy::to(&server);
/// let client = Client::open(&proxy.url())?;
/// let held = proxy.hold(Matcher::command("SET").once());
/// // … the client sends SET on another thread, hears nothing and gives up …
/// held.wait();
/// assert!(held.deliver(), "the server ran it, though nobody waits for the reply");
/// ```
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: SocketAddr,
    /// What stands before the address in a URL.
    credentials: String,
    acceptor: Mutex<Option<Acceptor>>,
    /// Keeps the port while connections to it are refused.
    refusing: Mutex<Option<TcpListener>>,
}

impl Proxy {
    pub fn to(server: &Server) -> Proxy {
        let listener = loopback::listen();
        let proxy = Proxy {
            shared: Arc::default(),
            address: listener.local_addr().expect("a listener has an address"),
            server: server.addr(),
            credentials: server
                .password()
                .map(|word| format!(":{word}@"))
                .unwrap_or_default(),
            acceptor: Mutex::new(None),
            refusing: Mutex::new(None),
        };
        proxy.accept(listener);
        proxy
    }

    pub fn url(&self) -> String {
        format!("redis://{}{}", self.credentials, self.address)
    }

    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}", self.address)
    }

    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The commands stay in the proxy, and with each of them all that follows on its connection,
    /// until the test lets it go. The server's side of the connection stays open meanwhile, also
    /// when the client has closed its own.
    pub fn hold(&self, matcher: impl Into<Matcher>) -> Held {
        Held {
            rule: self.rule(matcher, Action::Hold),
        }
    }

    /// The server runs the commands; their replies stay in the proxy, and with each of them all
    /// that follows on its connection, until the test lets it go. `held.wait()` returns when the
    /// server has answered.
    pub fn hold_reply(&self, matcher: impl Into<Matcher>) -> Held {
        Held {
            rule: self.rule(matcher, Action::HoldReply),
        }
    }

    /// The commands never reach the server, nor does what follows them on their connection, which
    /// stays open: TCP never loses from the middle.
    pub fn swallow(&self, matcher: impl Into<Matcher>) -> RuleHandle {
        self.rule(matcher, Action::Swallow)
    }

    /// The server runs the commands; the replies are lost, and so are all that follow them on their
    /// connection, which stays open: TCP never loses from the middle.
    pub fn drop_reply(&self, matcher: impl Into<Matcher>) -> RuleHandle {
        self.rule(matcher, Action::DropReply)
    }

    /// RST towards the client in place of passing the command on.
    pub fn reset_before(&self, matcher: impl Into<Matcher>) -> RuleHandle {
        self.rule(matcher, Action::ResetBefore)
    }

    /// The server runs the command; then RST towards the client in place of the reply.
    pub fn reset_after(&self, matcher: impl Into<Matcher>) -> RuleHandle {
        self.rule(matcher, Action::ResetAfter)
    }

    /// The proxy answers in the server's place, for example `-NOPERM no rights\r\n`.
    pub fn answer(&self, matcher: impl Into<Matcher>, reply: &str) -> RuleHandle {
        self.rule(matcher, Action::Answer(reply.as_bytes().to_vec()))
    }

    pub fn random_faults(&self, matcher: impl Into<Matcher>, faults: Faults) -> RuleHandle {
        self.rule(matcher, Action::Dice(faults))
    }

    /// From now on no byte comes through in either direction. New connections are accepted and
    /// hear nothing; nobody is told when the other side closes.
    pub fn swallow_everything(&self) {
        self.change(|state| {
            state.silent = true;
            state
                .connections
                .iter()
                .for_each(|connection| connection.silence());
        });
    }

    /// New connections are refused by the system; the open ones live on.
    pub fn refuse_connections(&self) {
        let acceptor = self.acceptor.lock().take();
        if let Some(acceptor) = acceptor {
            *self.refusing.lock() = Some(acceptor.refuse());
        }
    }

    /// RST to every client that is connected now.
    pub fn reset_all(&self) {
        self.change(|state| {
            state
                .connections
                .drain(..)
                .for_each(|connection| connection.reset())
        });
    }

    /// Replies reach the client in pieces of `size` bytes with a pause before each but the first.
    pub fn trickle_replies(&self, size: usize, pause: Duration) {
        self.change(|state| state.pace.pieces = Pieces::Every(size, pause));
    }

    /// Each reply is cut at these offsets, and its pieces are sent one by one.
    pub fn split_replies_at(&self, cuts: &[usize], pause: Duration) {
        self.change(|state| state.pace.pieces = Pieces::At(cuts.to_vec(), pause));
    }

    /// Every command takes at least this long to reach the server.
    pub fn delay_commands(&self, delay: Duration) {
        self.change(|state| state.pace.delay_commands = delay);
    }

    /// Every reply takes at least this long to reach the client.
    pub fn delay_replies(&self, delay: Duration) {
        self.change(|state| state.pace.delay_replies = delay);
    }

    /// Ends all rules, delays, trickling, silence and refusal. What was held stays held, and a
    /// connection that has lost bytes in the silence stays silent.
    pub fn heal(&self) {
        self.change(|state| {
            state.rules.iter_mut().for_each(|rule| rule.ended = true);
            state.pace = Default::default();
            state.silent = false;
        });
        let refusing = self.refusing.lock().take();
        if let Some(listener) = refusing {
            loopback::listen_again(&listener);
            self.accept(listener);
        }
    }

    /// The commands that clients have sent, oldest first, whatever became of them.
    pub fn commands(&self) -> Vec<Vec<String>> {
        self.shared.state.lock().log.clone()
    }

    /// How many of them begin with `name`: `SET`, `CLIENT KILL`.
    pub fn count(&self, name: &str) -> usize {
        count(&self.shared.state.lock(), name)
    }

    /// Returns when `count` of them have come.
    #[track_caller]
    pub fn wait_for(&self, name: &str, count_wanted: usize) {
        wait(
            &self.shared,
            &format!("{count_wanted} × {name} at the proxy"),
            |state| (count(state, name) >= count_wanted).then_some(()),
        );
    }

    /// How many connections have been accepted.
    pub fn connections(&self) -> usize {
        self.shared.state.lock().accepted
    }

    fn rule(&self, matcher: impl Into<Matcher>, action: Action) -> RuleHandle {
        let mut state = self.shared.state.lock();
        let id = state.rules.len();
        state.rules.push(Rule::new(id, matcher.into(), action));
        RuleHandle {
            shared: Arc::clone(&self.shared),
            id,
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock());
        self.shared.changed.notify_all();
    }

    fn accept(&self, listener: TcpListener) {
        let (shared, server) = (Arc::clone(&self.shared), self.server);
        let acceptor = Acceptor::start(listener, move |client| open_to(&shared, client, server));
        *self.acceptor.lock() = Some(acceptor);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // First, or a connection might come in behind the closing of all.
        self.refuse_connections();
        self.change(|state| {
            state.closing = true;
            state
                .connections
                .drain(..)
                .for_each(|connection| connection.close());
        });
    }
}

/// A rule that has been set.
pub struct RuleHandle {
    shared: Arc<Shared>,
    id: usize,
}

impl RuleHandle {
    /// How many commands it has been applied to.
    pub fn hits(&self) -> usize {
        self.shared.state.lock().rules[self.id].hits
    }

    /// Returns when it has been applied at least once.
    #[track_caller]
    pub fn wait(&self) {
        wait(&self.shared, "the rule is applied", |state| {
            (state.rules[self.id].hits > 0).then_some(())
        });
    }

    /// Takes the rule away; what it has done stays done.
    pub fn end(&self) {
        self.shared.state.lock().rules[self.id].ended = true;
    }
}

/// A rule that holds commands, or replies: what is said here of commands holds for both.
pub struct Held {
    rule: RuleHandle,
}

impl Held {
    /// Returns the oldest command that is being held, when there is one.
    #[track_caller]
    pub fn wait(&self) -> Vec<String> {
        let ticket = self.oldest();
        self.rule.shared.state.lock().held[ticket].command.clone()
    }

    /// How many are being held now.
    pub fn count(&self) -> usize {
        let state = self.rule.shared.state.lock();
        let own = state
            .held
            .iter()
            .filter(|ticket| ticket.rule == self.rule.id);
        own.filter(|ticket| ticket.stage == Stage::Held).count()
    }

    /// Lets the oldest one go on to the server and waits until the server has answered: `true`.
    /// `false` where the server had ended that connection, so that the command was never run. Of
    /// a held reply: waits until it has been passed on, or missed by a client that has gone.
    #[track_caller]
    pub fn deliver(&self) -> bool {
        let ticket = self.let_oldest(Stage::LetGo);
        wait(
            &self.rule.shared,
            "what was held arrives",
            |state| match state.held[ticket].stage {
                Stage::Answered => Some(true),
                Stage::Undeliverable => Some(false),
                _ => None,
            },
        )
    }

    /// Lets the oldest one go on to the server, which may be standing still, and returns.
    #[track_caller]
    pub fn send(&self) {
        self.let_oldest(Stage::LetGo);
    }

    /// Throws the oldest one away; what came behind it goes on.
    #[track_caller]
    pub fn discard(&self) {
        self.let_oldest(Stage::Discarded);
    }

    /// Holds no more commands; those that are held stay so.
    pub fn end(&self) {
        self.rule.end();
    }

    #[track_caller]
    fn let_oldest(&self, stage: Stage) -> usize {
        let ticket = self.oldest();
        self.rule.shared.state.lock().held[ticket].stage = stage;
        self.rule.shared.changed.notify_all();
        ticket
    }

    #[track_caller]
    fn oldest(&self) -> usize {
        wait(&self.rule.shared, "a command is held", |state| {
            state
                .held
                .iter()
                .position(|ticket| ticket.rule == self.rule.id && ticket.stage == Stage::Held)
        })
    }
}

fn count(state: &State, name: &str) -> usize {
    state
        .log
        .iter()
        .filter(|command| resp::begins_with(command, name))
        .count()
}

#[track_caller]
fn wait<T>(shared: &Shared, what: &str, mut found: impl FnMut(&mut State) -> Option<T>) -> T {
    let mut value = None;
    let mut state = shared.state.lock();
    shared.changed.wait_while_for(
        &mut state,
        |state| {
            value = found(state);
            value.is_none()
        },
        PATIENCE,
    );
    let commands = &state.log;
    value.unwrap_or_else(|| {
        panic!("{what}: not so within {PATIENCE:?}; commands so far: {commands:?}")
    })
}

fn open_to(shared: &Arc<Shared>, client: TcpStream, server: SocketAddr) {
    if shared.state.lock().silent {
        open(shared, client, None);
    } else if let Ok(server) = TcpStream::connect(server) {
        open(shared, client, Some(server));
    } else {
        // The server is down. A reset is the nearest to a refusal that is left after an accept.
        loopback::reset(&client);
    }
}
