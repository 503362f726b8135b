//! The one place where a server's words are classified: not run, refused, wrong type, or
//! unknown. What was not sent is known where it was not sent.

use redis::ServerError;

use super::broken::Broken;
pub(crate) use super::class::Class;
use crate::error::Cause;

/// A failure of one command.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    /// The command as a user's rights would name it.
    pub(crate) command: &'static str,
    pub(crate) cause: Cause,
    /// The link on which an unknown command may still be on its way.
    pub(crate) broken: Option<Broken>,
    /// Whether the server had already answered the same question with "not yours", if not as
    /// a proven primary.
    pub(crate) told_not_ours: bool,
}

impl Fault {
    #[cold]
    pub(crate) const fn new(class: Class, command: &'static str, cause: Cause) -> Self {
        Self {
            class,
            command,
            cause,
            broken: None,
            told_not_ours: false,
        }
    }

    /// Whether the link was found closed or reset, with nothing else amiss.
    pub(super) const fn is_of_a_dead_link(&self) -> bool {
        matches!(self.class, Class::NotSent | Class::Unknown)
            && matches!(self.cause, Cause::Closed { .. } | Cause::Io { .. })
    }

    /// Whether the server said that it is a replica, in whatever words.
    pub(super) fn is_of_a_replica(&self) -> bool {
        matches!(&self.cause, Cause::Reply { text, .. } if text.contains("READONLY"))
    }

    /// A failure that the server itself told us.
    #[cold]
    pub(crate) fn of_reply(command: &'static str, server: &str, error: &ServerError) -> Self {
        let text = text_of(error);
        let cause = Cause::Reply {
            command,
            server: server.to_owned(),
            text: without_tokens(without_arguments(&text)),
        };
        Self::new(classify(&text), command, cause)
    }
}

/// The class of a server's error.
pub(super) fn class_of(error: &ServerError) -> Class {
    classify(&text_of(error))
}

const NOT_RUN: [&str; 10] = [
    "OOM",
    "READONLY",
    "MASTERDOWN",
    "LOADING",
    "BUSY",
    "MISCONF",
    "NOREPLICAS",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "NOSCRIPT",
];

/// `DENIED` is what a server in protected mode says before it closes. `MOVED` and `ASK` come
/// from a cluster, of which this client was not told: another try meets them again.
const REFUSED: [&str; 7] = [
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "CROSSSLOT",
    "DENIED",
    "MOVED",
    "ASK",
];

/// The class of a server's error text.
///
/// Redis 6.2 buries the code of an error that a script met inside a text of its own, and
/// newer ones may put words before it; so the code is looked for as a word, first at the
/// front and then, in an error of a script, behind a dash. That a script's error means *not
/// run* is the rule of `lua/`: every check comes before the first write, and after it
/// nothing raises.
fn classify(text: &str) -> Class {
    let code = text.split(' ').next().unwrap_or_default();
    if let Some(class) = class_of_code(code) {
        return class;
    }
    if code == "ERR" || code.starts_with('@') {
        return classify_generic(text);
    }
    Class::Unknown
}

fn class_of_code(code: &str) -> Option<Class> {
    if NOT_RUN.contains(&code) {
        Some(Class::NotRun)
    } else if REFUSED.contains(&code) {
        Some(Class::Refused)
    } else if code == "WRONGTYPE" {
        Some(Class::WrongType)
    } else {
        None
    }
}

fn classify_generic(text: &str) -> Class {
    let lower = text.to_ascii_lowercase();
    let says = |words: &str| lower.contains(words);
    if says("max number of clients reached") || says("can't accept new clients") {
        return Class::NotRun;
    }
    if says("unknown command")
        || says("unknown subcommand")
        || says("user executing the script can't")
        || says("acl failure in script")
        || says("invalid password")
        || says("db index is out of range")
        || says("without any password configured")
        || says("invalid expire time")
        || says("value is not an integer or out of range")
    {
        return Class::Refused;
    }
    if !says("script") {
        // Proxies have words of their own, and what they stand for may have run.
        return Class::Unknown;
    }
    // In a script's error the code is the word behind the last dash, or behind a colon.
    text.split(|separator: char| separator.is_whitespace() || matches!(separator, ':' | ','))
        .filter_map(|word| class_of_code(word.trim_start_matches('-')))
        .next()
        .unwrap_or(Class::Unknown)
}

