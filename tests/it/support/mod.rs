//! What the integration tests share: private servers, networks that fail on demand, other
//! processes, the log, and waiting with a deadline.
//!
//! | room | for |
//! |---|---|
//! | `server` | a private `redis-server`: stopped, killed, restarted at will |
//! | `proxy` | the network before it: holds commands, drops replies, resets, swallows, trickles |
//! | `scripted` | a server that answers what no real one would, byte by byte |
//! | `monitor` | the commands that a server really ran |
//! | `scripts` | which of the crate's scripts a command calls |
//! | `children` | other processes, which are this test binary again |
//! | `terminal` | a pseudo-terminal with a program in front of it |
//! | `logs` | what was logged |
//! | `wait` | conditions and bounds |
//! | `selftest` | proves the above, and is the place to see each of them in use |

#![allow(
    unreachable_pub,
    clippy::expect_used,
    reason = "a test fails by panicking, and what tests share is public to them alone"
)]

pub mod children;
pub mod logs;

mod control;
mod loopback;
mod monitor;
mod process;
mod proxy;
mod resp;
mod scripted;
mod scripts;
mod selftest;
mod server;
#[cfg(feature = "cli")]
mod terminal;
mod wait;

pub use self::monitor::Monitor;
#[cfg(feature = "cli")]
pub use self::process::Process;
pub use self::proxy::{Faults, Held, Matcher, Proxy, RuleHandle};
pub use self::scripted::{Scripted, Step};
pub use self::scripts::Script;
pub use self::server::Server;
#[cfg(feature = "cli")]
pub use self::terminal::Terminal;
pub use self::wait::{PATIENCE, eventually, within};
