//! A lease lock on Redis for plain blocking code: taken in one command, renewed in the
//! background, released only with its own token, and its holder told before it can run out.
//!
//! # What it cannot do
//!
//! * **A lease does not stop a late writer.** A holder that is paused for longer than its
//!   lease (a stopped process, a suspended machine, a slow disk) still writes afterwards.
//!   Give every write the [fence](Lease::fence), and let the resource refuse older ones.
//! * **One Redis primary can lose a lock at failover**, because replication is
//!   asynchronous. Where two holders must never exist, the resource checks a fence, or
//!   etcd, ZooKeeper or Consul is the right tool.
//! * **Redis expires keys by its wall clock**: a step of that clock, or an eviction policy
//!   other than `noeviction`, can free a lock early.
//!
//! # In a few lines
//!
//! ```no_run
//! use std::time::Duration;
//! use leasehold::Client;
//!
//! fn main() -> Result<(), leasehold::Error> {
//!     let client = Client::open("redis://127.0.0.1:6379")?;          // no I/O yet
//!     let lock = client.lock("order:123").ttl(Duration::from_secs(30)).build()?;
//!
//!     let lease = lock.acquire_timeout(Duration::from_secs(5))?;     // renewed in the background
//!     lease.check()?;                                   // before each side effect: no I/O
//!     // … the work …
//!     lease.release()                                   // or drop it
//! }
//! ```
//!
//! # The types, and how they meet
//!
//! A [`Client`] stands for a server and the few links to it; make one and share it. Its
//! [`lock`](Client::lock) gives a [`LockBuilder`], whose [`build`](LockBuilder::build)
//! checks the options and gives a [`Lock`]: a name plus options, holding nothing. Its
//! `acquire` family gives a [`Lease`], the guard. [`Lease::watch`] gives worker threads a
//! [`LeaseWatch`]; [`LockBuilder::on_danger`] and [`LockBuilder::on_lost`] are told [`Danger`] and
//! [`Loss`]. A [`Canceller`] ends a wait from another thread, a [`FenceGate`] checks
//! fences in this process, and [`Error`] tells apart what must not be mixed up.
//!
//! | word | meaning |
//! |---|---|
//! | lock | a name on a server plus options; holds nothing by itself |
//! | lease | one acquisition of a lock: a guard, released on drop |
//! | token | the value that proves which acquisition owns the record; fresh for each |
//! | validity, deadline | how long, and until when, the holder may rely on the lease by its own clock |
//! | danger zone | the last stretch before the deadline: no renewal has been confirmed for too long, and no new side effect should start |
//! | lost | the deadline passed, or the server proved that the record is no longer ours; final |
//! | unknown | a command was sent whole and no reply came |
//! | fence | a number that only grows from one holder of a key to the next |
//!
//! # What it promises
//!
//! * One command takes the lock (`SET key token NX PX ttl`); nothing can leave a lock
//!   without an expiry. The record is exactly your key, so that every client that follows
//!   the [documented pattern](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)
//!   shares the lock.
//! * Each acquisition has its own token from the operating system's randomness. Only that
//!   token renews or releases the lock, compared and applied in one step on the server.
//!   No unconditional `DEL` or `PEXPIRE` is ever sent, and nothing re-creates a lock that
//!   has gone.
//! * The holder's deadline is earlier than the server's expiry: it counts from *before* the
//!   command was sent, less 1 % and 2 ms, and on Linux by a clock that runs during suspend.
//! * The danger callback comes on time if Redis hangs, the network drops every packet, other
//!   callbacks block (fewer than 64 at once) or one panics. [`Lease::check`] and [`LeaseWatch`]
//!   are right at every moment without any callback.
//! * A reply that never came is *unknown*, never guessed. The link it was due on is fenced
//!   off (`CLIENT KILL` by id and address, which answers 1, or 0 from the same run of the
//!   server), so that the command can no longer run, and the server is asked with the token.
//!   What cannot be settled is reported as [`is_unknown`](Error::is_unknown).
//! * "Not yours" is believed only from a server that says it is a primary. Where the user may
//!   not ask for its `ROLE`, a renewal and a [`verify`](Lease::verify) believe it all the
//!   same, since a holder who stops for nothing does no harm; a release says unknown.
//!
//! # Waiting
//!
//! Threads of one client that want the same key wait in memory, first come, first served. The one in
//! front speaks to the server for all of them, and only while this client does not hold the key
//! itself. A release with a neighbour behind it sets the neighbour's record in the same step:
//! compare, then set *his* fresh token, with his ttl and his fence. That goes on for at most 16 times
//! and at most 10 ms, since it is at the price of other processes; then the lock is given back for
//! all, this client's next waits behind the others, and once a second it leaves a pause of 75 to
//! 150 ms to clients that poll. (A client that never lets go starves those who poll completely, as
//! measured: 1 of 12,380 acquisitions in 10 s.)
//!
//! Between processes the waiter sets a flag, `KEY:leasehold:waiting`, and blocks in `BLPOP` on
//! `KEY:leasehold:wake`; a release that finds the flag pushes one element, so that one process wakes
//! and not a herd. A wake-up is a hint: whoever has it tries like anybody else. Nobody blocks longer
//! than a second, so that a wake-up that is lost with the process that was woken costs no more than
//! that. Each wait enters the server's queue at its end, so that after a second one who came later may
//! be served first; no more is promised across processes. Both siblings expire within three seconds of
//! the last waiter.
//!
//! A waiting thread holds a link of its own for its key, at most
//! [`max_waiting_links`](ClientBuilder::max_waiting_links) in a client. Beyond that, and where
//! scripts, `BLPOP` or the siblings are refused, it polls with pauses of 1 to 50 ms; so it does while a
//! client of another kind holds the lock (its token does not look like one of ours), since that wakes
//! nobody. The last tenth of a second of a budget, and of a holder's expiry, is polled as well, because
//! servers answer `BLPOP` that much late.
//!
//! Who waits for a neighbour, in memory, does not hear of an outage before that neighbour lets go or
//! loses its lease: until then the lock *is* held.
//!
//! # Links
//!
//! All threads share a few connections, 8 at most, beside the one for renewals and those of waiting
//! threads. A caller that finds one idle, or may open one, has
//! it for itself, with no thread in between. Otherwise it stands in line, and whoever is given a link
//! sends all that has gathered in one system call and reads the replies for their owners. One that
//! gives up in line has sent nothing. Where a link breaks, the bytes that the socket has accepted
//! decide for each command what was *not sent*; the rest is unknown for its own caller, and one
//! fencing-off settles all of them.
//!
//! # Hazards
//!
//! ## A pause longer than the lease
//!
//! After it the lease is lost, and [`Lease::check`] says so, but whatever was already past
//! its check still runs. Keep side effects short against the danger margin, ask `check`
//! before each, and use fences where a late write does harm.
//!
//! ## Failover
//!
//! A replica that is promoted may not have the record yet: a second holder is then possible
//! until the first one's deadline. A demoted primary answers reads and comparisons without
//! an error; this crate asks for its `ROLE` before it believes that a record is gone.
//!
//! ## Eviction
//!
//! Under memory pressure every policy but `noeviction` deletes locks: of 100 locks,
//! `volatile-ttl` left none. Set `maxmemory-policy noeviction` on a server that keeps locks.
//!
//! ## Clock steps
//!
//! The server counts expiry by its wall clock: +60 s frees a 10 s lock at once, and −1 h
//! keeps it for an hour. Slewing faster than the 1 % allowance does the same more slowly
//! (chrony's default limit is above 8 %).
//!
//! ## `let _ =` drops a lease at once
//!
//! `let _ = lock.acquire()?;` releases the lock before the next line. Bind it to a name,
//! `let _lease = …` if need be; `#![deny(let_underscore_drop)]` makes the compiler refuse the
//! other. It does not catch `if lock.try_acquire()?.is_some() { … }` and `let Some(_) = … else`,
//! which release as early: write `if let Some(_lease) = lock.try_acquire()?`.
//!
//! ## `process::exit` and kills
//!
//! They run no destructors, and neither does a lease in a `static`: the record stands until
//! its ttl is over. A panic that unwinds does release; with `panic = "abort"` it does not.
//!
//! ## Shutting down
//!
//! Cancel the waits with a [`Canceller`], let the workers finish, release. What an unknown
//! outcome may have left behind is deleted in the background only as long as the client lives:
//! if [`Stats::unknown_unresolved`] has grown and somebody waits for those locks, keep the client
//! for a moment longer; else their records stand for a ttl at most.
//!
//! ## Fork
//!
//! In a forked child inherited handles are inert: a lease is not held there, neither
//! releases nor renews, and a client answers [`is_config`](Error::is_config). Open a client
//! in the child.
//!
//! POSIX allows little to the child of a process that has threads, and one thing is beyond this
//! crate: `parking_lot` keeps one table for the whole process, and a thread that is being parked
//! or woken at the very moment of the fork leaves it locked in the child, where a wait then never
//! ends (seen about once in 5,000 forks of a process that did nothing but take and give back
//! locks). Fork before you start threads, or `exec` in the child.
//!
//! ## Suspend, and virtual machines
//!
//! On Linux the clock of a lease runs during suspend. Elsewhere it may stand still in sleep,
//! and a virtual machine that was paused or restored may find that no clock of its own has
//! moved: [`Lease::verify`] asks the server, and fences settle it.
//!
//! ## Taking the same lock twice
//!
//! A [`Lock`] is not reentrant: a thread that holds it and acquires it again waits for
//! itself. So does a logger that takes the lock about which it is told.
//!
//! # Threads
//!
//! A client starts them when they are needed, and they are gone 2 s after its last lease, or at
//! once with the last handle: client, lock, lease, watch, and a callback that is running. One
//! that opens a link ends when its connect timeout is over, a name lookup excepted.
//!
//! | thread | from | does | never |
//! |---|---|---|---|
//! | `leasehold-renew` | the first renewed lease, or the first token to reap | renews every lease that is due, hundreds in a batch, over a link of its own, and deletes what unknown outcomes may have left behind | runs your code, looks up names, waits longer for one lease's reply than that lease's own patience |
//! | `leasehold-link` (two at most) | a link for renewals is to be opened | name lookup, connect, handshake | |
//! | `leasehold-watch` | the first lease with a callback | waits for the next danger or deadline | touches the network, runs your code |
//! | `leasehold-call` (up to 64) | the first with the first lease with a callback, one more when a callback finds none idle | runs callbacks | |
//!
//! A thread that cannot be started is an error of the acquisition, not a silence later on.
//!
//! # Rights
//!
//! The least that a user needs for keys under `order:` is
//! `~order:* +set +eval +evalsha +get +del +pexpire +pttl`; with fences `+time` too, and with
//! a database other than 0 `+select`. For wake-ups, `+blpop` lets this user's waiters be woken
//! and `+exists +lpush` let its releases wake others; without them waiters poll, or notice a
//! release within a second. The same goes for a user with a right to the lock's own key and none
//! to `KEY:leasehold:*`.
//!
//! Where allowed, `+script|load` saves bandwidth, `+client|info +client|kill +info` make the
//! barrier behind a lost reply possible, and `+role` lets a "not yours" be believed. Without them
//! more outcomes stay unknown, and without `+role` an [`adopt`](Lock::adopt) that comes too late
//! is [`is_unavailable`](Error::is_unavailable) where it would be `None`.
//!
//! # Logging
//!
//! Through the `log` facade. No line at any level contains a token or a password; tokens
//! are shown as fingerprints of eight digits.
//!
//! | target | level | what |
//! |---|---|---|
//! | `leasehold::acquire` | warn | no rights to wake and be woken, once a client; a server that is away, once a wait; an outcome that stays unknown; a lock that came too late and could not be given back; a holder without an expiry, once a wait |
//! | `leasehold::lease` | warn | a lease found lost, or in its danger zone for want of a renewal |
//! | `leasehold::renew` | warn, info, debug | no link for renewals, once an outage, and its end; a renewal that is refused, once a lease; other renewals that fail |
//! | `leasehold::reaper` | warn, debug | a token left to its expiry; what is reaped |
//! | `leasehold::callback` | error, warn | a callback that panicked; one that has to wait for a thread |
//! | `leasehold::release` | warn | a loss found at the release; what a drop could not return |
//! | `leasehold::link` | debug | links that broke, reconnects, refused handshake steps |
//!
//! # Minimum Rust version
//!
//! 1.88. It is checked by the declared versions of all dependencies and by clippy's
//! `incompatible_msrv`, not by a build with that compiler. A higher minimum is a minor
//! release.

pub use acquire::Canceller;
pub use client::{Client, ClientBuilder, Holder};
pub use error::Error;
pub use fence::{FenceGate, Stale};
pub use lease::{Lease, LeaseState, LeaseWatch};
pub use lock::{Lock, LockBuilder};
pub use notice::{Danger, DangerCause, Loss, LossCause};
pub use stats::Stats;
pub use token::Token;

#[macro_use]
mod said;

mod client;
mod lock;
mod notice;

mod lease;

mod acquire;
mod keep;
mod queue;
mod server;

mod backoff;
mod clock;
mod error;
mod fence;
mod fork;
mod stats;
mod threads;
mod token;

/// The README's code is compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