fn text_of(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// Redis repeats the arguments of a command that it does not know, the token among them.
fn without_arguments(text: &str) -> &str {
    let end = text
        .to_ascii_lowercase()
        .find("with args beginning with")
        .unwrap_or(text.len());
    // A script's error ends with the script's name, which nobody knows.
    let end = text.find(" script: ").unwrap_or(text.len()).min(end);
    text[..end].trim_end_matches([' ', ','])
}

/// A run of hexadecimal digits longer than any word: a token, whole or cut short, or a
/// script's digest, which nobody misses.
const SUSPICIOUS: usize = 16;

/// Proxies may repeat a command in other words than those of Redis.
fn without_tokens(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest
            .bytes()
            .position(|byte| !byte.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        let (run, after) = rest.split_at(digits);
        clean.push_str(if SUSPICIOUS <= digits { "…" } else { run });
        let other = after
            .bytes()
            .position(|byte| byte.is_ascii_hexdigit())
            .unwrap_or(after.len());
        let (plain, next) = after.split_at(other);
        clean.push_str(plain);
        rest = next;
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_repeated_in_any_words_is_cut_out() {
        let token = "0123456789abcdef0123456789abcdef01234567";
        for (text, clean) in [
            (
                format!("ERR what is SET k {token} NX"),
                "ERR what is SET k … NX",
            ),
            (token.to_owned(), "…"),
            (
                format!("ERR é{}é bad face", &token[..20]),
                "ERR é…é bad face",
            ),
            (
                "OOM command not allowed".to_owned(),
                "OOM command not allowed",
            ),
        ] {
            assert_eq!(without_tokens(&text), clean);
        }
    }

    #[test]
    fn each_error_text_has_its_class() {
        for (text, class) in [
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Class::NotRun,
            ),
            (
                "READONLY You can't write against a read only replica.",
                Class::NotRun,
            ),
            ("MOVED 3999 127.0.0.1:6381", Class::Refused),
            (
                "LOADING Redis is loading the dataset in memory",
                Class::NotRun,
            ),
            ("ERR max number of clients reached", Class::NotRun),
            (
                "ERR Error running script (call to f_00): @user_script:30: @user_script: 30: \
                 -READONLY You can't write against a read only replica.",
                Class::NotRun,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 00, on \
                 @user_script:1.",
                Class::NotRun,
            ),
            ("NOAUTH Authentication required.", Class::Refused),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                Class::Refused,
            ),
            (
                "NOPERM this user has no permissions to run the 'set' command",
                Class::Refused,
            ),
            (
                "ERR unknown command 'EVALSHA', with args beginning with: 'x'",
                Class::Refused,
            ),
            (
                "ERR The user executing the script can't run this command or subcommand \
                 script: 00, on @user_script:1.",
                Class::Refused,
            ),
            (
                "ERR ACL failure in script: User app has no permissions to run the 'time' \
                 command script: 00, on @user_script:39.",
                Class::Refused,
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                Class::WrongType,
            ),
            (
                "ERR Error running script (call to f_00): @user_script:1: WRONGTYPE Operation \
                 against a key holding the wrong kind of value",
                Class::WrongType,
            ),
            ("ERR something that nobody has heard of", Class::Unknown),
            ("ERR upstream said BUSY", Class::Unknown),
            ("ERR timeout, READONLY: no", Class::Unknown),
            (
                "UNBLOCKED client unblocked via CLIENT UNBLOCK",
                Class::Unknown,
            ),
            ("", Class::Unknown),
        ] {
            assert_eq!(classify(text), class, "{text}");
        }
    }

    #[test]
    fn an_unknown_command_is_reported_without_its_arguments() {
        let text = "ERR unknown command 'EVALSHA', with args beginning with: 'a' 'secret' ";
        assert_eq!(without_arguments(text), "ERR unknown command 'EVALSHA'");
        assert_eq!(without_arguments("OOM no"), "OOM no");
    }
}
