//! Forked processes: what a child inherits is inert, and its parent does not notice the child.
//!
//! The forking is done by a process of its own: a copy of the test process would be a copy of
//! its harness, of other tests' servers and of their locks too.

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fork::{Fork, fork, waitpid_nohang};
use leasehold::{Canceller, Client, Error, Lease, LeaseState, Lock};
use rustix::process::{Pid, Signal, kill_process};

use crate::links::patient;
use crate::support::children::{self, Child};
use crate::support::{Monitor, PATIENCE, Server, eventually};

#[test]
fn a_forked_child_neither_releases_nor_uses_what_it_has_inherited() {
    let server = Server::start();
    let url = server.url();
    let mut child = Child::run("forked::forks_with_two_leases", &[("URL", &url)]);
    assert_eq!(child.expect_line(PATIENCE), "two leases");
    let record = |key| (server.get(key).expect("a record"), server.clients().len());
    let before = [record("order:1"), record("order:2")];
    let monitor = Monitor::on(&server);
    child.send("fork");
    assert_eq!(child.expect_line(2 * PATIENCE), "forked");
    let inherited = ["order:1", "order:2", "order:3"];
    for command in monitor.commands() {
        let uses = command
            .iter()
            .any(|word| inherited.contains(&word.as_str()));
        assert!(!uses, "the child has sent {command:?}");
    }
    assert_eq!([record("order:1"), record("order:2")], before);
    child.send("go on");
    assert_eq!(child.expect_line(PATIENCE), "released");
    assert_eq!((server.get("order:1"), server.get("order:2")), (None, None));
    assert!(child.wait(PATIENCE).success());
}

#[test]
fn no_child_hangs_when_other_threads_were_inside_the_client_at_the_fork() {
    let server = Server::start();
    let url = server.url();
    let mut child = Child::run(
        "forked::forks_in_the_middle_of_everything",
        &[("URL", &url)],
    );
    assert_eq!(
        child.expect_line(6 * PATIENCE),
        "all children have ended well"
    );
    assert!(child.wait(PATIENCE).success());
}

#[test]
fn a_parent_renews_its_lease_on_though_a_child_was_forked_which_has_no_threads_of_ours() {
    let server = Server::start();
    let url = server.url();
    let mut child = Child::run("forked::forks_while_it_renews", &[("URL", &url)]);
    assert_eq!(child.expect_line(PATIENCE), "held");
    let record = server.get("order:1").expect("a record");
    child.send("fork");
    assert_eq!(
        child.expect_line(2 * PATIENCE),
        "the forked child has ended"
    );
    assert_eq!(server.get("order:1"), Some(record.clone()));
    child.send("go on");
    assert_eq!(child.expect_line(2 * PATIENCE), "renewed");
    assert_eq!(server.get("order:1"), Some(record));
    child.send("release");
    assert!(child.wait(PATIENCE).success());
    assert_eq!(server.get("order:1"), None);
}

#[test]
fn no_child_hangs_that_drops_the_last_client_while_its_background_was_at_work() {
    let server = Server::start();
    let url = server.url();
    let role = "forked::forks_while_the_background_is_busy";
    let mut child = Child::run(role, &[("URL", &url)]);
    assert_eq!(
        child.expect_line(6 * PATIENCE),
        "all children have ended well"
    );
    assert!(child.wait(PATIENCE).success());
}

#[test]
fn forks_while_it_renews() {
    let Some(parent) = children::parent() else {
        return;
    };
    let ttl = Duration::from_millis(900);
    let client = patient(&parent.var("URL"));
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    let lock = client.lock("order:1").ttl(ttl);
    let lock = lock.on_lost(move |_| tell.store(true, Ordering::Relaxed));
    let lock = lock.build().unwrap();
    let lease = lock.acquire().unwrap();
    parent.say("held");
    parent.hear();
    assert!(2 < threads().len());
    match fork().unwrap() {
        Fork::Child => finish(|| {
            let names = threads();
            // The one that forked, which the harness has named after the test.
            expect("the number of threads", names.len() == 1)?;
            let of_ours = names.iter().any(|name| name.starts_with("leasehold-"));
            expect("the name of the thread", !of_ours)?;
            check_inherited(&client, &lock, &lease)?;
            // Longer than the parent could do without renewing.
            let begun = Instant::now();
            eventually("the ttl passes", PATIENCE, || ttl < begun.elapsed());
            drop(lease);
            drop((lock, client));
            expect("on_lost", !told.load(Ordering::Relaxed))
        }),
        Fork::Parent(pid) => assert_ends_well(pid),
    }
    lease.check().unwrap();
    parent.say("the forked child has ended");
    parent.hear();
    let before = client.stats().renewals_ok;
    eventually("renewals go on", PATIENCE, || {
        lease.check().unwrap();
        before + 3 < client.stats().renewals_ok
    });
    assert_eq!(client.stats().reconnects, 0);
    assert!(!told.load(Ordering::Relaxed));
    parent.say("renewed");
    parent.hear();
    lease.release().unwrap();
}

