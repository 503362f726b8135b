//! Acquisitions whose outcome does not come back, or comes back too late.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Canceller, Error, Lease, LeaseState, Lock};

use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually, within};
use crate::wire::{
    TIMEOUT, acquisition, assert_nothing_unconditional, client, client_with, lock, records_set,
    take,
};

const KEY: &str = "order:1";

/// What a busy machine may add to a bound.
const SLACK: Duration = TIMEOUT;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The acquire family, each with the longest that it may take where no server is in reach; the
/// budget is [`BUDGET`] where there is one.
const FAMILY: [Acquire; 5] = [
    Acquire {
        call: |lock| lock.try_acquire().map(|lease| lease.expect("it is free")),
        bound: Duration::from_secs(2),
        waits: false,
    },
    Acquire {
        call: Lock::acquire,
        bound: Duration::from_secs(2),
        waits: false,
    },
    Acquire {
        call: |lock| lock.acquire_timeout(BUDGET),
        bound: Duration::from_millis(2_500),
        waits: true,
    },
    Acquire {
        call: |lock| {
            let lease = lock.acquire_cancellable(None, &Canceller::new())?;
            Ok(lease.expect("nobody has cancelled it"))
        },
        bound: Duration::from_secs(2),
        waits: false,
    },
    Acquire {
        call: |lock| {
            let deadline = Some(Instant::now() + BUDGET);
            let lease = lock.acquire_cancellable(deadline, &Canceller::new())?;
            Ok(lease.expect("nobody has cancelled it"))
        },
        bound: Duration::from_millis(2_500),
        waits: true,
    },
];

const BUDGET: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Acquire {
    call: fn(&Lock) -> Result<Lease, Error>,
    bound: Duration,
    /// Through outages, until the budget ends.
    waits: bool,
}

/// Side by side, because each of them runs into its bound.
fn for_each_of_the_family(test: impl Fn(Acquire) + Sync) {
    thread::scope(|scope| {
        for acquire in FAMILY {
            let test = &test;
            scope.spawn(move || test(acquire));
        }
    });
}

#[track_caller]
fn assert_all_differ(records: &[String]) {
    let mut sorted = records.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), records.len(), "{records:?}");
}

#[test]
fn a_lost_reply_to_set_leaves_the_caller_with_the_lease_once() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        let client = client(&proxy.url());
        let lock = client.lock(KEY).build().unwrap();
        proxy.drop_reply(Matcher::command("SET").once());
        let before = Instant::now();
        let lease = (acquire.call)(&lock).unwrap();
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        assert_eq!(proxy.count("CLIENT KILL"), 1);
        assert_eq!(lease.state(), LeaseState::Held);
        // It may count from the confirmation, and never from later than that.
        let at_most = ms(29_698) + before.elapsed();
        assert!(lease.remaining() <= at_most, "{:?}", lease.remaining());
        let stats = client.stats();
        assert_eq!((stats.acquired, stats.unknown_resolved), (1, 1));
        assert_eq!((stats.unknown_unresolved, stats.lost), (0, 0));
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
        assert_nothing_unconditional(&proxy.commands());
    }
}

#[test]
fn a_lost_reply_is_settled_for_a_wait_that_can_be_cancelled_too() {
    let server = Server::start();
    for acquire in &FAMILY[3..] {
        let proxy = Proxy::to(&server);
        let lock = lock(&proxy.url(), KEY);
        proxy.drop_reply(Matcher::command("SET").once());
        let lease = (acquire.call)(&lock).unwrap();
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        lease.release().unwrap();
    }
}

#[test]
fn a_lost_reply_to_a_fenced_acquisition_leaves_lease_and_fence() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        let lock = client(&proxy.url()).lock(KEY).fenced().build().unwrap();
        proxy.drop_reply(Matcher::evalsha().once());
        let lease = (acquire.call)(&lock).unwrap();
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        let counter = server.get("order:1:leasehold:fence").unwrap();
        assert_eq!(lease.fence().unwrap().to_string(), counter);
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        lease.release().unwrap();
    }
}

