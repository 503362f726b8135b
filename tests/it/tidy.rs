//! The repository itself: what is said in two places agrees, and the house keeps its rules.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of code in a file of `src/`, documentation and tests not counted.
const MOST_LINES: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below `folder`, except what git and the compiler keep for themselves.
fn files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // What an editor or a build keeps in the folder is not of the repository.
        if path.is_dir() && !name.starts_with("target") && (name == ".ci" || !name.starts_with('.'))
        {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

/// The value of a string in the first table of the manifest.
#[track_caller]
fn manifest(name: &str) -> String {
    let manifest = read("Cargo.toml");
    let mut lines = manifest.lines().filter_map(|line| line.split_once(" = "));
    let (_, value) = lines.find(|(found, _)| *found == name).expect(name);
    value.trim_matches('"').to_owned()
}

/// A line of code of a source file of `src/`, with where it stands.
struct Line {
    place: String,
    text: String,
}

/// A source file without comments, blank lines and unit tests.
struct Source {
    /// Relative to `src/`: `server/link.rs`.
    name: String,
    lines: Vec<Line>,
}

impl Source {
    fn all() -> Vec<Self> {
        let paths = files("src");
        // Tests that are too long for the file that they are about.
        let is_test = |path: &Path| {
            let mut parts = path.components();
            parts.any(|part| {
                ["tests", "tests.rs"]
                    .map(OsStr::new)
                    .contains(&part.as_os_str())
            })
        };
        let rust = paths
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "rs") && !is_test(path));
        let sources: Vec<_> = rust.map(|path| Self::read(path)).collect();
        assert!(20 < sources.len(), "only {} source files", sources.len());
        sources
    }

    fn read(path: &Path) -> Self {
        let name = path.strip_prefix(root().join("src")).unwrap();
        let name = name.to_string_lossy().into_owned();
        let mut lines = Vec::new();
        let text = read(path);
        let mut all = text.lines().enumerate();
        while let Some((number, line)) = all.next() {
            let code = line.split("// ").next().unwrap_or_default().trim_end();
            if code == "#[cfg(test)]" {
                // What follows at the left margin is for tests alone, to its closing brace.
                let opens = all.next().is_some_and(|(_, line)| line.ends_with('{'));
                let _ = opens && all.any(|(_, line)| line == "}");
            } else if !code.is_empty() && !code.trim_start().starts_with("//") {
                let place = format!("src/{name}:{}", number + 1);
                let text = code.to_owned();
                lines.push(Line { place, text });
            }
        }
        Self { name, lines }
    }

    /// Where a line of code holds one of `words`.
    fn places(&self, words: &[&str]) -> Vec<String> {
        let found = |line: &&Line| words.iter().any(|word| line.text.contains(word));
        let found = self.lines.iter().filter(found);
        found
            .map(|line| format!("{}: {}", line.place, line.text.trim()))
            .collect()
    }
}

/// The places in files of `src/` that `wanted` names where one of `words` is found.
fn places(wanted: impl Fn(&str) -> bool, words: &[&str]) -> Vec<String> {
    let sources = Source::all();
    let wanted = sources.iter().filter(|source| wanted(&source.name));
    wanted.flat_map(|source| source.places(words)).collect()
}

#[test]
fn the_changelog_has_a_heading_for_this_version() {
    let version = manifest("version");
    let changelog = read("CHANGELOG.md");
    let mut headings = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    let is_own = |heading: &str| {
        let first = heading.split_whitespace().next().unwrap_or_default();
        first.trim_matches(['[', ']']) == version
    };
    assert!(headings.any(is_own), "no heading for {version}");
}

#[test]
fn the_readme_names_the_versions_of_the_manifest() {
    let readme = read("README.md");
    let (_, section) = readme
        .split_once("## Minimum Rust version")
        .expect("a heading for the MSRV");
    let stated = section.split_whitespace().next();
    assert_eq!(stated, Some(manifest("rust-version").as_str()));
    let version = manifest("version");
    for line in readme.lines() {
        if let Some(wanted) = line.strip_prefix("leasehold = \"") {
            assert!(version.starts_with(wanted.trim_end_matches('"')), "{line}");
        }
    }
}

#[test]
fn the_code_of_the_readme_is_compiled() {
    let included = places(
        |name| name == "lib.rs",
        &["#[doc = include_str!(\"../README.md\")]"],
    );
    assert_eq!(
        included.len(),
        1,
        "the README is not a doc test of src/lib.rs"
    );
    let readme = read("README.md");
    // The tests of documentation skip what is marked so.
    assert!(readme.contains("```rust") && !readme.contains("```rust,ignore"));
}

#[test]
fn every_script_says_what_it_takes_and_what_it_returns() {
    let scripts = files("lua");
    assert!(!scripts.is_empty());
    for path in scripts {
        let text = fs::read_to_string(&path).unwrap();
        let is_header = |line: &&str| line.starts_with("--");
        let header: Vec<_> = text.lines().take_while(is_header).collect();
        let code: Vec<_> = text.lines().skip(header.len()).collect();
        let (header, code) = (header.join("\n"), code.join("\n"));
        let name = path.display();
        assert!(
            header.contains("Returns"),
            "{name}: no word on what it returns"
        );
        if header.contains("Not a script by itself") {
            // It stands in front of others and is handed what they take.
            assert!(arguments(&code).is_empty(), "{name}: not handed in");
            continue;
        }
        assert!(arguments(&code).contains("KEYS[1]"), "{name}: no keys");
        assert_eq!(
            arguments(&header),
            arguments(&code),
            "{name}: named, and used"
        );
    }
}

