//! What comes back: in pieces, slowly, and what no Redis would ever say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::{HASTE, NEARLY_HASTE, hasty, patient};
use crate::bad_input::said;
use crate::support::{PATIENCE, Scripted, Step};
use crate::waiting::SLACK;

const A_MOMENT: Duration = Duration::from_millis(1);

/// What a server says that grants every lock and still has every record.
fn granting(command: &[String]) -> Step {
    match command[0].as_str() {
        "SET" => Step::reply("+OK\r\n"),
        "EVALSHA" => Step::reply(":1\r\n"),
        _ => Step::Healthy,
    }
}

fn acquire(client: &Client) -> Result<Option<Lease>, Error> {
    client.lock("order:1").build().unwrap().try_acquire()
}

/// A server whose reply to one command comes in the pieces that are set at the moment.
struct Split {
    server: Scripted,
    pieces: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Split {
    fn start(command: &'static str) -> Self {
        let pieces: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let own = Arc::clone(&pieces);
        let server = Scripted::start(move |_, words| match own.lock().clone() {
            pieces if words[0] == command && !pieces.is_empty() => Step::Pieces(pieces, A_MOMENT),
            _ => granting(words),
        });
        Self { server, pieces }
    }

    /// Makes `call` for every way to cut `reply` into two and into three pieces.
    fn each_way(&self, reply: &str, mut call: impl FnMut(&str)) {
        for first in 1..reply.len() {
            for second in first..reply.len() {
                let cuts = [&reply[..first], &reply[first..second], &reply[second..]];
                let pieces = cuts.iter().filter(|piece| !piece.is_empty());
                *self.pieces.lock() = pieces.map(|piece| piece.as_bytes().to_vec()).collect();
                call(&format!("{cuts:?}"));
            }
        }
        self.pieces.lock().clear();
    }
}

#[test]
fn a_lock_is_taken_wherever_the_reply_is_cut() {
    let split = Split::start("SET");
    let client = patient(&split.server.url());
    split.each_way("+OK\r\n", |cuts| {
        acquire(&client).unwrap().expect(cuts).release().unwrap();
    });
    split.each_way("$-1\r\n", |cuts| {
        assert!(acquire(&client).unwrap().is_none(), "{cuts}")
    });
    assert_eq!(split.server.connections(), 1);
}

#[test]
fn an_error_is_read_wherever_it_is_cut_and_its_link_goes_on() {
    let split = Split::start("SET");
    let client = patient(&split.server.url());
    split.each_way("-OOM no memory\r\n", |cuts| {
        let error = acquire(&client).unwrap_err();
        assert!(error.is_unavailable(), "{cuts}: {error:?}");
        assert!(
            said(&error)[1].contains("`OOM no memory`"),
            "{cuts}: {error:?}"
        );
    });
    split.each_way("-NOPERM no\r\n", |cuts| {
        assert!(acquire(&client).unwrap_err().is_refused(), "{cuts}");
    });
    acquire(&client).unwrap().unwrap().release().unwrap();
    assert_eq!(split.server.connections(), 1);
}

#[test]
fn a_record_is_read_wherever_the_reply_is_cut() {
    let split = Split::start("EVALSHA");
    let client = patient(&split.server.url());
    split.each_way("*3\r\n$3\r\na b\r\n:29000\r\n:1\r\n", |cuts| {
        let holder = client.inspect("order:1").unwrap().expect(cuts);
        assert_eq!(holder.remaining(), Some(Duration::from_secs(29)), "{cuts}");
        assert_eq!(holder.is_waited_for(), Some(true), "{cuts}");
    });
    split.each_way("$-1\r\n", |cuts| {
        assert_eq!(client.inspect("order:1").unwrap(), None, "{cuts}")
    });
    assert_eq!(split.server.connections(), 1);
}

#[test]
fn a_release_is_confirmed_and_a_role_is_read_wherever_the_reply_is_cut() {
    let split = Split::start("EVALSHA");
    let client = patient(&split.server.url());
    split.each_way(":1\r\n", |cuts| {
        let lease = acquire(&client).unwrap().unwrap();
        lease.renew().expect(cuts);
        lease.release().expect(cuts);
    });
    assert_eq!(split.server.connections(), 1);

    let split = Split::start("ROLE");
    let client = patient(&split.server.url());
    split.each_way("*2\r\n$5\r\nslave\r\n:0\r\n", |cuts| {
        // The answer is `:1`, which is no record: what decides is that a replica gave it.
        let error = client.inspect("order:1").unwrap_err();
        assert!(
            said(&error)[1].ends_with("is a replica"),
            "{cuts}: {error:?}"
        );
    });
}

#[test]
fn a_link_is_opened_wherever_the_first_reply_is_cut() {
    let info = "id=7 addr=127.0.0.1:1 laddr=127.0.0.1:2 fd=8 name=";
    let split = Split::start("CLIENT");
    let reply = format!("${}\r\n{info}\r\n", info.len());
    for at in 1..reply.len() {
        let (head, tail) = reply.as_bytes().split_at(at);
        *split.pieces.lock() = vec![head.to_vec(), tail.to_vec()];
        let lease = acquire(&patient(&split.server.url())).unwrap();
        lease.unwrap().release().unwrap();
        assert_eq!(split.server.connections(), at);
    }
}

#[test]
fn a_reply_that_trickles_completes() {
    let pause = Duration::from_millis(4);
    let server = Scripted::start(move |_, command| match command[0].as_str() {
        "SET" => Step::trickle("+OK\r\n", pause),
        "EVALSHA" => Step::trickle(":1\r\n", pause),
        "CLIENT" => Step::trickle("$12\r\nid=7 addr=a \r\n", pause),
        _ => Step::Healthy,
    });
    let client = patient(&server.url());
    let lease = acquire(&client).unwrap().unwrap();
    lease.renew().unwrap();
    lease.release().unwrap();
    assert_eq!(server.connections(), 1);
    assert_eq!(client.stats().unknown_resolved, 0);
}

/// Each byte comes well within the timeout, and the whole takes 8 s.
fn trickling() -> Step {
    Step::trickle(
        &format!("-OOM {}\r\n", "x".repeat(200)),
        Duration::from_millis(40),
    )
}

#[test]
fn a_reply_that_trickles_longer_than_the_timeout_fails_at_the_timeout_and_not_by_the_byte() {
    let server = Scripted::start(
        |connection, command| match (connection, command[0].as_str()) {
            (1, "SET") | (2, "ROLE") => trickling(),
            _ => granting(command),
        },
    );
    let client = hasty(&server.url());
    let start = Instant::now();
    let lease = acquire(&client)
        .unwrap()
        .expect("it is settled on another link");
    let took = start.elapsed();
    // The first link's timeout, and the second one's: its ROLE trickles as well.
    assert!(
        2 * NEARLY_HASTE <= took && took < 2 * HASTE + SLACK,
        "{took:?}"
    );
    assert_eq!((server.connections(), server.count("SET")), (3, 1));
    lease.release().unwrap();
    assert_eq!(client.stats().unknown_resolved, 1);
}

#[test]
fn a_link_whose_opening_trickles_fails_at_the_connect_timeout() {
    for command in ["CLIENT", "SCRIPT", "AUTH"] {
        let server = Scripted::start(move |_, words| {
            if words[0] == command {
                trickling()
            } else {
                granting(words)
            }
        });
        let client = Client::builder(&format!("redis://:word@{}", server.addr()));
        let client = client.connect_timeout(HASTE).build().unwrap();
        let start = Instant::now();
        let error = acquire(&client).unwrap_err();
        let took = start.elapsed();
        assert!(error.is_unavailable() && !error.is_unknown(), "{error:?}");
        said(&error);
        assert!(
            NEARLY_HASTE <= took && took < HASTE + SLACK,
            "{command}: {took:?}"
        );
        assert_eq!(server.count("SET"), 0);
    }
}

/// What is nothing that Redis says, or not what it says to any of our commands.
const NONSENSE: [&str; 14] = [
    "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "SSH-2.0-OpenSSH_9.6\r\n",
    "\0\0\0\0\r\n",
    "\r\n",
    "+OK\n",
    "+QUEUED\r\n",
    ":5\r\n",
    ":\r\n",
    "$3\r\nabc\r\n",
    "$3\r\nabcdef\r\n",
    "$999999999999\r\n",
    "*1000000\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    "-ERR nobody has ever heard of this\r\n",
];

/// The commands of each connection, by name, from its first `SET` or `EVALSHA` on.
type Used = Arc<Mutex<Vec<(usize, String)>>>;

/// A server that answers `command` on its first connection with `nonsense`.
fn first_says(command: &'static str, nonsense: &'static str) -> (Scripted, Used) {
    let used = Used::default();
    let own = Arc::clone(&used);
    let server = Scripted::start(move |connection, words| {
        own.lock().push((connection, words[0].clone()));
        if connection == 1 && words[0] == command {
            Step::reply(nonsense)
        } else {
            granting(words)
        }
    });
    (server, used)
}

/// Nothing was sent on the first connection after its first `command`.
#[track_caller]
fn assert_not_used_after(command: &str, used: &Used) {
    let used = used.lock();
    let of_first: Vec<_> = used
        .iter()
        .filter(|(connection, _)| *connection == 1)
        .collect();
    assert_eq!(
        of_first.last().map(|(_, name)| name.as_str()),
        Some(command),
        "{used:?}"
    );
    assert_eq!(
        of_first.iter().filter(|(_, name)| name == command).count(),
        1
    );
}

#[test]
fn nonsense_in_answer_to_an_acquisition_is_settled_on_another_link() {
    for nonsense in NONSENSE {
        let (server, used) = first_says("SET", nonsense);
        let client = patient(&server.url());
        let start = Instant::now();
        let lease = acquire(&client).unwrap().expect(nonsense);
        assert!(start.elapsed() < SLACK, "{nonsense} is waited on");
        assert_not_used_after("SET", &used);
        assert_eq!(
            (server.connections(), server.count("SET")),
            (2, 1),
            "{nonsense}"
        );
        lease.release().unwrap();
        acquire(&client).unwrap().unwrap().release().unwrap();
        assert_eq!(server.connections(), 2, "{nonsense}");
    }
}

#[test]
fn nonsense_in_answer_to_a_release_is_settled_on_another_link() {
    for nonsense in NONSENSE
        .into_iter()
        .chain(["+OK\r\n", "$-1\r\n", "*2\r\n:1\r\n:1\r\n"])
    {
        let (server, used) = first_says("EVALSHA", nonsense);
        let client = patient(&server.url());
        let start = Instant::now();
        acquire(&client)
            .unwrap()
            .unwrap()
            .release()
            .expect(nonsense);
        assert!(start.elapsed() < SLACK, "{nonsense} is waited on");
        assert_not_used_after("EVALSHA", &used);
        assert_eq!(server.connections(), 2, "{nonsense}");
        assert_eq!(client.stats().unknown_resolved, 1);
    }
}

#[test]
fn nonsense_in_answer_to_a_look_is_an_error_and_the_next_look_is_on_another_link() {
    for nonsense in NONSENSE
        .into_iter()
        .chain(["*1\r\n$1\r\nx\r\n", "*2\r\n:1\r\n:1\r\n"])
    {
        let (server, used) = first_says("EVALSHA", nonsense);
        let client = patient(&server.url());
        let start = Instant::now();
        let error = client.inspect("order:1").unwrap_err();
        assert!(error.is_unavailable(), "{nonsense}: {error:?}");
        said(&error);
        assert!(start.elapsed() < SLACK, "{nonsense} is waited on");
        assert_not_used_after("EVALSHA", &used);
        let _ = client.inspect("order:1");
        assert_eq!(server.connections(), 2, "{nonsense}");
    }
}

/// One reply of each sort: no RESP at all, RESP of the wrong kind, an error without a meaning.
const SORTS: [&str; 3] = [NONSENSE[0], NONSENSE[6], NONSENSE[13]];

/// More than the pauses between tries let through, and far less than a loop without them.
const MANY: usize = 40;

#[test]
fn an_acquisition_from_a_server_that_talks_nothing_but_nonsense_is_unknown() {
    for nonsense in SORTS {
        let server = Scripted::start(|_, command| match command[0].as_str() {
            "SET" | "EVALSHA" => Step::reply(nonsense),
            _ => Step::Healthy,
        });
        let error = acquire(&hasty(&server.url())).unwrap_err();
        assert!(error.is_unknown(), "{nonsense}: {error:?}");
        said(&error);
        assert_eq!(error.may_hold_until(), None);
        assert_eq!(server.count("SET"), 1, "its token must not be sent again");
        assert!(server.connections() < MANY, "{}", server.connections());
    }
}

#[test]
fn a_release_to_a_server_that_talks_nothing_but_nonsense_is_unknown() {
    for nonsense in SORTS {
        let server = Scripted::start(|_, command| match command[0].as_str() {
            "EVALSHA" => Step::reply(nonsense),
            _ => granting(command),
        });
        let lease = acquire(&hasty(&server.url())).unwrap().unwrap();
        let start = Instant::now();
        let error = lease.release().unwrap_err();
        assert!(error.is_unknown(), "{nonsense}: {error:?}");
        said(&error);
        assert!(error.may_hold_until() > Some(start));
        assert!(start.elapsed() < 4 * HASTE + SLACK, "{:?}", start.elapsed());
        assert!(server.connections() < MANY, "{}", server.connections());
    }
}

#[test]
fn a_stranger_who_talks_nonsense_from_the_first_word_is_unavailable() {
    for nonsense in [NONSENSE[0], NONSENSE[1], NONSENSE[10], NONSENSE[11]] {
        let server = Scripted::start(|_, _| Step::reply(nonsense));
        let client = patient(&server.url());
        for error in [acquire(&client).unwrap_err(), client.ping().unwrap_err()] {
            assert!(error.is_unavailable(), "{nonsense}: {error:?}");
            said(&error);
        }
        assert_eq!((server.connections(), server.count("SET")), (2, 0));
    }
}

/// Five hundred megabytes that are announced and do not come are waited for like any reply,
/// and nothing is set aside for them.
#[test]
fn a_long_reply_that_is_only_announced_costs_a_timeout() {
    let (server, _) = first_says("EVALSHA", "*2\r\n$536870912\r\nx");
    let client = hasty(&server.url());
    let start = Instant::now();
    assert!(client.inspect("order:1").unwrap_err().is_unavailable());
    assert!(start.elapsed() < HASTE + SLACK, "{:?}", start.elapsed());
}

#[test]
fn a_reply_that_nobody_has_asked_for_is_not_taken_for_the_next_one() {
    // The second one would confirm the release that follows.
    for both in ["+OK\r\n:1\r\n", "+OK\r\n+OK\r\n", "+OK\r\n:"] {
        let used = Used::default();
        let own = Arc::clone(&used);
        let server = Scripted::start(move |connection, command| {
            own.lock().push((connection, command[0].clone()));
            match (connection, command[0].as_str()) {
                (1, "SET") => Step::reply(both),
                (_, "EVALSHA") => Step::reply(":0\r\n"),
                _ => granting(command),
            }
        });
        let client = patient(&server.url());
        let error = acquire(&client).unwrap().unwrap().release().unwrap_err();
        assert!(
            error.is_lost(),
            "the server says that there is no record: {error:?}"
        );
        assert_not_used_after("SET", &used);
        assert_eq!(server.connections(), 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// The second server knows nothing of the token, and the lock is another's: whatever the
    /// first one babbles, only a true OK is one.
    #[test]
    fn no_bytes_at_all_make_a_lock_of_what_is_none(
        bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(&b"+-:$*\r\n0123456789OK"[..])], 0..40)
    ) {
        let is_ok = bytes.starts_with(b"+OK\r\n");
        let server = Scripted::start(move |connection, command| {
            match (connection, command[0].as_str()) {
                (1, "SET") => Step::Reply(bytes.clone()),
                (_, "SET") => Step::reply("$-1\r\n"),
                (_, "EVALSHA") => Step::reply(":0\r\n"),
                _ => Step::Healthy,
            }
        });
        let client = Client::builder(&server.url()).command_timeout(Duration::from_millis(30));
        match acquire(&client.build().unwrap()) {
            Ok(taken) => prop_assert!(taken.is_none() || is_ok),
            Err(error) => drop(said(&error)),
        }
    }
}

/// A node of a cluster, or a server behind one, of which this client was not told.
#[test]
fn a_cluster_that_sends_the_client_elsewhere_is_a_refusal_and_ends_a_wait_at_once() {
    let elsewhere = "-MOVED 3999 127.0.0.1:6381\r\n";
    let server = Scripted::start(move |_, command| match command[0].as_str() {
        "SET" => Step::reply(elsewhere),
        _ => Step::Healthy,
    });
    let lock = patient(&server.url()).lock("order:1").build().unwrap();
    for error in [
        lock.try_acquire().unwrap_err(),
        lock.acquire_timeout(PATIENCE).unwrap_err(),
    ] {
        assert!(error.is_refused(), "{error:?}");
    }
    let tries = (server.count("SET"), server.count("EVALSHA"));
    assert_eq!(tries, (2, 0), "it is not tried again");
}