#[test]
fn a_fenced_acquisition_whose_counter_is_gone_is_not_handed_out_without_its_fence() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = client(&proxy.url()).lock(KEY).fenced().build().unwrap();
    proxy.drop_reply(Matcher::evalsha().once());
    let held = proxy.hold("CLIENT KILL");
    let attempt = thread::spawn(move || lock.try_acquire());
    held.wait();
    server.cmd(&["DEL", "order:1:leasehold:fence"]);
    held.send();
    // Given back, and made again with a token and a fence of its own.
    let lease = attempt.join().unwrap().unwrap().expect("it is free");
    let counter = server.get("order:1:leasehold:fence").unwrap();
    assert_eq!(lease.fence().unwrap().to_string(), counter);
    let records = records_set(&proxy.commands());
    assert_all_differ(&records);
    assert_eq!(records.last().unwrap(), lease.token().expose());
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}

#[test]
fn a_held_set_leaves_no_record_where_the_barrier_is_allowed() {
    let server = Server::start();
    for fenced in [false, true] {
        let proxy = Proxy::to(&server);
        let lock = client(&proxy.url()).lock(KEY);
        let lock = if fenced { lock.fenced() } else { lock };
        let lock = lock.build().unwrap();
        let held = proxy.hold(acquisition());
        // Both tries of it are held, so that it gives up.
        let error = lock.try_acquire().unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!(held.count(), 2);
        assert!(!held.deliver() && !held.deliver(), "the server ran one");
        assert_eq!(server.get(KEY), None);
        assert_all_differ(&records_set(&proxy.commands()));
        // And the lock is free at once, with nothing to wait for.
        held.end();
        take(&lock).release().unwrap();
    }
}

#[test]
fn a_held_set_whose_lock_another_took_meanwhile_is_settled_as_held() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock_of_another = lock(&server.url(), KEY);
    let lock = lock(&proxy.url(), KEY);
    let held = proxy.hold("SET");
    let attempt = thread::spawn(move || lock.try_acquire());
    held.wait();
    let other = take(&lock_of_another);
    assert!(attempt.join().unwrap().unwrap().is_none());
    assert!(!held.deliver());
    assert_eq!(server.get(KEY).as_deref(), Some(other.token().expose()));
}

#[test]
fn a_barrier_stands_though_the_answer_behind_it_was_lost() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = lock(&proxy.url(), KEY);
    let held = proxy.hold(Matcher::command("SET").once());
    proxy.drop_reply(Matcher::evalsha().once());
    let lease = take(&lock);
    // The connection is dead since the first try; a second one would find nothing to kill.
    assert_eq!(proxy.count("CLIENT KILL"), 1);
    assert_eq!(proxy.count("EVALSHA"), 2);
    assert!(!held.deliver());
    let records = records_set(&proxy.commands());
    assert_eq!(records.len(), 2);
    assert_eq!(records[1], lease.token().expose());
}

#[test]
fn a_held_set_is_made_again_behind_the_barrier_with_another_token() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        let lock = lock(&proxy.url(), KEY);
        let held = proxy.hold(Matcher::command("SET").once());
        let lease = (acquire.call)(&lock).unwrap();
        let records = records_set(&proxy.commands());
        assert_eq!(records.len(), 2);
        assert_ne!(records[0], records[1]);
        assert_eq!(lease.token().expose(), records[1]);
        lease.release().unwrap();
        assert!(!held.deliver(), "the server ran it");
        assert_eq!(server.get(KEY), None);
    }
}

/// Proxies and users for whom there is no barrier.
fn without_a_barrier(server: &Server) -> [(Proxy, String); 3] {
    let refused_kill = Proxy::to(server);
    refused_kill.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let refused_info = Proxy::to(server);
    refused_info.answer("CLIENT INFO", "-ERR unknown command 'CLIENT'\r\n");
    let user = Proxy::to(server);
    let urls = [
        refused_kill.url(),
        refused_info.url(),
        user.url_as("app", "secret"),
    ];
    let mut urls = urls.into_iter();
    [refused_kill, refused_info, user].map(|proxy| (proxy, urls.next().unwrap()))
}

