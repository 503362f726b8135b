//! Another process that wants the lock: this program once more, told what to do line by line.

use std::env;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use leasehold::{Client, Lease};

use super::clock::now;
use super::slice::{PATIENCE, Turn, Window};
use super::wake::Baton;

/// The first word of its command line.
pub(crate) const CONTEND: &str = "contend";

/// How a contender takes the lock and hands it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Leasehold,
    Bare,
    /// [`Way::Bare`] with one round trip more.
    Detour,
}

impl Way {
    const ALL: [Self; 3] = [Self::Leasehold, Self::Bare, Self::Detour];

    const fn word(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Bare => "bare",
            Self::Detour => "detour",
        }
    }

    fn of(word: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|way| way.word() == word);
        found.ok_or_else(|| format!("no way to take a lock: {word}"))
    }
}

/// A handle on it. It ends with the handle, or when this process does.
pub(crate) struct Contender {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Contender {
    pub(crate) fn start(url: &str, key: &str) -> Result<Self, String> {
        let program = env::current_exe().map_err(text)?;
        let mut command = Command::new(program);
        command.args([CONTEND, url, key]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(text)?;
        let stdin = child.stdin.take().expect("it is a pipe");
        let stdout = child.stdout.take().expect("it is a pipe");
        let mut contender = Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        };
        contender.hear("ready")?;
        Ok(contender)
    }

    /// The bare lock's key, where `key` is leasehold's.
    pub(crate) fn bare_key(key: &str) -> String {
        format!("{key}:bare")
    }

    /// Begins to take the lock.
    pub(crate) fn ask(&mut self, way: Way) -> Result<(), String> {
        self.tell(format_args!("take {}", way.word()))?;
        self.hear("asked").map(drop)
    }

    /// Waits until it has what it has asked for, and returns when it got it.
    pub(crate) fn acquired(&mut self) -> Result<Duration, String> {
        moment(&self.hear("acquired")?)
    }

    /// Nothing comes back: an answer would wake this process while the next one is woken.
    pub(crate) fn hand_on(&mut self, way: Way) -> Result<(), String> {
        self.tell(format_args!("hand-on {}", way.word()))
    }

    /// When it began to hand the lock on.
    pub(crate) fn handed_on(&mut self) -> Result<Duration, String> {
        self.tell("when")?;
        moment(&self.hear("handed-on")?)
    }

    /// Begins to take turns at once, until `window` is over.
    pub(crate) fn contend(&mut self, window: Window, hold: Duration) -> Result<(), String> {
        let [begin, end, hold] = [window.begin, window.end, hold].map(|time| time.as_nanos());
        self.tell(format_args!("turns {begin} {end} {hold}"))
    }

    pub(crate) fn turns(&mut self) -> Result<Vec<Turn>, String> {
        let line = self.hear("turns")?;
        line.split_whitespace().map(turn).collect()
    }

    fn tell(&mut self, line: impl Display) -> Result<(), String> {
        writeln!(self.stdin, "{line}").map_err(|error| format!("a contender is gone: {error}"))
    }

    /// What follows `word`, with which the next line must begin.
    fn hear(&mut self, word: &str) -> Result<String, String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(text)?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None if line.is_empty() => Err(format!("a contender has ended before `{word}`")),
            None => Err(format!("`{word}` was to come from a contender, not {line}")),
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of the standard input. At its end the process ends, whatever it waits for: whoever
/// has started it is gone, and its server as well.
fn told() -> Receiver<String> {
    let (telling, told) = channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let _ = telling.send(line);
        }
        process::exit(0);
    });
    told
}

/// What a contender does until its standard input ends.
pub(crate) fn contend(url: &str, key: &str) -> Result<(), String> {
    let client = Client::open(url).map_err(text)?;
    let lock = client.lock(key).build().map_err(text)?;
    let mut baton = Baton::connect(url, &Contender::bare_key(key)).map_err(text)?;
    let mut held: Option<Lease> = None;
    let mut handed_on = Duration::ZERO;
    // Each line is sent as it ends.
    println!("ready");
    for line in told() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["take", way] => {
                let way = Way::of(way)?;
                println!("asked");
                if way == Way::Leasehold {
                    held = Some(lock.acquire_timeout(PATIENCE).map_err(text)?);
                } else {
                    baton.take(way == Way::Detour);
                }
                let acquired = now();
                println!("acquired {}", acquired.as_nanos());
            }
            ["hand-on", way] if Way::of(way)? == Way::Leasehold => {
                let lease = held.take().ok_or("it holds nothing")?;
                handed_on = now();
                lease.release().map_err(text)?;
            }
            ["hand-on", _] => handed_on = baton.hand_on(),
            ["when"] => println!("handed-on {}", handed_on.as_nanos()),
            ["turns", begin, end, hold] => {
                let (begin, end) = (moment(begin)?, moment(end)?);
                let hold = moment(hold)?;
                let turns = Window { begin, end }.fill(|| Turn::at(&lock, hold));
                let turns: Vec<String> = turns.iter().map(turn_text).collect();
                println!("turns {}", turns.join(" "));
            }
            _ => return Err(format!("not a thing to tell a contender: {line}")),
        }
    }
    Ok(())
}

fn turn_text(turn: &Turn) -> String {
    let moments = [turn.asked, turn.acquired, turn.releasing, turn.released];
    moments
        .map(|moment| moment.as_nanos().to_string())
        .join(",")
}

fn turn(text: &str) -> Result<Turn, String> {
    let moments = text.split(',').map(moment).collect::<Result<Vec<_>, _>>()?;
    let [asked, acquired, releasing, released] = moments[..] else {
        return Err(format!("not a turn: {text}"));
    };
    Ok(Turn {
        asked,
        acquired,
        releasing,
        released,
    })
}

fn moment(text: &str) -> Result<Duration, String> {
    let nanos = text.parse();
    let nanos = nanos.map_err(|_| format!("not a number of nanoseconds: {text}"))?;
    Ok(Duration::from_nanos(nanos))
}

fn text(error: impl Display) -> String {
    error.to_string()
}
