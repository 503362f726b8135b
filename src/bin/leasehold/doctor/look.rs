//! The questions to the server, and its answers as they came: what was refused stays unknown.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::Value;

use super::connection::Connection;
use crate::exit::Failure;

/// How often the server's time is asked; the quickest answer is the most exact.
const TIMES: usize = 5;

/// What the server said of itself.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// From `HELLO`, which needs no right: `server`, `version`, `mode`, `role`.
    pub(crate) hello: HashMap<String, String>,
    /// From `INFO`, empty where it is refused.
    pub(crate) info: HashMap<String, String>,
    /// From `CONFIG GET`, empty where it is refused.
    pub(crate) config: HashMap<String, String>,
    pub(crate) clock: Option<Offset>,
}

impl Facts {
    /// As a server would have told them.
    #[cfg(test)]
    pub(crate) fn told(
        hello: &[(&str, &str)],
        info: &[(&str, &str)],
        config: &[(&str, &str)],
    ) -> Self {
        let owned = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        Self {
            hello: owned(hello),
            info: owned(info),
            config: owned(config),
            ..Self::default()
        }
    }

    pub(crate) fn info(&self, field: &str) -> Option<&str> {
        self.info.get(field).map(String::as_str)
    }

    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.info(field)?.parse().ok()
    }

    pub(crate) fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    /// From `HELLO`, or from the field of `INFO` that says the same.
    pub(crate) fn hello_or(&self, name: &str, field: &str) -> Option<&str> {
        let said = self.hello.get(name).map(String::as_str);
        said.or_else(|| self.info(field))
    }

    pub(crate) fn is_replica(&self) -> bool {
        matches!(self.hello_or("role", "role"), Some("replica" | "slave"))
    }

    pub(crate) fn is_sentinel(&self) -> bool {
        self.hello_or("mode", "redis_mode") == Some("sentinel")
    }
}

/// The server's clock against ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) by: Duration,
    pub(crate) ahead: bool,
    /// Half the round trip: nobody can tell when within it the server read its clock.
    pub(crate) give_or_take: Duration,
}

pub(crate) fn look(connection: &mut Connection) -> Result<Facts, Failure> {
    // A single parameter each: before Redis 7 `CONFIG GET` takes no more.
    let answers = connection.ask_all(&[
        &["HELLO"],
        &["INFO"],
        &["CONFIG", "GET", "appendfsync"],
        &["CONFIG", "GET", "min-replicas-to-write"],
        &["CONFIG", "GET", "min-replicas-max-lag"],
    ])?;
    let mut facts = Facts::default();
    for (index, answer) in answers.into_iter().enumerate() {
        match index {
            0 => facts.hello = pairs(answer),
            1 => facts.info = text(&answer).map(|text| fields(&text)).unwrap_or_default(),
            _ => facts.config.extend(pairs(answer)),
        }
    }
    facts.clock = clock(connection)?;
    Ok(facts)
}

fn clock(connection: &mut Connection) -> Result<Option<Offset>, Failure> {
    let mut best: Option<Offset> = None;
    for _ in 0..TIMES {
        let ours = SystemTime::now();
        let begun = Instant::now();
        let answer = connection.ask(&["TIME"])?;
        let took = begun.elapsed();
        let Some(theirs) = time(&answer) else {
            return Ok(None);
        };
        // By the steady clock, which a step of ours meanwhile does not touch.
        let ours = ours.duration_since(UNIX_EPOCH).unwrap_or_default() + took / 2;
        let offset = Offset {
            by: theirs.abs_diff(ours),
            ahead: ours < theirs,
            give_or_take: took / 2,
        };
        if best.is_none_or(|best| offset.give_or_take < best.give_or_take) {
            best = Some(offset);
        }
    }
    Ok(best)
}

/// Seconds and microseconds, as two texts.
fn time(answer: &Value) -> Option<Duration> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let mut numbers = parts.iter().map(|part| text(part)?.parse::<u64>().ok());
    let seconds = numbers.next()??;
    let micros = numbers.next()??;
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

pub(crate) fn text(answer: &Value) -> Option<String> {
    match answer {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Names and values in turn; what is not a text (a list of modules) is passed over.
fn pairs(answer: Value) -> HashMap<String, String> {
    let items = match answer {
        Value::Array(items) => items,
        Value::Map(entries) => entries
            .into_iter()
            .flat_map(|(name, value)| [name, value])
            .collect(),
        _ => Vec::new(),
    };
    let pairs = items.chunks_exact(2);
    pairs
        .filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?)))
        .collect()
}

/// The lines `name:value` of `INFO`.
fn fields(info: &str) -> HashMap<String, String> {
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn fields_of_info_are_read() {
        let info = "# Server\r\nredis_version:7.0.15\r\nexecutable:/a:b\r\n\r\n# Memory\r\n";
        let fields = fields(info);
        assert_eq!(fields["redis_version"], "7.0.15");
        assert_eq!(fields["executable"], "/a:b");
        assert_eq!(fields.len(), 2);
    }

    #[test]
    fn pairs_are_read_in_both_protocols_and_lists_are_passed_over() {
        let flat = [
            bulk("role"),
            bulk("master"),
            bulk("modules"),
            Value::Array(vec![]),
        ];
        let map = Value::Map(vec![(bulk("role"), bulk("master"))]);
        for answer in [Value::Array(flat.to_vec()), map] {
            let pairs = pairs(answer);
            assert_eq!(pairs["role"], "master");
            assert_eq!(pairs.len(), 1);
        }
    }

    #[test]
    fn a_time_is_seconds_and_microseconds_and_nothing_else() {
        let given = Value::Array(vec![bulk("1796120401"), bulk("646881")]);
        assert_eq!(
            time(&given),
            Some(Duration::from_micros(1_796_120_401_646_881))
        );
        for other in [
            Value::Nil,
            bulk("1"),
            Value::Array(vec![bulk("1")]),
            Value::Array(vec![bulk("1"), bulk("x")]),
        ] {
            assert_eq!(time(&other), None);
        }
    }
}
