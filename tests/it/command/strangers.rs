//! Other processes of the machine, which can reach the socket between leasehold's own.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use super::{FOREVER, Running, assert_nothing_is_left, run};
use crate::support::{PATIENCE, Server, eventually};

/// The socket that a process listens at, by its number in the list of all.
fn socket_of(id: u32) -> Option<String> {
    let list = fs::read_to_string("/proc/net/unix").ok()?;
    let sockets = list.lines().filter(|line| line.contains("@leasehold-"));
    let sockets = sockets.collect::<Vec<_>>();
    if sockets.is_empty() {
        return None;
    }
    let files = fs::read_dir(format!("/proc/{id}/fd")).ok()?;
    let links = files.flatten().map(|file| fs::read_link(file.path()));
    let links = links.flatten().collect::<Vec<_>>();
    sockets.into_iter().find_map(|line| {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let link = format!("socket:[{}]", words[6]);
        let name = words[7].strip_prefix('@')?;
        let is_its = links.iter().any(|other| other.as_os_str() == link.as_str());
        is_its.then(|| name.to_owned())
    })
}

#[test]
fn one_who_comes_before_the_process_between_is_not_taken_for_it() {
    let server = Server::start();
    let mut came = 0;
    for _ in 0..10 {
        let mut running = Running::start(&mut run(&server, &[], FOREVER));
        let id = running.process.id();
        let mut stranger = None;
        eventually("it has a socket", PATIENCE, || {
            let Some(name) = socket_of(id) else {
                // It may have been missed.
                return !super::children(id).is_empty();
            };
            let address = SocketAddr::from_abstract_name(name).unwrap();
            stranger = UnixStream::connect_addr(&address).ok();
            true
        });
        came += usize::from(stranger.is_some());
        assert_eq!(running.line(), "tail");
        running.process.signal(rustix::process::Signal::TERM);
        assert_eq!(running.end().code, Some(128 + 15));
        assert_nothing_is_left(&server);
    }
    assert!(0 < came, "none ever came in time");
}
