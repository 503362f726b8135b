//! The rest of the command: what it prints, and the lock that is given back by its token.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use leasehold::{Client, Token};
use rustix::process::Signal;
use serde_json::Value;

use super::{KEY, Running, assert_nothing_is_left, beside, end, leasehold, run};
use crate::support::{PATIENCE, Server, eventually};

const COMMANDS: [&str; 5] = ["run", "status", "release", "doctor", "completions"];

/// A lock that nobody keeps, and its token.
fn detached(server: &Server, label: Option<&str>) -> Token {
    let mut lock = Client::open(&server.url()).unwrap().lock(KEY);
    if let Some(label) = label {
        lock = lock.label(label);
    }
    lock.build().unwrap().acquire().unwrap().detach()
}

#[test]
fn every_help_fits_80_columns_and_has_an_example() {
    let pages = COMMANDS.iter().map(|name| vec![*name]);
    for words in pages.chain([vec![]]) {
        for help in ["--help", "-h"] {
            let ended = end(leasehold(&words).arg(help).env("COLUMNS", "200"));
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{words:?}");
            assert!(
                ended.out.contains("Example"),
                "{words:?} {help}: {}",
                ended.out
            );
            for line in ended.out.lines() {
                assert!(line.chars().count() <= 80, "{words:?} {help}: {line}");
            }
        }
    }
}

#[test]
fn the_help_tells_the_codes_and_what_is_not_covered() {
    let whole = end(&mut leasehold(&["--help"])).out;
    for code in ["64", "69", "70", "75", "126", "127", "128+n"] {
        assert!(
            whole
                .lines()
                .any(|line| line.trim_start().starts_with(code)),
            "{code}"
        );
    }
    let run = end(&mut leasehold(&["run", "--help"])).out;
    for word in [
        "daemon",
        "LEASEHOLD_KEY",
        "LEASEHOLD_FENCE",
        "LEASEHOLD_DEADLINE_MS",
        "SIGTERM",
    ] {
        assert!(run.contains(word), "{word}");
    }
    let release = end(&mut leasehold(&["release", "--help"])).out;
    assert!(release.contains("no way to break a lock"), "{release}");
}

#[test]
fn the_version_is_told() {
    let short = end(&mut leasehold(&["-V"])).out;
    assert_eq!(
        short.trim(),
        concat!("leasehold ", env!("CARGO_PKG_VERSION"))
    );
    let long = end(&mut leasehold(&["--version"])).out;
    assert!(
        long.starts_with(short.trim()) && 1 < long.lines().count(),
        "{long}"
    );
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let server = Server::start();
    for (shell, sign) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef leasehold"),
        ("fish", "complete -c leasehold"),
    ] {
        let ended = end(&mut leasehold(&["completions", shell]));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        assert!(ended.out.contains(sign), "{shell}");
        for command in COMMANDS {
            assert!(ended.out.contains(command), "{shell}: {command}");
        }
        // Where the shell is there, it reads the script.
        let path = beside(&server, shell);
        fs::write(&path, &ended.out).unwrap();
        if let Ok(status) = Command::new(shell).arg("-n").arg(&path).status() {
            assert!(status.success(), "{shell}");
        }
    }
    assert_eq!(end(&mut leasehold(&["completions", "tcsh"])).code, Some(64));
}

