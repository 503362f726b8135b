//! A server on a port of its own, each of whose connections is a script in plain code.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use socket2::SockRef;

use super::{Shape, eventually};
use crate::server::scripts;

/// `CLIENT INFO`, two sections of `INFO`, and the scripts.
fn handshake_len() -> usize {
    3 + scripts::all().len()
}

pub(super) struct Peer {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The numbers that have arrived, oldest first.
    heard: Mutex<Vec<u32>>,
    lines: Mutex<Vec<JoinHandle<()>>>,
    ended: AtomicBool,
}

impl Peer {
    /// The script is run for each connection, on a thread of its own.
    pub(super) fn start(script: impl Fn(Line) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // Inherited by the accepted sockets: a client that is not read soon fills a small window.
        SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
        let address = listener.local_addr().unwrap();
        let (shared, script) = (Arc::<Shared>::default(), Arc::new(script));
        let own = Arc::clone(&shared);
        let acceptor = thread::spawn(move || {
            for (number, stream) in (1..).zip(listener.incoming()) {
                if own.ended.load(Ordering::SeqCst) {
                    return;
                }
                let line = Line {
                    number,
                    stream: stream.unwrap(),
                    bytes: Vec::new(),
                    to_greet: handshake_len(),
                    shared: Arc::clone(&own),
                };
                let _ = line.stream.set_nodelay(true);
                let script = Arc::clone(&script);
                own.lines.lock().push(thread::spawn(move || script(line)));
            }
        });
        Self {
            shared,
            address,
            acceptor: Some(acceptor),
        }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// How many connections have been accepted.
    pub(super) fn connections(&self) -> usize {
        self.shared.lines.lock().len()
    }

    /// The numbers that have arrived, oldest first.
    pub(super) fn heard(&self) -> Vec<u32> {
        self.shared.heard.lock().clone()
    }

    #[track_caller]
    pub(super) fn wait_for(&self, number: u32) {
        eventually("it arrives", || self.heard().contains(&number));
    }

    /// Waits until everything that was sent has been read, which takes the client to have closed
    /// its connections; then tells what it was.
    #[track_caller]
    pub(super) fn end(mut self) -> Vec<u32> {
        self.stop_accepting();
        let lines = std::mem::take(&mut *self.shared.lines.lock());
        eventually("the connections end", || {
            lines.iter().all(JoinHandle::is_finished)
        });
        self.heard()
    }

    fn stop_accepting(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            self.shared.ended.store(true, Ordering::SeqCst);
            // It is waiting in `accept`.
            let _ = TcpStream::connect(self.address);
            let _ = acceptor.join();
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop_accepting();
    }
}

/// One connection.
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: usize,
    stream: TcpStream,
    bytes: Vec<u8>,
    /// How many commands of the opening are still to come.
    to_greet: usize,
    shared: Arc<Shared>,
}

impl Line {
    /// The next whole command, those of the opening aside, which are answered here; `None` at the
    /// end of the connection.
    pub(super) fn hear(&mut self) -> Option<Vec<String>> {
        loop {
            let words = match self.at_hand() {
                Some(words) => words,
                None => {
                    self.receive()?;
                    continue;
                }
            };
            if 0 < self.to_greet {
                self.to_greet -= 1;
                let greeting = self.greeting(&words);
                self.say(&greeting);
                continue;
            }
            return Some(words);
        }
    }

    /// A command that has come in already, whole.
    pub(super) fn at_hand(&mut self) -> Option<Vec<String>> {
        let (words, length) = command(&self.bytes)?;
        self.bytes.drain(..length);
        if let Some(number) = number_of(&words) {
            self.shared.heard.lock().push(number);
        }
        Some(words)
    }

    /// Whether the opening is over.
    pub(super) const fn is_open(&self) -> bool {
        self.to_greet == 0
    }

    fn receive(&mut self) -> Option<()> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(count @ 1..) => self.bytes.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
        Some(())
    }

    pub(super) fn say(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Answers every command until the client ends the connection.
    pub(super) fn serve(&mut self) {
        while let Some(words) = self.hear() {
            self.say(&reply_to(&words));
        }
    }

    /// Says no more. What the client has sent and will send is read all the same.
    pub(super) fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.drain();
    }

    /// Reads what comes and answers nothing.
    pub(super) fn drain(&mut self) {
        while self.hear().is_some() {}
    }

    /// Ends the connection with RST.
    pub(super) fn reset(self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
    }

    fn greeting(&self, words: &[String]) -> Vec<u8> {
        let peer = self
            .stream
            .peer_addr()
            .map_or_else(|_| String::new(), |addr| addr.to_string());
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["CLIENT", "INFO"] => bulk(&format!("id={} addr={peer} laddr=x fd=8", self.number)),
            ["INFO", "server"] => bulk("run_id:run\r\n"),
            ["INFO", "replication"] => bulk("master_replid:history\r\n"),
            _ => reply_to(words),
        }
    }
}

/// The number in a command of a test.
pub(super) fn number_of(words: &[String]) -> Option<u32> {
    let subjects = [Shape::Echo, Shape::Count, Shape::Set, Shape::Panic].map(Shape::subject);
    let (name, number) = (words.first()?, words.get(1)?);
    subjects
        .contains(&name.as_str())
        .then(|| number.parse().ok())?
}

/// What a server in good health answers.
pub(super) fn reply_to(words: &[String]) -> Vec<u8> {
    let number = words.get(1).map_or("", String::as_str);
    match words[0].as_str() {
        "ECHO" => bulk(number),
        "COUNT" => format!(":{number}\r\n").into_bytes(),
        "ROLE" => b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_vec(),
        "SCRIPT" => bulk("a digest"),
        _ => b"+OK\r\n".to_vec(),
    }
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// The first whole command in `bytes`, and its length.
fn command(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |at: usize| {
        let rest = bytes.get(at..)?;
        let length = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(rest.get(1..length)?).ok()?;
        Some((number.parse::<usize>().ok()?, at + length + 2))
    };
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, start) = line(at)?;
        at = start + length + 2;
        // With its end: a command is whole with that, and not before.
        let word = bytes.get(start..at)?.get(..length)?;
        words.push(String::from_utf8_lossy(word).into_owned());
    }
    Some((words, at))
}
