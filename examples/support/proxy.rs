//! A TCP proxy that can lose what passes through it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Which way a piece of the conversation goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// Starts a proxy in front of the server at `url` and returns the URL to use instead.
///
/// Every piece that passes is shown to `lets_through`; what it says no to is lost, and the
/// connection stays open. The proxy's threads end with the process.
pub(crate) fn start(
    url: &str,
    lets_through: impl Fn(Way, &str) -> bool + Send + Sync + 'static,
) -> io::Result<String> {
    let not_tcp = || io::Error::other("a proxy can only stand before redis://host:port");
    let (before, address, behind) = parts(url).ok_or_else(not_tcp)?;
    let server = match address.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => address.to_owned(),
        _ => format!("{address}:6379"),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let instead = format!("{before}{}{behind}", listener.local_addr()?);
    let lets_through = Arc::new(lets_through);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A connection that cannot be made is closed, as by a server that is not there.
            let _ = join(client, &server, &lets_through);
        }
    });
    Ok(instead)
}

fn join<F>(client: TcpStream, server: &str, lets_through: &Arc<F>) -> io::Result<()>
where
    F: Fn(Way, &str) -> bool + Send + Sync + 'static,
{
    let server = TcpStream::connect(server)?;
    for (from, to, way) in [
        (client.try_clone()?, server.try_clone()?, Way::ToServer),
        (server, client, Way::ToClient),
    ] {
        let lets_through = Arc::clone(lets_through);
        thread::spawn(move || {
            // However it ends, the other side is told by the end of its stream.
            let _ = carry(&from, &to, |text| lets_through(way, text));
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

fn carry(
    mut from: &TcpStream,
    mut to: &TcpStream,
    lets_through: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let piece = &buffer[..length];
        if lets_through(&String::from_utf8_lossy(piece)) {
            to.write_all(piece)?;
        }
    }
}

/// A URL's text before the host, its host with port, and the rest.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let scheme = ["redis://", "valkey://"]
        .into_iter()
        .find(|scheme| url.starts_with(scheme))?;
    let end = url[scheme.len()..]
        .find(['/', '?'])
        .map_or(url.len(), |at| scheme.len() + at);
    let start = url[..end].rfind('@').map_or(scheme.len(), |at| at + 1);
    Some((&url[..start], &url[start..end], &url[end..]))
}
