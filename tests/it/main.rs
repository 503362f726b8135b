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
mod contention;
mod doubts;
mod fences;
mod forked;
mod links;
mod lost;
mod memory;
mod replica;
mod support;
mod tidy;
mod unknown_acquire;
mod unknown_release;
mod waiting;
mod watch;
mod wire;
