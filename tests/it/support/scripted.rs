//! A server that answers byte by byte as a test's script says, for what a real one never does.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::loopback::{self, Acceptor};
use super::resp::{self, bulk};
use super::wait::PATIENCE;

/// What the server does with a command.
pub enum Step {
    /// These bytes are written at once.
    Reply(Vec<u8>),
    /// Each piece is written by itself, with a pause before each but the first.
    Pieces(Vec<Vec<u8>>, Duration),
    /// What a healthy Redis answers to the commands by which a connection is opened and looked
    /// after; an error to all others.
    Healthy,
    /// No reply; the connection stays open and the next command is read.
    Nothing,
    /// The connection ends in order.
    Close,
    /// The connection ends with RST.
    Reset,
    /// No reply, and nothing is read any more: the client's writes come to a halt when the
    /// buffers are full.
    StopReading,
}

impl Step {
    pub fn reply(bytes: &str) -> Step {
        Step::Reply(bytes.as_bytes().to_vec())
    }

    /// One piece for each byte.
    pub fn trickle(bytes: &str, pause: Duration) -> Step {
        Step::Pieces(bytes.bytes().map(|byte| vec![byte]).collect(), pause)
    }

    /// Two pieces, cut at `at`.
    pub fn split(bytes: &str, at: usize, pause: Duration) -> Step {
        let (head, tail) = bytes.as_bytes().split_at(at);
        Step::Pieces(vec![head.to_vec(), tail.to_vec()], pause)
    }
}

/// Listens on a port of 127.0.0.1 and asks the script about each whole command.
///
/// ```ignore
/// let server = Scripted::start(|_connection, command| match command[0].as_str() {
///     "SET" => Step::split("+OK\r\n", 2, Duration::from_millis(5)),
///     _ => Step::Healthy,
/// });
/// let client = Client::open(&server.url())?;
/// ```
pub struct Scripted {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<Acceptor>,
}

type Script = dyn Fn(usize, &[String]) -> Step + Send + Sync;

struct Shared {
    script: Box<Script>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    commands: Vec<Vec<String>>,
    connections: Vec<Arc<TcpStream>>,
    closing: bool,
}

