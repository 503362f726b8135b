//! The tests' own connection to a server, not the client that is being tested.
//!
//! It comes from 127.0.0.2, an address of the loopback interface that nobody else uses here, so
//! that `MONITOR` and `CLIENT LIST` tell it from the tested client.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use redis::{Parser, Value};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::resp;

/// The source address, as it stands in the server's lists.
pub const ADDRESS: &str = "127.0.0.2:";

pub struct Control {
    pub stream: TcpStream,
    parser: Parser,
}

impl Control {
    pub fn connect(server: SocketAddr, password: Option<&str>) -> std::io::Result<Control> {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // A test that asks every millisecond would have used up the address's ports, each of which
        // is kept for a minute after an orderly end.
        set_socket_linger(&socket, Some(Duration::ZERO))?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)))?;
        connect(&socket, &server)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        let mut control = Control {
            stream,
            parser: Parser::new(),
        };
        if let Some(password) = password {
            control
                .call(&["AUTH", password])
                .map_err(std::io::Error::other)?;
        }
        Ok(control)
    }

    /// One command and its reply; an error of the server or of the line is `Err`, as text.
    pub fn call(&mut self, command: &[&str]) -> Result<Value, String> {
        self.stream
            .write_all(&resp::pack(command))
            .map_err(|error| error.to_string())?;
        match self.parser.parse_value(&self.stream) {
            Ok(Value::ServerError(error)) => Err(format!(
                "{} {}",
                error.code(),
                error.details().unwrap_or_default()
            )),
            Ok(value) => Ok(value),
            Err(error) => Err(error.to_string()),
        }
    }
}
