//! What the user may do, and what is lost by each right that is missing.
//!
//! Each command is tried in a form that the server refuses, or that changes nothing, *after* it
//! has looked at the user's rights: an expiry of 0, a script that does not compile, a key that
//! does not exist, or one of another type. `ACL DRYRUN` would be the other way. It takes rights
//! that the user of a lock does not have, and knows nothing of commands that were renamed or that
//! a proxy lacks.

use redis::Value;

use super::connection::Connection;
use super::finding::{Finding, Level};
use super::trial::Key;
use crate::exit::Failure;

const LOOK: &str = "rights";

struct Right {
    name: &'static str,
    /// Without it locks do not work at all.
    is_needed: bool,
    probe: &'static [&'static str],
    /// What is lost without it.
    lost: &'static str,
}

/// Stands in a probe for a key that does not exist.
const KEY: &str = "KEY";

const NOT_RENEWED: &str = "No lease is renewed: each ends with its first ttl.";
const NO_SCRIPTS: &str = "Nothing is renewed or released: both are scripts.";
const NO_BARRIER: &str = "A command whose reply was lost cannot be kept from running late: more \
                          outcomes stay unknown.";

/// The rights of the crate docs: those that are needed, then those that help. The last one is
/// harmless only where a key of another type is in its way.
const RIGHTS: [Right; 16] = [
    // 0 is no expiry that can be set.
    needed(
        "+set",
        &["SET", KEY, "0", "NX", "PX", "0"],
        "No lock can be taken.",
    ),
    needed("+eval", &["EVAL", "not a script", "0"], NO_SCRIPTS),
    needed(
        "+evalsha",
        &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
        NO_SCRIPTS,
    ),
    needed(
        "+get",
        &["GET", KEY],
        "No script can compare: nothing is renewed or released.",
    ),
    needed(
        "+del",
        &["DEL", KEY],
        "Nothing is released: each lock stays until its ttl is over.",
    ),
    needed("+pexpire", &["PEXPIRE", KEY, "1"], NOT_RENEWED),
    needed("+pttl", &["PTTL", KEY], NOT_RENEWED),
    helpful(
        "+time",
        &["TIME"],
        "Locks with fences cannot be taken (`--fenced`).",
    ),
    helpful(
        "+script|load",
        &["SCRIPT", "LOAD", "not a script"],
        "Scripts are sent whole now and then, which costs bandwidth and no more.",
    ),
    helpful("+client|info", &["CLIENT", "INFO"], NO_BARRIER),
    // No connection has this id, and none comes from there.
    helpful(
        "+client|kill",
        &[
            "CLIENT",
            "KILL",
            "ID",
            "9223372036854775807",
            "ADDR",
            "0.0.0.0:1",
        ],
        NO_BARRIER,
    ),
    helpful(
        "+info",
        &["INFO", "server"],
        "A server that was restarted is not known as such: more outcomes stay unknown. And this \
         report knows less.",
    ),
    helpful(
        "+role",
        &["ROLE"],
        "What a replica says of a lock is not told from a primary's word: a renewal believes it, \
         a release stays unknown.",
    ),
    // It does not block for a time that is none.
    helpful(
        "+blpop",
        &["BLPOP", KEY, "no time"],
        "Who waits for a lock is not woken when it is given back, and polls.",
    ),
    helpful(
        "+exists",
        &["EXISTS", KEY],
        "Who gives a lock back wakes nobody: those who wait notice it within a second. And nobody \
         is told whether others wait.",
    ),
    helpful(
        "+lpush",
        &["LPUSH", KEY, "0"],
        "Who gives a lock back wakes nobody: those who wait notice it within a second.",
    ),
];

