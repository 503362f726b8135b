//! The same two commands on a bare blocking socket: what a cycle costs if nothing but the
//! exchange itself is done.
//!
//! It draws a fresh token for each cycle from the same source, sends the same bytes with the
//! same time to live, and compares each reply with the one that it must be. It has no
//! timeout, no clock, no pool, and ends the bench at the first thing out of the ordinary.
//!
//! `socket2` and not the types of std: it makes the same system calls as the library does.
//! `write` on a unix socket, which std uses, takes longer than `send`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::Value;
use socket2::{Domain, SockAddr, Socket, Type};

/// The default of a lock, so that both sides send the same.
const TTL_MILLIS: &str = "30000";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const DIGITS: usize = 40;
const PLACEHOLDER: &str = "0000000000000000000000000000000000000000";

/// Where a token comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// Fresh for each cycle, as a lock needs it.
    Fresh,
    /// One for all cycles. No lock: it shows what the randomness costs.
    Constant,
}

pub(crate) struct Bare {
    socket: Socket,
    token: Token,
    acquire: Packed,
    release: Packed,
}

impl Bare {
    /// `redis://host:port` or `unix:///path`; there is no password and no database here.
    pub(crate) fn connect(url: &str, key: &str, token: Token) -> io::Result<Self> {
        let socket = connect(url)?;
        let code = include_str!("../../lua/release.lua");
        let Value::BulkString(digest) = call(&socket, &["SCRIPT", "LOAD", code])? else {
            return Err(io::Error::other(
                "SCRIPT LOAD was not answered with a digest",
            ));
        };
        let digest = String::from_utf8_lossy(&digest).into_owned();
        Ok(Self {
            socket,
            token,
            acquire: Packed::new(&["SET", key, PLACEHOLDER, "NX", "PX", TTL_MILLIS]),
            release: Packed::new(&["EVALSHA", &digest, "1", key, PLACEHOLDER]),
        })
    }

    /// Gives the socket the timeouts that a client cannot do without.
    pub(crate) fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(timeout))?;
        self.socket.set_write_timeout(Some(timeout))
    }

    /// A line of `INFO server`.
    pub(crate) fn info(&self, name: &str) -> io::Result<String> {
        let reply = call(&self.socket, &["INFO", "server"])?;
        let Value::BulkString(text) = reply else {
            return Err(io::Error::other("INFO was not answered with a text"));
        };
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(field, _)| *field == name);
        Ok(found.map_or_else(|| "?".to_owned(), |(_, value)| value.to_owned()))
    }

    /// One round trip that touches no key.
    pub(crate) fn ping(&self) {
        exchange(&self.socket, PING, b"+PONG\r\n");
    }

    pub(crate) fn cycle(&mut self) {
        if self.token == Token::Fresh {
            let token = fresh_token();
            self.acquire.insert(&token);
            self.release.insert(&token);
        }
        exchange(&self.socket, &self.acquire.bytes, b"+OK\r\n");
        exchange(&self.socket, &self.release.bytes, b":1\r\n");
    }
}

fn fresh_token() -> [u8; DIGITS] {
    let mut random = [0; DIGITS / 2];
    getrandom::fill(&mut random).expect("the system has randomness");
    let mut token = [0; DIGITS];
    for (digits, byte) in token.chunks_exact_mut(2).zip(random) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 0xf)];
    }
    token
}

/// A command packed once, with the place where its token goes.
struct Packed {
    bytes: Vec<u8>,
    token_at: usize,
}

impl Packed {
    fn new(command: &[&str]) -> Self {
        let bytes = pack(command);
        let token_at = bytes
            .windows(DIGITS)
            .position(|window| window == PLACEHOLDER.as_bytes())
            .expect("the command has a token");
        Self { bytes, token_at }
    }

    fn insert(&mut self, token: &[u8; DIGITS]) {
        self.bytes[self.token_at..self.token_at + DIGITS].copy_from_slice(token);
    }
}

fn pack(command: &[&str]) -> Vec<u8> {
    redis::Cmd::new().arg(command).get_packed_command()
}

fn connect(url: &str) -> io::Result<Socket> {
    #[cfg(unix)]
    if let Some(path) = url.strip_prefix("unix://") {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        return Ok(socket);
    }
    let place = url
        .strip_prefix("redis://")
        .map(|place| place.trim_end_matches('/'))
        .filter(|place| place.contains(':') && !place.contains(['@', '/']))
        .ok_or_else(|| {
            io::Error::other("the bare socket speaks redis://host:port and unix:///path")
        })?;
    let socket = Socket::from(TcpStream::connect(place)?);
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn call(mut socket: &Socket, command: &[&str]) -> io::Result<Value> {
    socket.write_all(&pack(command))?;
    let (mut reply, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => reply.extend_from_slice(&piece[..count]),
        }
        if let Ok(value) = redis::parse_redis_value(&reply) {
            return Ok(value);
        }
    }
}

fn exchange(mut socket: &Socket, command: &[u8], expected: &[u8]) {
    socket
        .write_all(command)
        .expect("the server takes a command");
    let (mut reply, mut length) = ([0; 64], 0);
    while length < expected.len() {
        match socket.read(&mut reply[length..]) {
            Ok(count) if 0 < count => length += count,
            other => panic!("the server does not answer: {other:?}"),
        }
    }
    let reply = &reply[..length];
    assert!(
        reply == expected,
        "unexpected reply: {}",
        String::from_utf8_lossy(reply)
    );
}