#[test]
fn forks_while_the_background_is_busy() {
    let Some(parent) = children::parent() else {
        return;
    };
    // Nobody else has a handle of the client, so that its last one is dropped in each child.
    let brief = Duration::from_millis(20);
    let client = Client::builder(&parent.var("URL"))
        .connect_timeout(PATIENCE)
        .command_timeout(brief)
        .build()
        .unwrap();
    let mut leases: Vec<Lease> = (0..500)
        .map(|own| {
            // Valid for 29,698 ms: it is watched as closely as it is renewed.
            let lock = client.lock(format!("busy:{own}")).renew_every(brief);
            let lock = lock.danger(Duration::from_millis(29_600));
            let lock = lock.on_danger(|_| {}).on_lost(|_| {});
            lock.build().unwrap().acquire_timeout(PATIENCE).unwrap()
        })
        .collect();
    for _ in 0..1_000 {
        match fork().unwrap() {
            Fork::Child => finish(|| {
                // One by its release, the others by their drop.
                let lease = leases.pop().map(Lease::release);
                expect("release", refused(lease.and_then(Result::err)))?;
                drop(leases);
                drop(client);
                Ok(())
            }),
            Fork::Parent(pid) => assert_ends_well(pid),
        }
    }
    assert!(1_000 < client.stats().renewals_ok);
    assert!(leases.iter().all(Lease::is_held));
    drop(leases);
    parent.say("all children have ended well");
}

/// The names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.flatten().map(|task| task.path().join("comm"));
    names.flat_map(fs::read_to_string).collect()
}

#[test]
fn forks_with_two_leases() {
    let Some(parent) = children::parent() else {
        return;
    };
    let client = patient(&parent.var("URL"));
    let lock = client.lock("order:1").build().unwrap();
    let lease = lock.acquire().unwrap();
    let dropped = client.lock("order:2").fenced().build().unwrap();
    let dropped = dropped.acquire().unwrap();
    parent.say("two leases");
    parent.hear();
    match fork().unwrap() {
        Fork::Child => finish(|| {
            check_inherited(&client, &lock, &lease)?;
            expect("release", refused(lease.release().err()))?;
            drop(dropped);
            drop(lock);
            drop(client);
            locks_by_itself(&parent.var("URL"))
        }),
        Fork::Parent(pid) => assert_ends_well(pid),
    }
    parent.say("forked");
    parent.hear();
    lease.check().unwrap();
    lease.renew().unwrap();
    lease.verify().unwrap();
    lease.release().unwrap();
    dropped.release().unwrap();
    let stats = client.stats();
    assert_eq!((stats.released, stats.lost, stats.reconnects), (2, 0, 0));
    parent.say("released");
}

#[test]
fn forks_in_the_middle_of_everything() {
    let Some(parent) = children::parent() else {
        return;
    };
    let url = parent.var("URL");
    let client = Client::builder(&url)
        .connect_timeout(PATIENCE)
        .command_timeout(PATIENCE)
        // Fewer than threads, so that somebody always waits for a turn.
        .max_links(2)
        .build()
        .unwrap();
    let lock = client.lock("order:1").ttl(60 * PATIENCE).build().unwrap();
    let lease = lock.acquire().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..4)
        .map(|own| {
            let (lock, over) = (client.lock(format!("busy:{}", own / 2)), Arc::clone(&over));
            // With callbacks it goes into the schedule of the watch, too, and out of it.
            let lock = lock.on_danger(|_| {}).on_lost(|_| {}).build().unwrap();
            thread::spawn(move || {
                let mut cycles = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    lock.acquire().unwrap().release().unwrap();
                    cycles += 1;
                }
                cycles
            })
        })
        .collect();
    let watchers: Vec<_> = (0..2)
        .map(|_| {
            let (watch, over) = (lease.watch(), Arc::clone(&over));
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(watch.wait_danger(Duration::ZERO), LeaseState::Held);
                }
            })
        })
        .collect();
    for turn in 0..60 {
        match fork().unwrap() {
            Fork::Child => finish(|| {
                check_inherited(&client, &lock, &lease)?;
                if turn % 2 == 0 {
                    expect("release", refused(lease.release().err()))?;
                } else {
                    // It is the parent's token that comes back, and the parent keeps the lock.
                    drop(lease.detach());
                }
                drop(lock);
                drop(client);
                // Not a client of the child's own: parking_lot's table may have been caught
                // locked, see the crate docs.
                Ok(())
            }),
            Fork::Parent(pid) => assert_ends_well(pid),
        }
        lease.check().unwrap();
    }
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        assert!(0 < thread.join().unwrap());
    }
    watchers
        .into_iter()
        .for_each(|watcher| watcher.join().unwrap());
    lease.release().unwrap();
    assert_eq!(
        client.stats().reconnects,
        0,
        "the children have left the links alone"
    );
    parent.say("all children have ended well");
}