const fn needed(name: &'static str, probe: &'static [&'static str], lost: &'static str) -> Right {
    Right {
        name,
        is_needed: true,
        probe,
        lost,
    }
}

const fn helpful(name: &'static str, probe: &'static [&'static str], lost: &'static str) -> Right {
    Right {
        is_needed: false,
        ..needed(name, probe, lost)
    }
}

/// The findings, and whether a lock can be tried at all.
pub(crate) struct Rights {
    pub(crate) findings: Vec<Finding>,
    pub(crate) suffice: bool,
}

pub(crate) fn look(connection: &mut Connection, key: &Key) -> Result<Rights, Failure> {
    let probes: Vec<Vec<&str>> = RIGHTS
        .iter()
        .map(|right| {
            let words = right.probe.iter();
            words
                .map(|word| if *word == KEY { key.name() } else { word })
                .collect()
        })
        .collect();
    let probes: Vec<&[&str]> = probes.iter().map(Vec::as_slice).collect();
    let [harmless @ .., push] = &probes[..] else {
        return Ok(judge(&[], connection.user(), key, false));
    };
    let mut answers = connection.ask_all(harmless)?;
    let suffice = suffice(&answers);
    answers.push(if suffice {
        // It expires by itself, if this is all that gets through.
        let occupied = ["SET", key.name(), "0", "NX", "PX", "1000"];
        let mut answers = connection.ask_all(&[&occupied, push, &["DEL", key.name()]])?;
        answers.swap_remove(1)
    } else {
        // What is pushed might not be deleted again, and without locks nobody is woken anyway.
        Value::Nil
    });
    let is_out_of_reach = |answer: &Value| Answer::of(answer) == Answer::NotOnKey;
    let reaches_itself = match key.given() {
        Some(given) if answers.iter().any(is_out_of_reach) => {
            // One that writes and one that reads; neither changes anything.
            let write = ["SET", given, "0", "NX", "PX", "0"];
            let answers = connection.ask_all(&[&write, &["PTTL", given]])?;
            let mut answers = answers.iter().map(Answer::of);
            answers.all(|answer| answer == Answer::Allowed)
        }
        _ => false,
    };
    Ok(judge(&answers, connection.user(), key, reaches_itself))
}

/// Whether locks work at all, as far as it was asked.
fn suffice(answers: &[Value]) -> bool {
    let needed = RIGHTS.iter().zip(answers);
    let mut needed = needed.filter(|(right, _)| right.is_needed);
    needed.all(|(_, answer)| Answer::of(answer) == Answer::Allowed)
}

fn judge(answers: &[Value], user: &str, key: &Key, reaches_itself: bool) -> Rights {
    let mut missing = Vec::new();
    let mut no_key = Vec::new();
    let mut suffice = true;
    for (right, answer) in RIGHTS.iter().zip(answers) {
        let finding = match Answer::of(answer) {
            Answer::Allowed => continue,
            Answer::NotOnKey => {
                no_key.push(right.name);
                continue;
            }
            Answer::Denied => Finding::new(
                right.level(),
                LOOK,
                format!("the user {user} lacks {}", right.name),
                right.lost,
            )
            .mend(format!("ACL SETUSER {user} {}", right.name)),
            Answer::Absent => Finding::new(
                right.level(),
                LOOK,
                format!("there is no {} here", right.command()),
                right.lost,
            )
            .mend("see whether the command was renamed, or a proxy stands in between"),
        };
        suffice &= !right.is_needed;
        missing.push(finding);
    }
    let mut findings = Vec::new();
    if suffice {
        let what = match missing.len() {
            0 => "all that locks need, and all that helps",
            _ => "all that locks need",
        };
        findings.push(Finding::new(
            Level::Ok,
            LOOK,
            what,
            "Locks can be taken, renewed and released.",
        ));
    }
    findings.append(&mut missing);
    if !no_key.is_empty() {
        findings.push(match key.given() {
            Some(given) if reaches_itself => not_on_siblings(user, given),
            _ => not_on_key(user, key, &no_key.join(" ")),
        });
        suffice = false;
    }
    Rights { findings, suffice }
}

const KEYS: &str = "keys";

/// The lock's own key alone is enough for a lock.
fn not_on_siblings(user: &str, given: &str) -> Finding {
    Finding::new(
        Level::Note,
        KEYS,
        format!(
            "no lock was tried: the user {user} has a right to {given:?}, and none to keys that \
             begin with it"
        ),
        "A lock of that name can be taken, without a fence. Who waits for it is not woken when it \
         is given back, and polls.",
    )
    .mend(format!("ACL SETUSER {user} ~{given}:leasehold:*"))
}

/// A user whose keys are not this one may well be right; one who was told which key is not.
fn not_on_key(user: &str, key: &Key, commands: &str) -> Finding {
    match key.given() {
        Some(given) => Finding::new(
            Level::Unsafe,
            KEYS,
            format!("the user {user} has no right to {commands} on keys that begin with {given:?}"),
            "Such locks cannot be taken, or not be released. Beside a lock's own key, fences and \
             waiters need keys that begin with it.",
        )
        .mend(format!("ACL SETUSER {user} ~{given}*")),
        None => Finding::new(
            Level::Note,
            KEYS,
            format!(
                "no lock was tried: the user {user} has no right to keys like {:?}",
                key.name()
            ),
            "Whether the user may use the keys that locks will have is unknown.",
        )
        .mend("give --key with a lock's name, or how all of them begin: --key order:"),
    }
}

impl Right {
    const fn level(&self) -> Level {
        if self.is_needed {
            Level::Unsafe
        } else {
            Level::Note
        }
    }

    /// As it is written on the wire: `+client|info` is `CLIENT INFO`.
    fn command(&self) -> String {
        let name = self.name.trim_start_matches('+');
        name.replace('|', " ").to_uppercase()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Allowed,
    Denied,
    /// The command may be sent, and not with this key.
    NotOnKey,
    /// The server, or what stands before it, does not know the command.
    Absent,
}

impl Answer {
    fn of(answer: &Value) -> Self {
        let Value::ServerError(error) = answer else {
            return Self::Allowed;
        };
        let text = error.details().unwrap_or_default().to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        match error.code() {
            // All versions have these words for a command, and others for a key each.
            "NOPERM" if says(&["permissions to run the"]) => Self::Denied,
            "NOPERM" => Self::NotOnKey,
            "ERR" if says(&["unknown", "unsupported", "not allowed", "disabled"]) => Self::Absent,
            // It was about to run, which is all that was asked.
            _ => Self::Allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> Value {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn what_servers_say_is_understood() {
        for (line, answer) in [
            (
                "NOPERM this user has no permissions to run the 'set' command or its subcommand",
                Answer::Denied,
            ),
            (
                "NOPERM User app has no permissions to run the 'client|info' command",
                Answer::Denied,
            ),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                Answer::NotOnKey,
            ),
            ("NOPERM No permissions to access a key", Answer::NotOnKey),
            (
                "ERR unknown command 'EVAL', with args beginning with: 'x' '0' ",
                Answer::Absent,
            ),
            (
                "ERR Unknown subcommand or wrong number of arguments for 'INFO'. Try CLIENT HELP.",
                Answer::Absent,
            ),
            ("ERR unsupported command 'client'", Answer::Absent),
            ("ERR invalid expire time in 'set' command", Answer::Allowed),
            (
                "ERR Error compiling script (new function): user_script:1: '=' expected",
                Answer::Allowed,
            ),
            (
                "NOSCRIPT No matching script. Please use EVAL.",
                Answer::Allowed,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Answer::Allowed,
            ),
            (
                "READONLY You can't write against a read only replica.",
                Answer::Allowed,
            ),
        ] {
            assert_eq!(Answer::of(&error(line)), answer, "{line}");
        }
        assert_eq!(Answer::of(&Value::Int(0)), Answer::Allowed);
    }

    #[test]
    fn each_missing_right_is_told_with_what_is_lost() {
        let denied = error("NOPERM User app has no permissions to run the 'x' command");
        for (index, right) in RIGHTS.iter().enumerate() {
            let mut answers = vec![Value::Nil; RIGHTS.len()];
            answers[index] = denied.clone();
            let rights = judge(&answers, "app", &Key::new(None), false);
            assert_eq!(rights.suffice, !right.is_needed);
            let told = rights
                .findings
                .iter()
                .find(|finding| finding.level != Level::Ok);
            let told = told.unwrap();
            assert_eq!(told.level, right.level());
            assert_eq!(told.means, right.lost);
            let mend = format!("ACL SETUSER app {}", right.name);
            assert_eq!(told.mend.as_deref(), Some(mend.as_str()));
        }
    }

    #[test]
    fn a_key_out_of_reach_is_unsafe_only_if_it_was_asked_for() {
        let mut answers = vec![Value::Nil; RIGHTS.len()];
        answers[0] = error("NOPERM No permissions to access a key");
        for (given, level) in [(None, Level::Note), (Some("order:"), Level::Unsafe)] {
            let key = Key::new(given.map(str::to_owned));
            let rights = judge(&answers, "app", &key, false);
            assert!(!rights.suffice);
            assert_eq!(rights.findings.last().map(|last| last.level), Some(level));
        }
    }

    #[test]
    fn a_right_is_named_as_its_command_is_sent() {
        for right in &RIGHTS {
            assert!(right.probe.join(" ").starts_with(&right.command()));
        }
    }
}
