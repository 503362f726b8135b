//! A blocking socket and what goes over it, with nothing of a client around it.
//!
//! `socket2` and not the types of std: it makes the same system calls as the library does.
//! `write` on a unix socket, which std uses, takes longer than `send`.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use redis::Value;
use socket2::{Domain, SockAddr, Socket, Type};

/// `redis://host:port` or `unix:///path`; there is no password and no database here.
pub(super) fn connect(url: &str) -> io::Result<Socket> {
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

pub(super) fn pack(command: &[&str]) -> Vec<u8> {
    redis::Cmd::new().arg(command).get_packed_command()
}

pub(super) fn call(mut socket: &Socket, command: &[&str]) -> io::Result<Value> {
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

/// One command or several in one write, and the replies that there must be, byte for byte.
pub(super) fn exchange(socket: &Socket, command: &[u8], expected: &[u8]) {
    exchange_into(socket, command, expected, &mut [0; 64]);
}

/// As [`exchange`], for replies longer than a few words: `reply` has room for more than them.
pub(super) fn exchange_into(
    mut socket: &Socket,
    command: &[u8],
    expected: &[u8],
    reply: &mut [u8],
) {
    socket
        .write_all(command)
        .expect("the server takes a command");
    let mut length = 0;
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
