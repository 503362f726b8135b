//! A lock that goes from one thread of a client to the next in one step at the server.

mod heirs;
mod in_doubt;
mod in_time;
mod limits;
mod lost;
mod many;
mod predecessors;
mod refused;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use leasehold::{Client, Error, Lease, LeaseWatch, Lock, Token};

use crate::queue::{KEY, in_front, in_line, somebody_else};
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::waiting::Aside;
use crate::wire::take;

/// The command that hands a lock on: a script with the record as its key, and the counter if a
/// fence is to be drawn; the token that is given away and the one to set, and two times to live.
pub(crate) fn is_hand_over(words: &[String]) -> bool {
    is_script(words, &[("1", 8), ("2", 9)])
}

/// The command that gives a lock back, with its siblings or without.
pub(crate) fn is_release(words: &[String]) -> bool {
    is_script(words, &[("1", 5), ("3", 9)])
}

/// By the number of its keys and of all its words.
fn is_script(words: &[String], shapes: &[(&str, usize)]) -> bool {
    matches!(words[0].as_str(), "EVALSHA" | "EVAL")
        && shapes.contains(&(words[2].as_str(), words.len()))
}

pub(crate) fn hand_over() -> Matcher {
    Matcher::when(is_hand_over)
}

/// What one of them gives away and what it sets.
pub(crate) fn given_and_set(words: &[String]) -> (String, String) {
    let arguments = &words[3 + words[2].parse::<usize>().unwrap()..];
    (arguments[0].clone(), arguments[1].clone())
}

/// The hand-overs that were sent, oldest first, whatever became of them.
pub(crate) fn hand_overs(proxy: &Proxy) -> Vec<(String, String)> {
    let commands = proxy.commands();
    let hand_overs = commands.iter().filter(|words| is_hand_over(words));
    hand_overs.map(|words| given_and_set(words)).collect()
}

/// Whether a release with this token was sent.
pub(crate) fn is_released(proxy: &Proxy, token: &str) -> bool {
    let commands = proxy.commands();
    let mut releases = commands.iter().filter(|words| is_release(words));
    releases.any(|words| words.iter().any(|word| word == token))
}

pub(crate) fn with_or_without_fence(client: &Client, fenced: bool) -> Lock {
    let lock = client.lock(KEY);
    let lock = if fenced { lock.fenced() } else { lock };
    lock.build().unwrap()
}

/// A wait without an end of its own that matters.
pub(crate) fn waits_for(lock: &Lock) -> impl Fn() -> Lease + Send + Sync + 'static {
    let lock = lock.clone();
    move || take(&lock)
}

/// Two threads of a client, one of which has handed the lock on to the other, or is about to.
pub(crate) struct HandOver<T> {
    /// What the first one held.
    pub(crate) given: Token,
    pub(crate) watch: LeaseWatch,
    /// What came of its release.
    pub(crate) release: Aside<Result<(), Error>>,
    /// The token that the other one had ready.
    pub(crate) offered: String,
    pub(crate) heir: Aside<T>,
}

impl<T: Send + 'static> HandOver<T> {
    /// Returns when the command has come to the proxy, which `first` and `heir` use.
    #[track_caller]
    pub(crate) fn begin(
        server: &Server,
        proxy: &Proxy,
        first: &Lock,
        heir: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        let first = first.clone();
        Self::begin_with(server, proxy, move || take(&first), heir)
    }

    /// The same, with a first one that does more than to take the lock.
    #[track_caller]
    pub(crate) fn begin_with(
        server: &Server,
        proxy: &Proxy,
        first: impl Fn() -> Lease + Send + Sync + 'static,
        heir: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        let (first, heir) = (Arc::new(first), Arc::new(heir));
        // Whoever has held it for 10 ms does not hand it on, and the machine may be busy.
        for _ in 0..50 {
            let before = hand_overs(proxy).len();
            let holder = somebody_else(server);
            let (tell, told) = channel();
            let is_over = Arc::new(AtomicBool::new(false));
            let release = {
                let (first, is_over) = (Arc::clone(&first), Arc::clone(&is_over));
                in_front(server, move || {
                    let lease = first();
                    tell.send((lease.token().clone(), lease.watch())).unwrap();
                    let result = lease.release();
                    is_over.store(true, Ordering::SeqCst);
                    result
                })
            };
            let heir = {
                let heir = Arc::clone(&heir);
                in_line(move || heir())
            };
            holder.release().unwrap();
            let (given, watch) = told.recv_timeout(PATIENCE).unwrap();
            eventually("it is handed on or given back", PATIENCE, || {
                before < hand_overs(proxy).len() || is_over.load(Ordering::SeqCst)
            });
            if let Some((from, offered)) = hand_overs(proxy).get(before).cloned() {
                assert_eq!(from, given.expose());
                return Self {
                    given,
                    watch,
                    release,
                    offered,
                    heir,
                };
            }
            let _ = release.value();
            let _ = heir.value();
        }
        panic!("it is never handed on");
    }
}

/// The lease is what stands at the server.
#[track_caller]
pub(crate) fn assert_holds(server: &Server, lease: &Lease) {
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
    lease.check().unwrap();
}

/// Nobody holds the lock any more, long before a record would have run out by itself.
#[track_caller]
pub(crate) fn assert_is_given_back(server: &Server) {
    eventually("no record is left", PATIENCE, || server.get(KEY).is_none());
}
