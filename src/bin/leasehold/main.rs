//! `leasehold`: an old program, a cron job or a shell script under a lease.
//!
//! Built on the library's public face alone; only `doctor` opens a connection of its own.

// What a command line prints is its work.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(not(unix), allow(unused))]

#[cfg(unix)]
mod cli;
#[cfg(unix)]
mod dispatch;
#[cfg(unix)]
mod doctor;
#[cfg(unix)]
mod duration;
#[cfg(unix)]
mod exit;
#[cfg(unix)]
mod help;
#[cfg(unix)]
mod man;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod release;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod status;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    dispatch::main()
}

#[cfg(not(unix))]
fn main() {
    eprintln!("leasehold: the command needs process groups and signals, which are of unix");
    std::process::exit(64);
}
