//! All findings as a person reads them, or a program.

use serde_json::{Map, Value, json};

use super::finding::{Finding, Level};

/// The width of a terminal that everybody has.
const WIDTH: usize = 80;

/// Where the text begins: behind the columns of the level and of what was looked at.
const INDENT: usize = 22;

/// Lines of 80 columns. What an `ok` means is told only with `explain`.
pub(crate) fn text(place: &str, findings: &[Finding], explain: bool) -> String {
    let mut lines = vec![format!("{place}, as a lock sees it:"), String::new()];
    for finding in findings {
        let head = format!("{:<8} {:<13}", finding.level.name(), finding.look);
        fill(&mut lines, &head, &finding.found);
        if finding.level == Level::Ok && !explain {
            continue;
        }
        fill(&mut lines, "", &finding.means);
        if let Some(mend) = &finding.mend {
            fill(&mut lines, &format!("{:>21}", "mend:"), mend);
        }
    }
    lines.push(String::new());
    wrap(&summary(findings), WIDTH, |line| {
        lines.push(line.to_owned())
    });
    lines.join("\n")
}

pub(crate) fn json(place: &str, findings: &[Finding]) -> String {
    let mut summary = Map::new();
    for level in Level::ALL {
        summary.insert(level.name().to_owned(), json!(count(findings, level)));
    }
    let findings: Vec<Value> = findings.iter().map(Finding::json).collect();
    format!(
        "{:#}",
        json!({ "server": place, "findings": findings, "summary": summary })
    )
}

/// One sentence: the numbers, and the worst by name.
fn summary(findings: &[Finding]) -> String {
    let numbers: Vec<String> = Level::ALL
        .into_iter()
        .map(|level| (count(findings, level), level))
        .filter(|(count, _)| *count != 0)
        .map(|(count, level)| {
            let plural = match level {
                Level::Warning | Level::Note if count != 1 => "s",
                _ => "",
            };
            format!("{count} {}{plural}", level.name())
        })
        .collect();
    let verdict = match findings.iter().map(|finding| finding.level).max() {
        Some(Level::Unsafe) => format!(
            "do not keep locks here before this is mended: {}",
            names(findings, |finding| finding.level == Level::Unsafe)
        ),
        Some(Level::Warning) => format!(
            "locks work here; look after: {}",
            names(findings, |finding| finding.level == Level::Warning)
        ),
        _ => "nothing was seen that harms locks".to_owned(),
    };
    let unseen = names(findings, |finding| !finding.known);
    let unseen = match unseen.as_str() {
        "" => String::new(),
        names => format!("; not seen: {names}"),
    };
    format!("{}: {verdict}{unseen}.", numbers.join(", "))
}

fn count(findings: &[Finding], level: Level) -> usize {
    let of_level = findings.iter().filter(|finding| finding.level == level);
    of_level.count()
}

fn names(findings: &[Finding], wanted: impl Fn(&&Finding) -> bool) -> String {
    let mut names: Vec<&str> = Vec::new();
    for finding in findings.iter().filter(wanted) {
        if !names.contains(&finding.look) {
            names.push(finding.look);
        }
    }
    names.join(", ")
}

/// Wraps `text` into the right column; `head` stands before its first line.
fn fill(lines: &mut Vec<String>, head: &str, text: &str) {
    let mut head = head;
    wrap(text, WIDTH - INDENT - 1, |line| {
        let line = format!("{head:<INDENT$} {line}");
        lines.push(line.trim_end().to_owned());
        head = "";
    });
}

/// Breaks at spaces; a word longer than a line gets one to itself, since it is there to be copied.
fn wrap(text: &str, width: usize, mut give: impl FnMut(&str)) {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let long = word.chars().count();
        if length != 0 && width < length + 1 + long {
            give(&line);
            line.clear();
            length = 0;
        }
        if length != 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += long;
    }
    give(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::new(Level::Ok, "server", "Redis 7.0.15", "which is known"),
            Finding::new(
                Level::Unsafe,
                "eviction",
                "the policy is volatile-lru ".repeat(5),
                "locks are deleted ".repeat(9),
            )
            .mend("CONFIG SET maxmemory-policy noeviction"),
        ]
    }

    #[test]
    fn a_report_fits_80_columns_and_ends_with_the_summary() {
        let text = text("127.0.0.1:6379", &findings(), false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("1 unsafe, 1 ok: "), "{last}");
        assert!(last.ends_with(": eviction."), "{last}");
        assert!(text.contains("CONFIG SET maxmemory-policy noeviction"));
    }

    #[test]
    fn what_is_well_is_explained_only_when_asked() {
        assert!(!text("", &findings(), false).contains("which is known"));
        assert!(text("", &findings(), true).contains("which is known"));
    }

    #[test]
    fn a_word_longer_than_a_line_stays_whole() {
        let mut lines = Vec::new();
        wrap("a bb ccccc dd", 4, |line| lines.push(line.to_owned()));
        assert_eq!(lines, ["a bb", "ccccc", "dd"]);
    }

    #[test]
    fn what_was_not_seen_is_named() {
        let unknown = Finding::unknown("clock", "TIME", "");
        assert!(summary(&[unknown]).ends_with("; not seen: clock."));
    }

    #[test]
    fn one_of_a_level_is_no_plural() {
        let note = Finding::new(Level::Note, "role", "", "");
        let notes = [note.clone(), note];
        assert!(summary(&notes[..1]).starts_with("1 note: "));
        assert!(summary(&notes).starts_with("2 notes: "));
    }
}