const USER: &str =
    "user app on >secret ~order:* +set +eval +evalsha +get +del +pexpire +pttl +time +role";

#[test]
fn without_a_barrier_one_attempt_is_unknown_and_its_token_is_never_set_again() {
    let server = Server::with(&[USER]);
    for (proxy, url) in without_a_barrier(&server) {
        let client = client(&url);
        let lock = client.lock(KEY).build().unwrap();
        let held = proxy.hold(Matcher::command("SET").once());
        let error = lock.try_acquire().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(KEY), None));
        assert_eq!(client.stats().unknown_unresolved, 1);
        for _ in 0..3 {
            take(&lock).release().unwrap();
        }
        let lease = take(&lock);
        let records = records_set(&proxy.commands());
        assert_eq!(records.len(), 5);
        assert_all_differ(&records);
        // The late one finds the lock held, and costs nobody anything.
        assert!(held.deliver(), "there was no barrier");
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        lease.release().unwrap();
        assert_nothing_unconditional(&proxy.commands());
    }
}

#[test]
fn without_a_barrier_a_wait_goes_on_with_another_token() {
    let server = Server::with(&[USER]);
    for (proxy, url) in without_a_barrier(&server) {
        for acquire in &FAMILY[1..3] {
            let lock = lock(&url, KEY);
            let held = proxy.hold(Matcher::command("SET").once());
            let lease = (acquire.call)(&lock).unwrap();
            let records = records_set(&proxy.commands());
            assert_all_differ(&records);
            assert_eq!(records.last().unwrap(), lease.token().expose());
            assert!(held.deliver());
            assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
            lease.release().unwrap();
        }
    }
}

#[test]
fn without_a_barrier_a_wait_that_ends_says_that_an_attempt_is_unknown() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let lock = lock(&proxy.url(), KEY);
    let held = proxy.hold(Matcher::command("SET").once());
    server.cmd(&["SET", KEY, "theirs", "PX", "60000"]);
    // It was held by others all the time; but a record of ours may still come.
    let error = lock.acquire_timeout(ms(1_500)).unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    // A token that was answered "held" may be sent again, the one that was not answered never.
    let records = records_set(&proxy.commands());
    assert!(1 < records.len() && !records[1..].contains(&records[0]));
    assert!(held.deliver());
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
}

#[test]
fn a_cancelled_wait_whose_command_is_unknown_says_so_and_one_that_is_settled_does_not() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = lock(&proxy.url(), KEY);
    let canceller = Canceller::new();
    let held = proxy.hold_reply(Matcher::command("SET").once());
    let attempt = thread::spawn({
        let (lock, canceller) = (lock.clone(), canceller.clone());
        move || lock.acquire_cancellable(None, &canceller)
    });
    held.wait();
    canceller.cancel();
    held.deliver();
    let outcome = attempt.join().unwrap().unwrap();
    assert!(outcome.is_none(), "cancelled, though it had taken the lock");
    assert_eq!(server.get(KEY), None);

    let canceller = Canceller::new();
    proxy.swallow(Matcher::command("SET"));
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let attempt = thread::spawn({
        let (lock, canceller) = (lock.clone(), canceller.clone());
        move || lock.acquire_cancellable(Some(Instant::now() + PATIENCE), &canceller)
    });
    proxy.wait_for("SET", 2);
    canceller.cancel();
    let cancelled = Instant::now();
    let error = attempt.join().unwrap().unwrap_err();
    assert!(cancelled.elapsed() < TIMEOUT + SLACK);
    assert!(error.is_unknown(), "{error:?}");
}

/// A connection of somebody else.
struct Stranger(BufReader<TcpStream>);

impl Stranger {
    fn connect(server: SocketAddr) -> Stranger {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Stranger(BufReader::new(stream))
    }

    fn id(&mut self) -> Option<u64> {
        self.0.get_mut().write_all(b"CLIENT ID\r\n").ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(':')?.parse().ok()
    }
}