#[test]
fn the_man_page_is_one() {
    let ended = end(&mut leasehold(&["man"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(
        ended.out.lines().any(|line| line.starts_with(".TH")),
        "{}",
        ended.out
    );
    for section in ["NAME", "SYNOPSIS", "DESCRIPTION"] {
        assert!(ended.out.contains(&format!(".SH {section}")), "{section}");
    }
    assert!(ended.out.contains("75"), "the codes");
}

#[test]
fn status_tells_who_holds_a_lock_and_for_how_long() {
    let server = Server::start();
    let url = server.url();
    let status = |words: &[&str]| end(leasehold(&["status", "--url", &url]).args(words));
    let ended = status(&[KEY]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "job:1: free\n"));

    let token = detached(&server, Some("host a"));
    let ended = status(&[KEY]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    for word in ["held", "host a", " for ", "fingerprint"] {
        assert!(ended.out.contains(word), "{word}: {}", ended.out);
    }
    let secret = token.expose().split(' ').next().unwrap();
    assert!(
        !ended.out.contains(secret),
        "the token is nobody's business"
    );

    let ended = status(&[KEY, "job:2"]);
    assert_eq!((ended.code, ended.out.lines().count()), (Some(1), 2));
    server.cmd(&["PERSIST", KEY]);
    assert!(status(&[KEY]).out.contains("without an expiry"));
}

/// Whether others wait, as `status` tells it to people and to programs.
fn others_wait(url: &str) -> (String, Value) {
    let [text, json] = [&[][..], &["--json"]]
        .map(|more| end(leasehold(&["status", "--url", url, KEY]).args(more)));
    assert_eq!((text.code, json.code), (Some(0), Some(0)), "{}", text.err);
    let (_, left) = text.out.trim_end().rsplit_once(" for ").unwrap();
    let (_, words) = left.split_once('s').unwrap();
    let all: Value = serde_json::from_str(&json.out).unwrap();
    (words.to_owned(), all[0]["waited_for"].clone())
}

#[test]
fn status_tells_whether_others_wait() {
    let server = Server::with(&["user app on >secret ~job:1 +@all"]);
    let url = server.url();
    detached(&server, None);
    assert_eq!(others_wait(&url), (String::new(), Value::Bool(false)));

    let waiter = Running::start(&mut run(&server, &["--wait-forever"], "true"));
    eventually("it waits", PATIENCE, || {
        server.get("job:1:leasehold:waiting").is_some()
    });
    let told = others_wait(&url);
    assert_eq!(told, (String::from(", others wait"), Value::Bool(true)));
    // The key that tells it is not among this user's.
    let told = others_wait(&server.url_as("app", "secret"));
    assert_eq!(
        told,
        (
            String::from(", whether others wait is unknown"),
            Value::Null
        )
    );

    waiter.process.signal(Signal::TERM);
    assert_eq!(waiter.end().code, Some(128 + 15));
    eventually("it is seen that nobody waits any more", PATIENCE, || {
        others_wait(&url) == (String::new(), Value::Bool(false))
    });
}

#[test]
fn status_tells_it_to_programs_too() {
    let server = Server::start();
    let token = detached(&server, Some("host \"a\""));
    let url = server.url();
    let ended = end(&mut leasehold(&[
        "status", "--url", &url, "--json", KEY, "job:2",
    ]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), ""));
    let all: Value = serde_json::from_str(&ended.out).unwrap();
    let held = &all[0];
    assert_eq!(held["key"], KEY);
    assert_eq!(
        (&held["held"], &held["label"]),
        (&Value::Bool(true), &Value::from("host \"a\""))
    );
    let left = held["remaining_ms"].as_u64().unwrap();
    assert!(10_000 < left && left <= 30_000, "{left}");
    let fingerprint = held["fingerprint"].as_str().unwrap();
    assert!(
        format!("{token:?}").contains(fingerprint),
        "as logs show it"
    );
    assert_eq!(
        (&all[1]["key"], &all[1]["held"]),
        (&"job:2".into(), &false.into())
    );
    assert_eq!(all.as_array().map(Vec::len), Some(2));
    let ended = end(&mut leasehold(&["status", "--url", &url, "--json", KEY]));
    assert_eq!(ended.code, Some(0));
}

#[test]
fn status_of_what_is_no_lock_is_64_and_does_not_hide_the_others() {
    let server = Server::start();
    server.cmd(&["LPUSH", KEY, "a list"]);
    let status = |words: &[&str]| end(leasehold(&["status", "--url", &server.url()]).args(words));
    for keys in [[KEY, "job:2"], ["job:2", KEY]] {
        let ended = status(&keys);
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(64), "job:2: free\n")
        );
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        assert!(ended.err.contains(KEY), "{}", ended.err);
    }
    let ended = status(&["--json", KEY, "job:2"]);
    assert_eq!(ended.code, Some(64));
    let all: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(all[0]["error"].is_string(), "{all}");
    assert_eq!(all[1]["held"], false);
    let ended = status(&["--quiet", KEY, "job:2"]);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
}

#[test]
fn status_of_a_server_that_is_away_is_69_and_quiet_if_asked_to_be() {
    let server = Server::start();
    let url = server.url();
    let quiet = end(&mut leasehold(&["status", "--quiet", "--url", &url, KEY]));
    let printed = (quiet.out.as_str(), quiet.err.as_str());
    assert_eq!((quiet.code, printed), (Some(1), ("", "")));
    server.kill();
    let ended = end(&mut leasehold(&["status", "--url", &url, KEY]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(69), ""));
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    assert_eq!(end(&mut leasehold(&["status"])).code, Some(64));
}