/// Everything that a child may call on what it has inherited.
fn check_inherited(client: &Client, lock: &Lock, lease: &Lease) -> Result<(), String> {
    let mut calls = vec![
        ("ping", client.ping().err()),
        ("inspect", client.inspect("order:1").err()),
        ("try_acquire", lock.try_acquire().err()),
        ("acquire", lock.acquire().err()),
        ("acquire_timeout", lock.acquire_timeout(PATIENCE).err()),
        (
            "acquire_deadline",
            lock.acquire_deadline(Instant::now()).err(),
        ),
    ];
    let canceller = Canceller::new();
    calls.push((
        "acquire_cancellable",
        lock.acquire_cancellable(None, &canceller).err(),
    ));
    let other = client
        .lock("order:3")
        .fenced()
        .build()
        .map_err(|e| e.to_string())?;
    calls.push(("acquire of a new lock", other.try_acquire().err()));
    calls.push(("adopt", lock.adopt(lease.token().clone()).err()));
    for (call, error) in calls {
        let is_config = error.is_some_and(|error| error.is_config() && !error.is_lost());
        expect(call, is_config)?;
    }
    let watch = lease.watch();
    for (call, error) in [
        ("check", lease.check().err()),
        ("ensure", lease.ensure(Duration::from_millis(100)).err()),
        ("renew", lease.renew().err()),
        ("verify", lease.verify().err()),
        ("check of a watch", watch.check().err()),
    ] {
        expect(call, refused(error))?;
    }
    let is_lost = lease.state() == LeaseState::Lost && watch.state() == LeaseState::Lost;
    expect("state", is_lost && !lease.is_held())?;
    let end_of_wait = watch.wait_danger(Duration::MAX);
    expect("wait_danger", end_of_wait == LeaseState::Lost)?;
    expect(
        "remaining",
        lease.remaining().is_zero() && watch.remaining().is_zero(),
    )?;
    expect(
        "Debug",
        format!("{client:?} {lock:?} {lease:?} {watch:?}").contains("Lost"),
    )?;
    expect("stats", 0 < client.stats().acquired)
}

/// Both: not held any more, and of another process.
fn refused(error: Option<Error>) -> bool {
    error.is_some_and(|error| error.is_lost() && error.is_config())
}

/// A client that was opened in the child works there, also when it has to wait.
fn locks_by_itself(url: &str) -> Result<(), String> {
    let work = || -> Result<(), Error> {
        let lock = patient(url).lock("child").build()?;
        let lease = lock.acquire_timeout(PATIENCE)?;
        let again = lock.acquire_timeout(Duration::from_millis(10));
        assert!(again.is_err_and(|error| error.is_timeout()));
        lease.release()
    };
    work().map_err(|error| format!("a client of the child's own: {error:?}"))
}

fn expect(call: &str, as_documented: bool) -> Result<(), String> {
    if as_documented {
        Ok(())
    } else {
        Err(format!("{call} is not as documented in a forked child"))
    }
}

/// The end of a forked child. It must not go back into the harness, of which it has a copy.
fn finish(work: impl FnOnce() -> Result<(), String>) -> ! {
    let wrong = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => process::exit(0),
        Ok(Err(wrong)) => wrong,
        Err(_) => String::from("it panicked"),
    };
    let _ = writeln!(std::io::stderr(), "forked child: {wrong}");
    process::exit(1)
}

#[track_caller]
fn assert_ends_well(pid: i32) {
    let patience_ends = Instant::now() + PATIENCE;
    let mut status = None;
    eventually("the child has ended, or is late", 2 * PATIENCE, || {
        status = waitpid_nohang(pid).unwrap();
        status.is_some() || patience_ends < Instant::now()
    });
    if status.is_none() {
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
    assert_eq!(
        status,
        Some(0),
        "the forked child has failed, or hangs where there is no status"
    );
}
