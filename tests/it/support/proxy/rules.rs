//! Which commands a rule is for, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use crate::support::resp;

/// Chooses commands by their words and by how often they came. A plain `"SET"` or `"CLIENT KILL"`
/// converts into the matcher for every command that begins so, letter case aside.
///
/// ```ignore
/// proxy.drop_reply(Matcher::command("SET").with_arg("order:1").once());
/// proxy.reset_before(Matcher::evalsha().nth(2));
/// ```
#[derive(Clone)]
pub struct Matcher {
    wanted: Arc<Predicate>,
    turns: Turns,
}

type Predicate = dyn Fn(&[String]) -> bool + Send + Sync;

/// Counted from 1, among the commands that match and have come since the rule was made.
#[derive(Clone, Copy)]
enum Turns {
    Every,
    Until(usize),
    Only(usize),
}

impl Matcher {
    pub fn any() -> Matcher {
        Matcher::when(|_| true)
    }

    /// Commands that begin with `words`: `SET`, `CLIENT KILL`.
    pub fn command(words: &str) -> Matcher {
        let words = String::from(words);
        Matcher::when(move |command| resp::begins_with(command, &words))
    }

    pub fn evalsha() -> Matcher {
        Matcher::command("EVALSHA")
    }

    pub fn any_of(names: &[&str]) -> Matcher {
        let names: Vec<String> = names.iter().map(|name| String::from(*name)).collect();
        Matcher::when(move |command| names.iter().any(|name| resp::begins_with(command, name)))
    }

    pub fn when(wanted: impl Fn(&[String]) -> bool + Send + Sync + 'static) -> Matcher {
        Matcher {
            wanted: Arc::new(wanted),
            turns: Turns::Every,
        }
    }

    /// And one of the words after the first is exactly `arg`.
    pub fn with_arg(self, arg: &str) -> Matcher {
        let (wanted, arg) = (self.wanted, String::from(arg));
        let wanted = Arc::new(move |command: &[String]| {
            wanted(command) && command.iter().skip(1).any(|word| *word == arg)
        });
        Matcher {
            wanted,
            turns: self.turns,
        }
    }

    /// The first one that comes.
    pub fn once(self) -> Matcher {
        self.first(1)
    }

    /// The first `count` of them.
    pub fn first(self, count: usize) -> Matcher {
        Matcher {
            turns: Turns::Until(count),
            ..self
        }
    }

    /// The `turn`th of them alone; the first one is 1.
    pub fn nth(self, turn: usize) -> Matcher {
        Matcher {
            turns: Turns::Only(turn),
            ..self
        }
    }
}

impl From<&str> for Matcher {
    fn from(words: &str) -> Matcher {
        Matcher::command(words)
    }
}

/// What becomes of a command.
#[derive(Clone)]
pub(super) enum Action {
    /// It stays in the proxy until the test lets it go.
    Hold,
    /// The server runs it; the reply stays in the proxy until the test lets it go.
    HoldReply,
    /// It never reaches the server, and no reply comes.
    Swallow,
    /// The server runs it, and its reply is thrown away.
    DropReply,
    /// The server runs it; its reply comes so much later, and what follows waits behind it.
    Delay(Duration),
    /// The client's connection is reset, and the command does not reach the server.
    ResetBefore,
    /// The server runs it; then the client's connection is reset in place of the reply.
    ResetAfter,
    /// These bytes are the reply; the server does not see the command.
    Answer(Vec<u8>),
    /// One of the above, or none, as the dice fall.
    Dice(Faults),
}

/// Random faults, the same ones for the same seed and the same order of commands.
///
/// ```ignore
/// proxy.random_faults("SET", Faults::seeded(7).drop_replies(0.02).resets(0.01));
/// ```
#[derive(Clone)]
pub struct Faults {
    state: u64,
    drop_replies: f64,
    resets: f64,
    delays: (f64, Duration),
}

impl Faults {
    pub fn seeded(seed: u64) -> Faults {
        Faults {
            state: seed,
            drop_replies: 0.0,
            resets: 0.0,
            delays: (0.0, Duration::ZERO),
        }
    }

    /// The share of commands (0 to 1) that are run and whose reply is dropped.
    pub fn drop_replies(self, share: f64) -> Faults {
        Faults {
            drop_replies: share,
            ..self
        }
    }

    /// The share of commands (0 to 1) at which the connection is reset, every second one before
    /// the server has seen the command and the others after it has run it.
    pub fn resets(self, share: f64) -> Faults {
        Faults {
            resets: share,
            ..self
        }
    }

    /// The share of commands (0 to 1) whose reply comes late, by at most this long.
    pub fn delays(self, share: f64, longest: Duration) -> Faults {
        Faults {
            delays: (share, longest),
            ..self
        }
    }

    fn roll(&mut self) -> Option<Action> {
        let dice = self.next();
        let (delays, longest) = self.delays;
        let reset = self.drop_replies + self.resets;
        if dice < self.drop_replies {
            Some(Action::DropReply)
        } else if dice < self.drop_replies + self.resets / 2.0 {
            Some(Action::ResetBefore)
        } else if dice < reset {
            Some(Action::ResetAfter)
        } else if dice < reset + delays {
            Some(Action::Delay(longest.mul_f64((dice - reset) / delays)))
        } else {
            None
        }
    }

    /// SplitMix64, which is good from any seed, scaled to 0..1.
    fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A matcher with its action, and how often it has been used.
pub(super) struct Rule {
    pub(super) id: usize,
    matcher: Matcher,
    action: Action,
    matched: usize,
    pub(super) hits: usize,
    /// It decides no more; its count stays.
    pub(super) ended: bool,
}

impl Rule {
    pub(super) fn new(id: usize, matcher: Matcher, action: Action) -> Rule {
        Rule {
            id,
            matcher,
            action,
            matched: 0,
            hits: 0,
            ended: false,
        }
    }

    /// What the rule does with this command; `None` where the command is not one of its own.
    fn consult(&mut self, command: &[String]) -> Option<Action> {
        if self.ended || !(self.matcher.wanted)(command) {
            return None;
        }
        self.matched += 1;
        let is_its_turn = match self.matcher.turns {
            Turns::Every => true,
            Turns::Until(last) => self.matched <= last,
            Turns::Only(turn) => self.matched == turn,
        };
        match &mut self.action {
            _ if !is_its_turn => None,
            Action::Dice(faults) => faults.roll(),
            action => Some(action.clone()),
        }
    }
}

/// The first rule that wants the command decides; each counts the command all the same, so that
/// "the second `SET`" does not depend on the rules beside it.
pub(super) fn decide(rules: &mut [Rule], command: &[String]) -> Option<(usize, Action)> {
    let mut decided = None;
    for rule in rules {
        if let Some(action) = rule.consult(command)
            && decided.is_none()
        {
            rule.hits += 1;
            decided = Some((rule.id, action));
        }
    }
    decided
}