impl Scripted {
    /// The script is given the connection's number, counted from 1, and the command's words.
    pub fn start(script: impl Fn(usize, &[String]) -> Step + Send + Sync + 'static) -> Scripted {
        let listener = loopback::listen();
        // Inherited by the accepted sockets: a client that is not read soon fills a small window.
        set_socket_recv_buffer_size(&listener, 4096).expect("a small receive buffer");
        let address = listener.local_addr().expect("a listener has an address");
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared {
            script: Box::new(script),
            state,
            changed,
        });
        let own = Arc::clone(&shared);
        let acceptor = Acceptor::start(listener, move |stream| open(&own, stream));
        Scripted {
            shared,
            address,
            acceptor: Some(acceptor),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// All whole commands, oldest first.
    pub fn commands(&self) -> Vec<Vec<String>> {
        self.shared.state.lock().commands.clone()
    }

    /// How many of them begin with `name`.
    pub fn count(&self, name: &str) -> usize {
        self.shared.state.lock().count(name)
    }

    /// Returns when `wanted` of them have come.
    #[track_caller]
    pub fn wait_for(&self, name: &str, wanted: usize) {
        let mut state = self.shared.state.lock();
        let waiting = |state: &mut State| state.count(name) < wanted;
        let late = self
            .shared
            .changed
            .wait_while_for(&mut state, waiting, PATIENCE);
        assert!(
            !late.timed_out(),
            "{wanted} × {name}: not so; commands: {:?}",
            state.commands
        );
    }

    /// How many connections have been accepted.
    pub fn connections(&self) -> usize {
        self.shared.state.lock().connections.len()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.acceptor.take();
        let mut state = self.shared.state.lock();
        state.closing = true;
        for stream in &state.connections {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
    }
}

impl State {
    fn count(&self, name: &str) -> usize {
        self.commands
            .iter()
            .filter(|command| resp::begins_with(command, name))
            .count()
    }
}

fn open(shared: &Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let mut state = shared.state.lock();
    state.connections.push(Arc::clone(&stream));
    let (number, shared) = (state.connections.len(), Arc::clone(shared));
    let work = move || serve(&shared, number, &stream);
    thread::Builder::new()
        .name(String::from("scripted"))
        .spawn(work)
        .expect("a thread for the connection");
}

fn serve(shared: &Shared, number: usize, mut stream: &TcpStream) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(count @ 1..) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
        }
        while let Some((words, length)) = resp::command(&bytes) {
            bytes.drain(..length);
            if !obey(shared, number, stream, &resp::text(&words)) {
                return;
            }
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

/// Returns whether the connection is read on.
fn obey(shared: &Shared, number: usize, stream: &TcpStream, words: &[String]) -> bool {
    shared.state.lock().commands.push(words.to_vec());
    shared.changed.notify_all();
    match (shared.script)(number, words) {
        Step::Reply(bytes) => write(shared, stream, &[bytes], Duration::ZERO),
        Step::Pieces(pieces, pause) => write(shared, stream, &pieces, pause),
        Step::Healthy => write(
            shared,
            stream,
            &[healthy(number, stream, words)],
            Duration::ZERO,
        ),
        Step::Nothing => true,
        Step::Close => {
            let _ = stream.shutdown(Shutdown::Both);
            false
        }
        Step::Reset => {
            loopback::reset(stream);
            false
        }
        // The list of connections keeps the socket open.
        Step::StopReading => false,
    }
}

fn write(shared: &Shared, mut stream: &TcpStream, pieces: &[Vec<u8>], pause: Duration) -> bool {
    for (index, piece) in pieces.iter().enumerate() {
        let deadline = Instant::now() + pause;
        let mut state = shared.state.lock();
        while index > 0
            && !state.closing
            && !shared.changed.wait_until(&mut state, deadline).timed_out()
        {}
        drop(state);
        if stream.write_all(piece).is_err() {
            return false;
        }
    }
    true
}

fn healthy(number: usize, stream: &TcpStream, words: &[String]) -> Vec<u8> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let (name, sub) = (word(0).to_ascii_uppercase(), word(1).to_ascii_uppercase());
    match (name.as_str(), sub.as_str()) {
        ("AUTH" | "SELECT", _) | ("CLIENT", "SETINFO" | "SETNAME") => b"+OK\r\n".to_vec(),
        ("PING", _) => b"+PONG\r\n".to_vec(),
        ("HELLO", version) => {
            let fields = if version == "3" { "%7\r\n" } else { "*14\r\n" };
            let proto = if version == "3" { 3 } else { 2 };
            format!(
                "{fields}$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n\
                 $5\r\nproto\r\n:{proto}\r\n$2\r\nid\r\n:{number}\r\n$4\r\nmode\r\n\
                 $10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
            )
            .into_bytes()
        }
        ("CLIENT", "ID") => format!(":{number}\r\n").into_bytes(),
        ("CLIENT", "KILL") => b":1\r\n".to_vec(),
        ("CLIENT", "INFO") => {
            let address =
                |side: std::io::Result<SocketAddr>| side.map_or(String::new(), |a| a.to_string());
            let (peer, own) = (address(stream.peer_addr()), address(stream.local_addr()));
            bulk(&format!(
                "id={number} addr={peer} laddr={own} fd=8 name= db=0 user=default resp=2\n"
            ))
        }
        ("SCRIPT", "LOAD") => bulk(redis::Script::new(word(2)).get_hash()),
        ("ROLE", _) => b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_vec(),
        _ => format!("-ERR the script has no answer to {name}\r\n").into_bytes(),
    }
}
