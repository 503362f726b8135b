//! Sockets on the loopback interface: a port that lasts, an acceptor that can be ended, a reset.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr};
use rustix::net::{Shutdown, connect_unspec, shutdown};

/// A listener on a free port that stays free when the listener is closed: it lies below the range
/// from which the kernel takes ports for outgoing connections, so whoever stops and comes back on
/// the same port will find it.
pub fn listen() -> TcpListener {
    for _ in 0..1000 {
        let port = 10_000 + (random() % 22_000) as u16;
        if let Ok(listener) = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
    panic!("no free port on 127.0.0.1");
}

/// RST to the other side, at once.
pub fn reset(stream: &TcpStream) {
    // Linger 0 resets only when the last handle of the socket is closed, and another thread may
    // hold one; disconnecting does not wait for it. Both fail only on a connection that has ended.
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
    let _ = connect_unspec(stream);
}

/// The standard library's keys for hash maps are the one randomness that needs no package.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Hands every connection of a listener to a closure. When it is dropped the port is closed, and
/// the system refuses connections to it.
pub struct Acceptor {
    listener: Arc<TcpListener>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub fn start(
        listener: TcpListener,
        mut accepted: impl FnMut(TcpStream) + Send + 'static,
    ) -> Acceptor {
        let listener = Arc::new(listener);
        let ended = Arc::new(AtomicBool::new(false));
        let (own, told) = (Arc::clone(&listener), Arc::clone(&ended));
        let work = move || {
            while !told.load(Ordering::SeqCst) {
                own.accept()
                    .into_iter()
                    .for_each(|(stream, _)| accepted(stream));
            }
        };
        let thread = thread::Builder::new()
            .name(String::from("acceptor"))
            .spawn(work);
        let thread = Some(thread.expect("a thread that accepts connections"));
        Acceptor {
            listener,
            ended,
            thread,
        }
    }
}

impl Acceptor {
    /// From now on the system refuses connections. The port stays taken: on a free one the server
    /// of another test might answer where nobody is to be. [`listen_again`] undoes it.
    pub fn refuse(self) -> TcpListener {
        let listener = Arc::clone(&self.listener);
        // Sockets that all allow it may share an address as long as none of them listens.
        set_socket_reuseaddr(&*listener, false).expect("an option of a socket");
        drop(self);
        Arc::into_inner(listener).expect("its thread has ended")
    }
}

/// Lets connections come in again.
pub fn listen_again(listener: &TcpListener) {
    // The connections of before still have the address.
    set_socket_reuseaddr(listener, true).expect("an option of a socket");
    rustix::net::listen(listener, 128).expect("the port has been kept");
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Not a mere close: a process that another test is just starting holds a copy of every
        // descriptor until it executes, and the port would be open so long. This wakes the
        // thread as well.
        let _ = shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
