//! What the integration tests share: private servers, networks that fail on demand, other
//! processes, the log, and waiting with a deadline.
//!
//! | room | for |
//! |---|---|
//! | `server` | a private `redis-server`: stopped, killed, restarted at will |
//! | `proxy` | the network before it: holds commands, drops replies, resets, swallows, trickles |
//! | `scripted` | a server that answers what no real one would, byte by byte |
//! | `monitor` | the commands that a server really ran |
//! | `children` | other processes, which are this test binary again |
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
mod selftest;
mod server;
mod wait;

pub use self::monitor::Monitor;
pub use self::proxy::{Faults, Held, Matcher, Proxy, RuleHandle};
pub use self::scripted::{Scripted, Step};
pub use self::server::Server;
pub use self::wait::{PATIENCE, eventually, within};
