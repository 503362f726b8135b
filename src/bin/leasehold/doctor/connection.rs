//! A connection of the doctor's own, for what the library has no question for.
//!
//! As the library's links it owns its socket: the `redis` crate's `Connection` has timeouts per
//! read, and a server that trickles would hold a tired person up for as long as it liked.

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Parser, RedisError, Value};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::exit::{Code, Failure};

/// For connecting to all addresses of the host. The name lookup has no timeout but the system's.
const CONNECT: Duration = Duration::from_secs(2);

/// For all questions together.
const ALL: Duration = Duration::from_secs(5);

/// A socket takes no timeout of zero, and shorter ones are rounded up anyway.
const SHORTEST: Duration = Duration::from_millis(1);

pub(crate) struct Connection {
    socket: Timed,
    parser: Parser,
    place: String,
    user: String,
}

impl Connection {
    /// Connects and enters. `url` is one that the library has accepted.
    pub(crate) fn open(url: &str) -> Result<Self, Failure> {
        let info = parse(url)?;
        let place = place(info.addr());
        let socket = connect(info.addr(), Instant::now() + CONNECT)
            .map_err(|error| unavailable(format!("cannot connect to {place}: {error}")))?;
        let socket = Timed {
            socket,
            until: Instant::now() + ALL,
        };
        // Without a password nobody enters by a name; and it may be that a password was written
        // in the name's place.
        let settings = info.redis_settings();
        let user = settings.password().and(settings.username());
        let mut connection = Self {
            socket,
            parser: Parser::new(),
            place,
            user: user.unwrap_or("default").to_owned(),
        };
        connection.enter(&info)?;
        Ok(connection)
    }

    /// What the server is named by: no part of it is a secret.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// One question. A server's error is an answer too.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Value, Failure> {
        let answers = self.ask_all(&[words])?;
        Ok(answers.into_iter().next().unwrap_or(Value::Nil))
    }

    /// Many questions in one round trip, and as many answers.
    pub(crate) fn ask_all(&mut self, questions: &[&[&str]]) -> Result<Vec<Value>, Failure> {
        let mut packed = Vec::new();
        for words in questions {
            let mut command = redis::Cmd::new();
            command.arg(*words);
            packed.extend(command.get_packed_command());
        }
        self.socket
            .write_all(&packed)
            .map_err(|error| self.broken(&error.to_string()))?;
        let mut answers = Vec::with_capacity(questions.len());
        for _ in questions {
            let answer = self.parser.parse_value(&mut self.socket);
            answers.push(answer.map_err(|error| self.broken(&why(&error)))?);
        }
        Ok(answers)
    }

    fn enter(&mut self, info: &ConnectionInfo) -> Result<(), Failure> {
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let mut words = vec!["AUTH"];
            words.extend(settings.username());
            words.push(password);
            self.must("AUTH", &words)?;
        }
        if settings.db() != 0 {
            self.must("SELECT", &["SELECT", &settings.db().to_string()])?;
        }
        Ok(())
    }

    /// Of a refusal the code alone is told: a proxy may repeat what it was sent.
    fn must(&mut self, command: &str, words: &[&str]) -> Result<(), Failure> {
        if let Value::ServerError(error) = self.ask(words)? {
            let code: String = error.code().chars().take(16).collect();
            let place = &self.place;
            return Err(unavailable(format!("{place} refuses {command}: {code}")));
        }
        Ok(())
    }

    fn broken(&self, why: &str) -> Failure {
        unavailable(format!("{} stopped answering: {why}", self.place))
    }
}

/// What is no answer of Redis is not repeated: nobody knows what it holds.
fn why(error: &RedisError) -> String {
    if error.is_timeout() {
        io::Error::from(io::ErrorKind::TimedOut).to_string()
    } else if error.is_connection_dropped() {
        "the connection was closed".to_owned()
    } else if error.is_io_error() {
        error.to_string()
    } else {
        "what came is no answer of Redis".to_owned()
    }
}

fn unavailable(text: String) -> Failure {
    Failure::new(Code::UNAVAILABLE, text)
}

/// The message does not repeat the URL, for there may be a password in it.
fn parse(url: &str) -> Result<ConnectionInfo, Failure> {
    let info = url.trim().into_connection_info();
    info.map_err(|_| Failure::usage("the URL cannot be used"))
}

/// As the library's messages name it.
fn place(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        ConnectionAddr::Unix(path) => path.display().to_string(),
        other => other.to_string(),
    }
}

fn connect(address: &ConnectionAddr, until: Instant) -> io::Result<Socket> {
    match address {
        ConnectionAddr::Tcp(host, port) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            let candidates: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.collect();
            for (index, candidate) in candidates.iter().enumerate() {
                // An even share each, so that a silent address does not cost the others theirs.
                let share = u32::try_from(candidates.len() - index).unwrap_or(u32::MAX);
                let socket = Socket::new(Domain::for_address(*candidate), Type::STREAM, None)?;
                let timeout = (left(until)? / share).max(SHORTEST);
                match socket.connect_timeout(&SockAddr::from(*candidate), timeout) {
                    Ok(()) => {
                        socket.set_tcp_nodelay(true)?;
                        return Ok(socket);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
        ConnectionAddr::Unix(path) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // It bounds the wait for a place in the listener's queue, too.
            socket.set_write_timeout(Some(left(until)?))?;
            socket.connect(&SockAddr::unix(path)?)?;
            Ok(socket)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left < SHORTEST {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// A socket with one deadline for all that is read and written.
struct Timed {
    socket: Socket,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(left(self.until)?))?;
        timed(self.socket.read(buffer))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(left(self.until)?))?;
        timed(self.socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The system says "would block" where a timeout was meant, and nobody would understand it.
fn timed(result: io::Result<usize>) -> io::Result<usize> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}