#[test]
fn a_restarted_servers_stranger_with_the_old_id_is_not_killed() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    // The id is to lie above those that the start of a server uses up.
    for _ in 0..100 {
        Stranger::connect(server.addr()).id().unwrap();
    }
    let lock = client_with(&proxy.url(), PATIENCE)
        .lock(KEY)
        .build()
        .unwrap();
    let held = proxy.hold(Matcher::command("SET").once());
    let handshake = proxy.hold(Matcher::command("CLIENT INFO").nth(2));
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    held.wait();
    let line = server.clients().pop().expect("the held client");
    let old_id: u64 = line
        .strip_prefix("id=")
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap();
    assert!(100 < old_id);
    server.restart();
    handshake.wait();
    let mut strangers = Vec::new();
    loop {
        let mut stranger = Stranger::connect(server.addr());
        let id = stranger.id().unwrap();
        assert!(id <= old_id, "somebody else got the id {old_id}");
        strangers.push(stranger);
        if id == old_id {
            break;
        }
    }
    handshake.send();
    let lease = attempt.join().unwrap().unwrap();
    let commands = proxy.commands();
    let kill = commands
        .iter()
        .find(|words| words.starts_with(&[String::from("CLIENT"), String::from("KILL")]));
    assert_eq!(kill.unwrap()[3], old_id.to_string(), "it has tried");
    assert_eq!(
        strangers.last_mut().and_then(Stranger::id),
        Some(old_id),
        "the stranger lives"
    );
    // What a server says that killed nothing is no barrier: the token is not set again.
    let records = records_set(&commands);
    assert_eq!(records.len(), 2);
    assert_ne!(records[0], records[1]);
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}

#[test]
fn a_refused_connection_is_unavailable_at_once_or_when_the_budget_ends() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.refuse_connections();
    for_each_of_the_family(|acquire| {
        let lock = lock(&proxy.url(), KEY);
        let begun = Instant::now();
        let error = (acquire.call)(&lock).unwrap_err();
        let took = begun.elapsed();
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(KEY), None));
        if acquire.waits {
            assert!(BUDGET <= took && took < acquire.bound + SLACK, "{took:?}");
        } else {
            assert!(took < TIMEOUT, "{took:?}");
        }
    });
}

#[test]
fn a_silent_server_is_unavailable_within_the_bound() {
    let server = Server::start();
    for_each_of_the_family(|acquire| {
        let proxy = Proxy::to(&server);
        proxy.swallow_everything();
        let lock = lock(&proxy.url(), KEY);
        let outcome = within(acquire.bound + SLACK, move || (acquire.call)(&lock));
        let error = outcome.unwrap_err();
        // Nothing but the opening of a link was ever sent.
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!(proxy.count("SET"), 0);
    });
}

#[test]
fn a_server_that_falls_silent_leaves_an_unknown_within_the_bound() {
    let server = Server::start();
    for_each_of_the_family(|acquire| {
        let proxy = Proxy::to(&server);
        let key = format!("order:{:?}", thread::current().id());
        let lock = lock(&proxy.url(), &key);
        take(&lock).release().unwrap();
        proxy.swallow_everything();
        let outcome = within(acquire.bound + SLACK, move || (acquire.call)(&lock));
        let error = outcome.unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(&*key), None));
        assert_all_differ(&records_set(&proxy.commands()));
    });
}

#[test]
fn a_wait_with_a_budget_outlives_a_silence() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.swallow_everything();
    let lock = client_with(&proxy.url(), ms(150))
        .lock(KEY)
        .build()
        .unwrap();
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    eventually("it has tried again and again", PATIENCE, || {
        3 <= proxy.connections()
    });
    proxy.heal();
    let lease = attempt.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
    assert_eq!(lease.state(), LeaseState::Held);
}

#[test]
fn a_wait_with_a_budget_outlives_the_restart_of_the_server() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    take(&lock).release().unwrap();
    server.kill();
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    server.restart();
    let lease = attempt.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}