/// `KEYS[1]`, `ARGV[2]` and so on, as far as `text` names them.
fn arguments(text: &str) -> BTreeSet<String> {
    let starts = text
        .match_indices("KEYS[")
        .chain(text.match_indices("ARGV["));
    starts
        .filter_map(|(at, _)| text[at..].split_inclusive(']').next())
        .map(String::from)
        .collect()
}

#[test]
fn no_source_file_is_longer_than_a_reader_can_take_in() {
    for source in Source::all() {
        let lines = source.lines.len();
        assert!(
            lines <= MOST_LINES,
            "src/{}: {lines} lines of code",
            source.name
        );
    }
}

#[test]
fn time_is_read_and_waited_for_in_one_place() {
    let clocks = [
        "Instant::now",
        "SystemTime::now",
        ".elapsed()",
        "clock_gettime",
    ];
    let waits = [
        "sleep",
        "wait_for(",
        "wait_until(",
        "wait_timeout",
        "park_timeout",
    ];
    // The command is a program beside the library, and keeps no lease's time.
    let library = |name: &str| name != "clock.rs" && !name.starts_with("bin/");
    let elsewhere = places(library, &[&clocks[..], &waits].concat());
    assert_eq!(elsewhere, Vec::<String>::new());
    let sleeps = places(|name| name.starts_with("bin/"), &["sleep"]);
    assert_eq!(sleeps, Vec::<String>::new());
    let there = places(|name| name == "clock.rs", &clocks);
    assert!(
        !there.is_empty(),
        "the clock has moved, and this test looks at nothing"
    );
}

#[test]
fn nothing_is_logged_but_through_the_shield_against_loggers_that_panic() {
    let macros = ["error!", "warn!", "info!", "debug!", "trace!", "log!"];
    let words = macros.map(|name| format!("log::{name}"));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let library = |name: &str| !name.starts_with("bin/");
    assert_eq!(places(library, &words), Vec::<String>::new());
    assert!(10 < places(library, &["say!("]).len());
}

#[test]
fn one_room_alone_knows_the_redis_crate() {
    let words = ["redis::", "extern crate redis"];
    // Of the command, `doctor` alone asks what the library has no question for.
    let may = ["server/", "bin/leasehold/doctor/"];
    let elsewhere = places(
        |name| !may.iter().any(|room| name.starts_with(room)),
        &words,
    );
    assert_eq!(elsewhere, Vec::<String>::new());
    assert!(!places(|name| name.starts_with("server/"), &words).is_empty());
}

#[test]
fn the_rooms_know_only_those_below_them() {
    // A room, and those that it must not know.
    let rooms: [(&str, &[&str]); 7] = [
        (
            "server/",
            &["queue", "keep", "acquire", "lock", "lease", "client"],
        ),
        (
            "queue/",
            &["server", "keep", "acquire", "lock", "lease", "client"],
        ),
        ("keep/", &["acquire", "lock", "lease", "client"]),
        ("acquire/", &["lock", "lease", "client"]),
        (
            "error/",
            &["server", "keep", "acquire", "lock", "lease", "client"],
        ),
        (
            "clock.rs",
            &[
                "server", "keep", "acquire", "lock", "lease", "client", "error", "token",
            ],
        ),
        (
            "token.rs",
            &["server", "keep", "acquire", "lock", "lease", "client"],
        ),
    ];
    for (room, above) in rooms {
        let words: Vec<_> = above
            .iter()
            .map(|module| format!("crate::{module}::"))
            .collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let is_there = |name: &str| name.starts_with(room);
        assert!(
            Source::all().iter().any(|source| is_there(&source.name)),
            "no {room}"
        );
        assert_eq!(places(is_there, &words), Vec::<String>::new());
        // Nothing is hidden in a list of imports.
        let lists = places(is_there, &["crate::{", "crate::*", "super::super"]);
        assert_eq!(lists, Vec::<String>::new());
    }
}

#[test]
fn nothing_of_one_machine_and_no_secret_is_in_the_files() {
    // In pieces, for this file is one of those that are searched.
    let traces = [
        concat!("/wo", "rk/"),
        concat!("/tmp/", "target"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("-----BE", "GIN "),
        concat!("gh", "p_"),
        concat!("github_", "pat_"),
        concat!("gl", "pat-"),
        concat!("AK", "IA"),
    ];
    let all = files("");
    assert!(50 < all.len(), "only {} files", all.len());
    for path in all {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for trace in traces {
            assert!(!text.contains(trace), "{} has `{trace}`", path.display());
        }
    }
}

#[test]
fn all_packages_come_from_the_public_registry() {
    let lock = read("Cargo.lock");
    let sources: Vec<_> = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .collect();
    assert!(20 < sources.len());
    let own = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    for source in sources {
        assert_eq!(source, own);
    }
}
