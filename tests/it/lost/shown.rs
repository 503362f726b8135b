//! What is shown of a lease: everything but its token.

use std::error::Error as _;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::Error;

use super::ms;
use crate::support::{Matcher, Proxy, Script, Scripted, Server, Step, logs};
use crate::wire::{client_with, lock, records_set, take};

/// What somebody who looks at values and errors gets to see.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn value(&mut self, value: &impl Debug) {
        self.0.push(format!("{value:?} {value:#?}"));
    }

    fn outcome<T: Debug>(&mut self, outcome: &Result<T, Error>) {
        self.value(outcome);
        let Err(error) = outcome else { return };
        self.0.push(error.to_string());
        let mut cause = error.source();
        while let Some(deeper) = cause {
            self.0.push(format!("{deeper} {deeper:?}"));
            cause = deeper.source();
        }
    }

    /// All calls, whatever comes of them.
    fn everything(&mut self, url: &str, key: &str) {
        // Whatever comes of it: the timeouts may be as short as they like.
        let client = client_with(url, ms(30));
        for fenced in [false, true] {
            let lock = client.lock(key).label("night shift").ttl(ms(2_000));
            let lock = if fenced { lock.fenced() } else { lock };
            self.value(&lock);
            let lock = lock.build().unwrap();
            self.value(&lock);
            let taken = lock.try_acquire();
            self.outcome(&taken);
            // Long enough to wait at the server.
            self.outcome(&lock.acquire_timeout(ms(20)));
            let Ok(Some(lease)) = taken else { continue };
            self.value(lease.token());
            self.value(&lease.watch());
            self.outcome(&lease.renew());
            self.outcome(&lease.verify());
            self.outcome(&client.inspect(key));
            self.value(&lease);
            self.outcome(&lease.release());
        }
        self.value(&client);
        self.value(&client.stats());
    }
}

#[track_caller]
fn assert_no_token_is_shown(shown: &Shown, mark: logs::Mark, commands: &[Vec<String>]) {
    let records = records_set(commands);
    assert!(!records.is_empty());
    let mut commands = commands.iter();
    assert!(commands.any(|words| Script::Wait.is_called(words)));
    let lines = logs::since(mark);
    for record in records {
        let digits = &record[..40];
        for text in shown.0.iter().chain(lines.iter().map(|line| &line.text)) {
            assert!(!text.contains(digits), "{text}");
        }
    }
}

#[test]
fn no_token_is_shown_by_debug_errors_or_the_log_whatever_goes_wrong() {
    let server = Server::start();
    let mark = logs::mark();
    let mut shown = Shown::default();
    let key = "lost:shown";
    let faults: [&dyn Fn(&Proxy); 7] = [
        &|_| {},
        &|proxy| {
            proxy.drop_reply("SET");
        },
        &|proxy| {
            proxy.drop_reply(Matcher::evalsha().nth(3));
            proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
        },
        &|proxy| {
            proxy.swallow("SET");
            proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
        },
        &|proxy| {
            proxy.reset_after(Matcher::any_of(&["SET", "EVALSHA"]));
        },
        &|proxy| {
            proxy.answer("SET", "-OOM no memory\r\n");
            proxy.answer(Matcher::evalsha(), "-BUSY later\r\n");
        },
        &|proxy| {
            proxy.answer("SET", "!garbage\r\n");
            proxy.answer(Matcher::evalsha().nth(2), "+unheard of\r\n");
        },
    ];
    let mut commands = Vec::new();
    for fault in faults {
        let proxy = Proxy::to(&server);
        fault(&proxy);
        shown.everything(&proxy.url(), key);
        commands.extend(proxy.commands());
        server.cmd(&["DEL", key]);
    }
    // Lost ones, too.
    let lock = lock(&server.url(), key);
    let lease = take(&lock);
    server.cmd(&["SET", key, "theirs"]);
    shown.outcome(&lease.release());
    for outcome in ["Held", "Unknown", "Unavailable", "Lost"] {
        assert!(shown.0.iter().any(|text| text.contains(outcome)));
    }
    assert!(logs::any_containing(mark, key));
    assert_no_token_is_shown(&shown, mark, &commands);
}

#[test]
fn no_token_is_shown_where_the_server_repeats_the_command_it_was_sent() {
    let mark = logs::mark();
    let mut shown = Shown::default();
    let mut commands = Vec::new();
    let echoes: [fn(&[String]) -> String; 5] = [
        |words| {
            let (name, arguments) = (&words[0], words[1..].join("' '"));
            format!("-ERR unknown command '{name}', with args beginning with: '{arguments}' \r\n")
        },
        |words| {
            let (name, arguments) = (&words[0], words[1..].join("`, `"));
            format!("-ERR unknown command `{name}`, with args beginning with: `{arguments}`, \r\n")
        },
        |words| format!("-ERR nobody has heard of this: {}\r\n", words.join(" ")),
        |words| format!("-OOM no memory for {}\r\n", words.join(" ")),
        |words| format!("+{}\r\n", words.join(" ")),
    ];
    for echo in echoes {
        for echoed in ["SET", "EVALSHA"] {
            let taken = AtomicBool::new(false);
            let server = Scripted::start(move |_, words| match words[0].as_str() {
                name if name == echoed => Step::reply(&echo(words)),
                "SET" if taken.swap(true, Ordering::SeqCst) => Step::reply("$-1\r\n"),
                "SET" => Step::reply("+OK\r\n"),
                _ => Step::Healthy,
            });
            shown.everything(&server.url(), "lost:echoed");
            commands.extend(server.commands());
        }
    }
    assert_no_token_is_shown(&shown, mark, &commands);
}