#[test]
fn a_wait_with_a_budget_outlives_refused_connections() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.refuse_connections();
    let lock = lock(&proxy.url(), KEY);
    let error = lock.acquire_timeout(ms(50)).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    proxy.heal();
    let lease = attempt.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}

#[test]
fn a_link_that_was_reset_while_it_lay_idle_costs_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client(&proxy.url());
    let lock = client.lock(KEY).build().unwrap();
    for _ in 0..5 {
        take(&lock).release().unwrap();
        proxy.reset_all();
        // The reset is here, on loopback, when the proxy has made it: the command cannot go out.
        let lease = take(&lock);
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        lease.release().unwrap();
    }
    let stats = client.stats();
    assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (0, 0));
    assert_eq!(stats.reconnects, 5);
}

#[test]
fn a_reset_in_place_of_the_reply_is_settled() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        proxy.reset_after(Matcher::command("SET").once());
        let lock = lock(&proxy.url(), KEY);
        let lease = (acquire.call)(&lock).unwrap();
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        lease.release().unwrap();
    }
}

#[test]
fn a_reset_before_the_command_is_settled() {
    let server = Server::start();
    for acquire in FAMILY {
        let proxy = Proxy::to(&server);
        proxy.reset_before(Matcher::command("SET").once());
        let lock = lock(&proxy.url(), KEY);
        // The client cannot tell it from a reset that comes after. The server can: the
        // connection is dead, and no record of it is there.
        let lease = (acquire.call)(&lock).unwrap();
        let records = records_set(&proxy.commands());
        assert_eq!(records.len(), 2);
        assert_ne!(records[0], records[1]);
        assert_eq!(lease.token().expose(), records[1]);
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
    }
}

#[test]
fn a_confirmation_within_the_danger_margin_is_given_back_and_not_handed_out() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(2_000));
    // Valid for 988 ms, of which 800 are danger: 188 ms for the confirmation.
    let lock = client.lock(KEY).ttl(ms(1_000)).danger(ms(800));
    let lock = lock.without_renewal().build().unwrap();
    take(&lock).release().unwrap();
    proxy.delay_replies(ms(250));
    let error = lock.try_acquire().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert_eq!(server.get(KEY), None, "given back");
    // A compare-and-delete was sent for each, so that none may be set again.
    assert_all_differ(&records_set(&proxy.commands()));
    assert_eq!(client.stats().acquired, 1);
}

#[test]
fn a_confirmation_after_the_expiry_is_not_handed_out_and_takes_nothing_from_others() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let brief = client_with(&proxy.url(), PATIENCE).lock(KEY).ttl(ms(100));
    let brief = brief.without_renewal().build().unwrap();
    let held = proxy.hold_reply(Matcher::command("SET").once());
    let attempt = thread::spawn(move || brief.try_acquire());
    held.wait();
    eventually("the record expires", PATIENCE, || server.get(KEY).is_none());
    let other = take(&lock(&server.url(), KEY));
    held.deliver();
    let outcome = attempt.join().unwrap();
    assert!(
        matches!(&outcome, Ok(None)) || outcome.as_ref().is_err_and(Error::is_unavailable),
        "{outcome:?}"
    );
    assert_eq!(server.get(KEY).as_deref(), Some(other.token().expose()));
    other.release().unwrap();
}

#[test]
fn a_lease_never_outlives_its_record_whatever_delays_the_reply() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), PATIENCE);
    let lock = client.lock(KEY).ttl(ms(900)).danger(ms(1));
    let lock = lock.without_renewal().build().unwrap();
    let held = proxy.hold_reply(Matcher::command("SET").once());
    let attempt = thread::spawn(move || lock.try_acquire());
    held.wait();
    // The reply is a third of the ttl late.
    eventually("time passes", PATIENCE, || server.pttl(KEY) < 600);
    held.deliver();
    let lease = attempt.join().unwrap().unwrap().expect("it is free");
    eventually("the record expires", PATIENCE, || {
        let is_gone = server.get(KEY).is_none();
        let is_lost = lease.state() == LeaseState::Lost;
        assert!(is_lost || !is_gone, "it counts from before the command");
        is_gone
    });
}
