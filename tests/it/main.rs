//! The integration tests, as one binary. Each test starts the servers it needs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test says that it failed by panicking"
)]
#![allow(
    clippy::print_stdout,
    reason = "what a test prints is shown when it fails"
)]

mod adopt;
mod bad_input;
mod children;
mod combining;
#[cfg(feature = "cli")]
mod command;
mod contention;
mod danger;
mod doubts;
mod fences;
mod forked;
mod handed;
mod links;
mod loggers;
mod lost;
mod max_hold;
mod memory;
mod queue;
mod reaper;
mod renewal;
mod replica;
mod support;
mod threads;
mod tidy;
mod unknown_acquire;
mod unknown_release;
mod waiting;
mod wake;
mod watch;
mod wire;
