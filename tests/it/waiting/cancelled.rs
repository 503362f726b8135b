//! Waits that somebody else ends.

use std::time::{Duration, Instant};

use leasehold::{Canceller, Client, Error, Lease};

use super::{Aside, SLACK, hold, lock, wait_until_waiting};
use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::records_set;

const COMMAND: Duration = Duration::from_secs(1);

/// Opening a link may take long, so that only the command timeout can end a wait in time.
fn client(proxy: &Proxy) -> Client {
    let client = Client::builder(&proxy.url()).connect_timeout(2 * PATIENCE);
    client.command_timeout(COMMAND).build().unwrap()
}

/// A wait that has begun, with or without a deadline far away, and its end.
struct Wait {
    canceller: Canceller,
    result: Aside<Result<Option<Lease>, Error>>,
}

impl Wait {
    fn start(client: &Client, deadline: Option<Duration>) -> Self {
        let canceller = Canceller::new();
        let (lock, own) = (lock(client), canceller.clone());
        let deadline = deadline.map(|span| Instant::now() + span);
        let result = Aside::start(move || lock.acquire_cancellable(deadline, &own));
        Self { canceller, result }
    }

    /// Cancels, and gives what came of the wait if that came in time.
    #[track_caller]
    fn cancel(self) -> Result<Option<Lease>, Error> {
        let start = Instant::now();
        self.canceller.cancel();
        let result = self.result.value();
        let took = start.elapsed();
        assert!(took < COMMAND + SLACK, "{took:?}");
        result
    }
}

const DEADLINES: [Option<Duration>; 2] = [None, Some(Duration::from_secs(60))];

#[test]
fn a_wait_for_others_ends_as_none_and_leaves_no_record() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for deadline in DEADLINES {
        let holder = hold(&server);
        let client = client(&proxy);
        let wait = Wait::start(&client, deadline);
        wait_until_waiting(&client);
        assert!(wait.cancel().unwrap().is_none());
        holder.verify().unwrap();
        holder.release().unwrap();
        assert_eq!(server.get("order:1"), None);
        assert_eq!((client.stats().timed_out, client.stats().acquired), (0, 0));
    }
}

#[test]
fn one_canceller_ends_every_wait_that_was_given_it() {
    let server = Server::start();
    let holder = hold(&server);
    let client = patient(&server.url());
    let canceller = Canceller::new();
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let (lock, own) = (lock(&client), canceller.clone());
            Aside::start(move || lock.acquire_cancellable(None, &own))
        })
        .collect();
    eventually("all of them wait", PATIENCE, || {
        10 <= client.stats().contended
    });
    canceller.clone().cancel();
    for wait in waits {
        assert!(wait.value().unwrap().is_none());
    }
    holder.release().unwrap();
}

#[test]
fn a_wait_that_was_cancelled_before_it_began_sends_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let canceller = Canceller::new();
    canceller.cancel();
    for deadline in DEADLINES {
        let deadline = deadline.map(|span| Instant::now() + span);
        let result = lock(&client(&proxy)).acquire_cancellable(deadline, &canceller);
        assert!(result.unwrap().is_none());
    }
    assert_eq!((proxy.connections(), proxy.commands().len()), (0, 0));
}

#[test]
fn a_wait_whose_link_cannot_be_opened_ends_as_none() {
    let server = Server::start();
    for deadline in DEADLINES {
        let proxy = Proxy::to(&server);
        proxy.swallow_everything();
        let wait = Wait::start(&client(&proxy), deadline);
        proxy.wait_for("CLIENT", 1);
        let ended = wait.cancel().unwrap();
        assert!(ended.is_none());
    }
}

#[test]
fn a_wait_through_an_outage_ends_as_none() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.refuse_connections();
    let wait = Wait::start(&client(&proxy), DEADLINES[1]);
    assert!(wait.cancel().unwrap().is_none());
}

/// Whether it left a record nobody can tell, and the answer must not be a guess.
#[test]
fn a_wait_whose_command_is_not_answered_ends_in_time_and_does_not_guess() {
    let server = Server::start();
    for deadline in DEADLINES {
        let proxy = Proxy::to(&server);
        let client = client(&proxy);
        client.ping().unwrap();
        proxy.swallow_everything();
        let wait = Wait::start(&client, deadline);
        proxy.wait_for("SET", 1);
        match wait.cancel() {
            Ok(taken) => panic!("nobody can know this: {taken:?}"),
            Err(error) => assert!(error.is_unknown(), "{error:?}"),
        }
    }
}

#[test]
fn a_lock_that_was_taken_after_the_cancelling_is_given_back() {
    let server = Server::start();
    for deadline in DEADLINES {
        let proxy = Proxy::to(&server);
        let client = patient(&proxy.url());
        let held = proxy.hold(Matcher::command("SET").once());
        let wait = Wait::start(&client, deadline);
        held.wait();
        wait.canceller.cancel();
        assert!(held.deliver());
        assert!(wait.result.value().unwrap().is_none());
        assert_eq!(server.get("order:1"), None);
        assert_eq!((client.stats().acquired, client.stats().released), (0, 0));
    }
}

/// `None` means that no record can come any more, also not by the command still on its way.
#[test]
fn a_command_that_lands_after_the_end_of_a_cancelled_wait_leaves_no_record_behind_a_none() {
    let server = Server::start();
    for deadline in DEADLINES {
        let proxy = Proxy::to(&server);
        let held = proxy.hold(Matcher::command("SET").once());
        let wait = Wait::start(&client(&proxy), deadline);
        held.wait();
        let ended = wait.cancel();
        let landed = held.deliver();
        match ended {
            Ok(None) => assert_eq!(server.get("order:1"), None),
            Ok(Some(lease)) => panic!("it was cancelled: {lease:?}"),
            Err(error) => assert!(error.is_unknown() && landed, "{error:?}"),
        }
        server.cmd(&["DEL", "order:1"]);
    }
}

/// Being cancellable costs a wait nothing of what any other wait settles.
#[test]
fn a_lost_reply_is_settled_in_a_wait_that_could_be_cancelled_and_is_not() {
    let server = Server::start();
    for deadline in DEADLINES {
        let proxy = Proxy::to(&server);
        let client = client(&proxy);
        let dropped = proxy.drop_reply(Matcher::command("SET").once());
        let wait = Wait::start(&client, deadline);
        dropped.wait();
        let lease = wait.result.value().unwrap().expect("nobody has cancelled");
        assert_eq!(
            server.get("order:1").as_deref(),
            Some(lease.token().expose())
        );
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        lease.release().unwrap();
        assert_eq!(client.stats().unknown_unresolved, 0);
    }
}