#[test]
fn the_right_token_releases_a_lock_however_it_is_given() {
    let server = Server::start();
    let url = server.url();
    for label in [None, Some("host a")] {
        let token = detached(&server, label);
        let ended = end(&mut leasehold(&[
            "release",
            "--url",
            &url,
            KEY,
            "--token",
            token.expose(),
        ]));
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(0), ""),
            "{}",
            ended.err
        );
        assert!(!ended.err.contains(token.expose()), "{}", ended.err);
        assert_nothing_is_left(&server);

        let token = detached(&server, label);
        let mut command = leasehold(&["release", "--url", &url, "--quiet", KEY]);
        let ended = end(command.env("LEASEHOLD_TOKEN", token.expose()));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        assert_nothing_is_left(&server);

        for end_of_line in ["", "\n", "\r\n"] {
            let token = detached(&server, label);
            let mut running = Running::start(&mut leasehold(&[
                "release", "--url", &url, KEY, "--token", "-",
            ]));
            let line = format!("{}{end_of_line}", token.expose());
            running
                .stdin
                .take()
                .unwrap()
                .write_all(line.as_bytes())
                .unwrap();
            assert_eq!(running.end().code, Some(0));
            assert_nothing_is_left(&server);
        }
    }
}

#[test]
fn a_wrong_token_releases_nothing_and_is_1() {
    let server = Server::start();
    let url = server.url();
    let token = detached(&server, Some("host a"));
    let wrong = "0123456789abcdef0123456789abcdef01234567";
    // The label is part of it.
    let bare = token.expose().split(' ').next().unwrap();
    for given in [wrong, bare] {
        let ended = end(&mut leasehold(&[
            "release", "--url", &url, KEY, "--token", given,
        ]));
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        assert!(
            !ended.err.contains(given) && !ended.err.contains(bare),
            "{}",
            ended.err
        );
        assert_eq!(server.get(KEY).as_deref(), Some(token.expose()));
        assert!(20_000 < server.pttl(KEY));
    }
    server.cmd(&["DEL", KEY]);
    let ended = end(&mut leasehold(&[
        "release", "--url", &url, KEY, "--token", wrong,
    ]));
    assert_eq!(ended.code, Some(1));
    assert_nothing_is_left(&server);
}

#[test]
fn a_release_without_a_token_or_a_server_is_told_from_one_of_a_wrong_token() {
    let server = Server::start();
    let url = server.url();
    let release = |words: &[&str]| end(leasehold(&["release", "--url", &url]).args(words));
    for words in [
        &[KEY][..],
        &[KEY, "--token", "-"],
        &[KEY, "--token", "secret-word"],
        &["--token", "-"],
    ] {
        let ended = release(words);
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(64), ""),
            "{words:?}"
        );
        assert!(!ended.err.contains("secret-word"), "{}", ended.err);
    }
    server.kill();
    let token = "0123456789abcdef0123456789abcdef01234567";
    let ended = release(&[KEY, "--token", token]);
    assert_eq!(ended.code, Some(69));
    assert!(!ended.err.contains(token), "{}", ended.err);
}

#[test]
fn a_reader_who_has_gone_is_no_failure() {
    let server = Server::start();
    let mut command = leasehold(&["status", "--url", &server.url(), KEY]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(1), &b""[..])
    );
}

#[test]
fn an_answer_that_cannot_be_written_is_74() {
    let server = Server::start();
    for words in [
        &["status", "--url", &server.url(), KEY][..],
        &["status", "--json", "--url", &server.url(), KEY],
        &["doctor", "--url", &server.url()],
        &["completions", "bash"],
    ] {
        let inner = leasehold(words);
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" > /dev/full", "sh"]);
        command.arg(inner.get_program()).args(inner.get_args());
        let ended = end(&mut command);
        assert_eq!(ended.code, Some(74), "{words:?} {}", ended.err);
        assert!(ended.err.contains("cannot write"), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn a_name_of_its_own_that_is_no_text_is_not_minded() {
    let server = Server::start();
    for (words, code) in [
        (&["run", "--url", &server.url(), KEY, "--", "true"][..], 0),
        (&["run", "--url", &server.url(), KEY, "true"], 64),
    ] {
        let mut command = leasehold(words);
        command.arg0(OsStr::from_bytes(b"lease\xffhold"));
        let ended = end(&mut command);
        assert_eq!(ended.code, Some(code), "{}", ended.err);
        assert!(ended.err.lines().count() <= 1, "{}", ended.err);
    }
}
