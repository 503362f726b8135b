//! What `run` was asked for.

use std::ffi::OsString;
use std::time::Duration;

use clap::ArgMatches;

use crate::cli;
use crate::exit::Code;
use crate::output::{Level, say};

pub(super) struct Options {
    pub(super) level: Level,
    pub(super) key: String,
    pub(super) command: Vec<OsString>,
    pub(super) wait: Wait,
    pub(super) ttl: Duration,
    pub(super) danger: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) label: Option<String>,
    pub(super) fenced: bool,
    pub(super) export_token: bool,
    pub(super) busy: Code,
    pub(super) on_danger: OnDanger,
    pub(super) danger_exec: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Until(Duration),
    Forever,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDanger {
    Terminate,
    Stop,
    Nothing,
}

impl Options {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let ttl = cli::span(matches, "ttl").unwrap_or(Duration::from_secs(30));
        let max_hold = cli::span(matches, "max-hold");
        let wait = if matches.get_flag("wait-forever") {
            Wait::Forever
        } else {
            Wait::Until(cli::span(matches, "wait").unwrap_or(Duration::ZERO))
        };
        let command = matches.get_many::<OsString>("command");
        Self {
            level: cli::level(matches),
            key: cli::text(matches, "key").unwrap_or_default(),
            command: command.into_iter().flatten().cloned().collect(),
            wait,
            ttl,
            danger: cli::span(matches, "danger")
                .unwrap_or(max_hold.map_or(ttl, |most| most.min(ttl)) / 3),
            max_hold,
            label: match cli::text(matches, "label") {
                Some(label) => Some(label).filter(|label| !label.is_empty()),
                None => Some(here()),
            },
            fenced: matches.get_flag("fenced"),
            export_token: matches.get_flag("export-token"),
            busy: Code(matches.get_one("busy-code").copied().unwrap_or(Code::BUSY)),
            on_danger: match cli::text(matches, "on-danger").as_deref() {
                Some("stop") => OnDanger::Stop,
                Some("none") => OnDanger::Nothing,
                _ => OnDanger::Terminate,
            },
            danger_exec: cli::text(matches, "danger-exec"),
        }
    }

    /// Says what goes on to whoever asked for it.
    pub(super) fn tell(&self, text: std::fmt::Arguments<'_>) {
        if self.level == Level::Verbose {
            say(text);
        }
    }

    /// How long before the deadline the command is dead, whatever it does.
    pub(super) fn margin(&self) -> Duration {
        let most = Duration::from_secs(1);
        (self.danger / 2).clamp(Duration::from_millis(10), most)
    }
}

/// For whoever wonders at night who holds a lock.
fn here() -> String {
    let host = rustix::system::uname();
    format!(
        "{}:{}",
        host.nodename().to_string_lossy(),
        std::process::id()
    )
}
