//! Waiting for a lock that others hold: budgets, cancelling, and turns at the links.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Canceller, Client, Error, Lease, Lock};

use crate::bad_input::said;
use crate::links::{hasty, patient};
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};

/// What a busy machine may add to a time that is being judged.
pub(crate) const SLACK: Duration = Duration::from_secs(2);

/// Work on a thread of its own. Unlike a scoped thread it does not keep a failed test from
/// ending.
pub(crate) struct Aside<T>(Receiver<T>);

impl<T: Send + 'static> Aside<T> {
    pub(crate) fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (done, value) = channel();
        thread::spawn(move || done.send(work()).is_ok());
        Self(value)
    }

    /// Waits for the end of the work.
    #[track_caller]
    pub(crate) fn value(self) -> T {
        match self.0.recv_timeout(PATIENCE) {
            Ok(value) => value,
            Err(RecvTimeoutError::Timeout) => panic!("not back within {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("it panicked, see above"),
        }
    }
}

fn lock(client: &Client) -> Lock {
    client.lock("order:1").build().unwrap()
}

/// Takes `order:1`, as somebody else.
fn hold(server: &Server) -> Lease {
    let lease = lock(&patient(&server.url())).acquire_timeout(PATIENCE);
    lease.unwrap()
}

/// Returns when a wait of this client has found the lock held.
#[track_caller]
fn wait_until_waiting(client: &Client) {
    let contended = client.stats().contended;
    eventually("it waits", PATIENCE, || {
        contended < client.stats().contended
    });
}

type Way = fn(&Lock) -> Result<Lease, Error>;

/// The different ways to wait without a limit that matters.
fn ways_to_wait() -> Vec<Way> {
    vec![
        |lock| lock.acquire(),
        |lock| lock.acquire_timeout(Duration::from_secs(60)),
        |lock| lock.acquire_timeout(Duration::MAX),
        |lock| lock.acquire_deadline(Instant::now() + Duration::from_secs(60)),
        |lock| {
            lock.acquire_cancellable(None, &Canceller::new())
                .map(Option::unwrap)
        },
        |lock| {
            let deadline = Instant::now() + Duration::from_secs(60);
            let taken = lock.acquire_cancellable(Some(deadline), &Canceller::new());
            taken.map(Option::unwrap)
        },
    ]
}

mod for_others {
    use super::*;

    #[test]
    fn a_waiter_takes_the_lock_soon_after_its_release() {
        let server = Server::start();
        for wait in ways_to_wait() {
            let holder = hold(&server);
            let client = patient(&server.url());
            let lock = lock(&client);
            let waiter = Aside::start(move || wait(&lock));
            wait_until_waiting(&client);
            let released = Instant::now();
            holder.release().unwrap();
            let lease = waiter.value().unwrap();
            assert!(released.elapsed() < SLACK, "{:?}", released.elapsed());
            assert_eq!(
                server.get("order:1").as_deref(),
                Some(lease.token().expose())
            );
            lease.release().unwrap();
            assert_eq!(client.stats().timed_out, 0);
        }
    }

    #[test]
    fn a_waiter_takes_the_lock_soon_after_the_record_of_a_dead_holder_expires() {
        let server = Server::start();
        for wait in ways_to_wait() {
            let start = Instant::now();
            server.cmd(&["SET", "order:1", "of one who has died", "PX", "200"]);
            let lock = lock(&patient(&server.url()));
            let lease = Aside::start(move || wait(&lock)).value().unwrap();
            let took = start.elapsed();
            assert!(Duration::from_millis(195) < took, "{took:?}");
            assert!(took < Duration::from_millis(200) + SLACK, "{took:?}");
            lease.release().unwrap();
        }
    }

    #[test]
    fn a_foreign_deletion_is_noticed_by_a_waiter() {
        let server = Server::start();
        let client = patient(&server.url());
        for expiry in [&["PX", "600000"] as &[&str], &[]] {
            server.cmd(&[&["SET", "order:1", "a foreign client's"], expiry].concat());
            let lock = lock(&client);
            let waiter = Aside::start(move || lock.acquire());
            wait_until_waiting(&client);
            server.cmd(&["DEL", "order:1"]);
            waiter.value().unwrap().release().unwrap();
        }
    }

    #[test]
    fn a_budget_that_ends_while_others_hold_the_lock_is_a_timeout_in_time() {
        let server = Server::start();
        let holder = hold(&server);
        let client = hasty(&server.url());
        let lock = lock(&client);
        let budget = Duration::from_millis(300);
        let most = budget + Duration::from_millis(250) + SLACK;
        let waits: [&dyn Fn() -> Result<(), Error>; 3] = [
            &|| lock.acquire_timeout(budget).map(drop),
            &|| lock.acquire_deadline(Instant::now() + budget).map(drop),
            &|| {
                let deadline = Instant::now() + budget;
                lock.acquire_cancellable(Some(deadline), &Canceller::new())
                    .map(drop)
            },
        ];
        for (count, wait) in waits.iter().enumerate() {
            let start = Instant::now();
            let error = wait().unwrap_err();
            let took = start.elapsed();
            assert!(error.is_timeout() && !error.is_unavailable(), "{error:?}");
            assert_eq!(error.key(), Some("order:1"));
            assert_eq!(error.may_hold_until(), None);
            said(&error);
            assert!(budget <= took && took < most, "{took:?}");
            assert_eq!(client.stats().timed_out, count as u64 + 1);
        }
        holder.verify().unwrap();
    }

    #[test]
    fn no_time_at_all_is_enough_for_exactly_one_attempt() {
        let server = Server::start();
        let past = Instant::now();
        let attempt = |way: usize, lock: &Lock| match way {
            0 => lock.acquire_timeout(Duration::ZERO).map(Some),
            1 => lock.acquire_deadline(past).map(Some),
            _ => lock.acquire_cancellable(Some(past), &Canceller::new()),
        };
        for way in 0..3 {
            let holder = hold(&server);
            let proxy = Proxy::to(&server);
            let client = patient(&proxy.url());
            client.ping().unwrap();
            let error = attempt(way, &lock(&client)).unwrap_err();
            assert!(error.is_timeout(), "{error:?}");
            assert_eq!((proxy.count("SET"), proxy.count("EVALSHA")), (1, 0));
            holder.release().unwrap();
            let lease = attempt(way, &lock(&client)).unwrap().unwrap();
            assert_eq!(proxy.count("SET"), 2);
            lease.release().unwrap();
        }
    }

    /// The link is opened for the attempt, as it is for a single try.
    #[test]
    fn no_time_at_all_is_enough_for_one_attempt_of_a_client_that_has_just_been_opened() {
        let server = Server::start();
        let lease = lock(&patient(&server.url()))
            .acquire_timeout(Duration::ZERO)
            .unwrap();
        let error = lock(&patient(&server.url()))
            .acquire_timeout(Duration::ZERO)
            .unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        lease.release().unwrap();
        let past = Instant::now();
        let lease = lock(&patient(&server.url()))
            .acquire_deadline(past)
            .unwrap();
        lease.release().unwrap();
    }

    #[test]
    fn the_lock_is_not_reentrant() {
        let server = Server::start();
        let client = patient(&server.url());
        let lock = lock(&client);
        let lease = lock.acquire_timeout(PATIENCE).unwrap();
        assert!(lock.try_acquire().unwrap().is_none());
        let again = lock.clone().acquire_timeout(Duration::from_millis(100));
        assert!(again.unwrap_err().is_timeout());
        lease.check().unwrap();
        lease.release().unwrap();
        lock.acquire_timeout(PATIENCE).unwrap().release().unwrap();
    }
}

mod through_outages {
    use super::*;

    #[test]
    fn a_wait_with_a_budget_goes_on_until_the_server_is_back() {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        proxy.refuse_connections();
        let client = patient(&proxy.url());
        let lock = lock(&client);
        let waiter = Aside::start(move || lock.acquire_timeout(Duration::from_secs(60)));
        // Nothing tells from outside that it has tried; the port must stay closed for a while.
        let closed_until = Instant::now() + Duration::from_millis(100);
        eventually("the port was closed for a while", PATIENCE, || {
            closed_until < Instant::now()
        });
        proxy.heal();
        waiter.value().unwrap().release().unwrap();
    }

    #[test]
    fn an_outage_that_outlasts_the_budget_is_unavailable_and_not_before_its_end() {
        let server = Server::start();
        server.kill();
        let client = hasty(&server.url());
        let lock = lock(&client);
        let budget = Duration::from_millis(300);
        let start = Instant::now();
        let error = lock.acquire_timeout(budget).unwrap_err();
        let took = start.elapsed();
        assert!(error.is_unavailable() && !error.is_timeout(), "{error:?}");
        said(&error);
        let most = budget + Duration::from_millis(250) + SLACK;
        assert!(budget <= took && took < most, "{took:?}");
        assert_eq!(client.stats().timed_out, 0);
    }

    #[test]
    fn a_server_that_hangs_does_not_carry_a_wait_past_its_budget() {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        // A link that is open, and one that would have to be opened with all the time it wants.
        for ping in [true, false] {
            let client = Client::builder(&proxy.url())
                .connect_timeout(2 * PATIENCE)
                .command_timeout(Duration::from_millis(250))
                .build()
                .unwrap();
            if ping {
                client.ping().unwrap();
            }
            proxy.swallow_everything();
            let lock = lock(&client);
            let budget = Duration::from_millis(300);
            let start = Instant::now();
            let error = lock.acquire_timeout(budget).unwrap_err();
            let took = start.elapsed();
            // Sent and not answered, or not even sent.
            assert!(
                error.is_unknown() == ping && error.is_unavailable() != ping,
                "{error:?}"
            );
            assert_eq!(error.may_hold_until(), None);
            said(&error);
            let most = budget + Duration::from_millis(250) + SLACK;
            assert!(budget <= took && took < most, "{took:?}");
            proxy.heal();
        }
    }

    #[test]
    fn a_wait_without_a_budget_does_not_wait_for_a_server_that_is_away() {
        let server = Server::start();
        server.kill();
        let start = Instant::now();
        let error = lock(&patient(&server.url())).acquire().unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    }

    /// A command was under way when the server went: that is settled for a while before the
    /// wait ends.
    #[test]
    fn a_waiter_whose_server_goes_away_is_told_so_in_the_time_of_one_attempt() {
        let server = Server::start();
        server.cmd(&["SET", "order:1", "a foreign client's"]);
        let client = hasty(&server.url());
        let lock = lock(&client);
        let waiter = Aside::start(move || lock.acquire());
        wait_until_waiting(&client);
        let start = Instant::now();
        server.kill();
        let error = waiter.value().unwrap_err();
        assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
        let most = 4 * Duration::from_millis(250) + SLACK;
        assert!(start.elapsed() < most, "{:?}", start.elapsed());
    }
}

mod cancelled {
    use super::*;

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
            assert_eq!(proxy.count("SET"), 1);
            lease.release().unwrap();
            assert_eq!(client.stats().unknown_unresolved, 0);
        }
    }
}

mod turns_at_the_links {
    use super::*;

    #[test]
    fn threads_without_a_link_wait_their_turn_and_all_of_them_get_it() {
        const THREADS: usize = 64;
        const CYCLES: usize = 5;
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = Client::builder(&proxy.url())
            .command_timeout(PATIENCE)
            .connect_timeout(PATIENCE)
            .max_links(2)
            .build()
            .unwrap();
        let cycle = |lock: &Lock| -> Result<(), Error> {
            let lease = lock.try_acquire()?.expect("the key is this thread's own");
            lease.verify()?;
            lease.release()
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|own| {
                let lock = client.lock(format!("order:{own}")).build().unwrap();
                Aside::start(move || (0..CYCLES).try_for_each(|_| cycle(&lock)))
            })
            .collect();
        for thread in threads {
            thread.value().unwrap();
        }
        assert!(proxy.connections() <= 2, "{}", proxy.connections());
        assert!(server.clients().len() <= 2, "{:?}", server.clients());
        let stats = client.stats();
        let cycles = (THREADS * CYCLES) as u64;
        assert_eq!((stats.acquired, stats.released), (cycles, cycles));
    }

    #[test]
    fn a_thread_that_does_not_get_a_turn_in_time_has_sent_nothing() {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = Client::builder(&proxy.url())
            .command_timeout(PATIENCE)
            .max_links(1)
            .build()
            .unwrap();
        client.ping().unwrap();
        let held = proxy.hold(Matcher::command("SET").with_arg("order:1").once());
        let first = lock(&client);
        let first = Aside::start(move || first.try_acquire());
        held.wait();
        let second = client.lock("order:2").build().unwrap();
        let budget = Duration::from_millis(50);
        let start = Instant::now();
        let error = second.acquire_timeout(budget).unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        said(&error);
        assert!(budget <= start.elapsed() && start.elapsed() < budget + SLACK);
        assert!(held.deliver());
        first.value().unwrap().unwrap().release().unwrap();
        let keys = proxy.commands().concat();
        assert!(!keys.contains(&String::from("order:2")));
        second.acquire_timeout(PATIENCE).unwrap().release().unwrap();
    }

    #[test]
    fn a_link_that_could_not_be_opened_takes_nobody_s_turn() {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = Client::builder(&proxy.url()).max_links(2).build().unwrap();
        proxy.refuse_connections();
        for _ in 0..4 {
            let error = lock(&client).try_acquire().unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
        }
        proxy.heal();
        let closing = proxy.reset_before(Matcher::command("CLIENT INFO").first(4));
        for _ in 0..4 {
            assert!(lock(&client).try_acquire().unwrap_err().is_unavailable());
        }
        assert_eq!(closing.hits(), 4);
        lock(&client)
            .acquire_timeout(PATIENCE)
            .unwrap()
            .release()
            .unwrap();
    }

    #[test]
    fn threads_that_are_refused_or_cut_off_do_not_spoil_the_links_of_the_others() {
        let rights = "+set +eval +evalsha +get +del +pexpire +pttl +script +role +client";
        let server = Server::with(&[&format!("user app on >secret ~order:* {rights}")]);
        let proxy = Proxy::to(&server);
        proxy.reset_before(Matcher::command("SET").with_arg("order:cut off"));
        let client = Client::builder(&proxy.url_as("app", "secret"))
            .connect_timeout(PATIENCE)
            .command_timeout(PATIENCE)
            .max_links(2)
            .build()
            .unwrap();
        let threads: Vec<_> = (0..16)
            .map(|own| {
                let key = match own % 4 {
                    0 => String::from("other:refused"),
                    1 => String::from("order:cut off"),
                    _ => format!("order:{own}"),
                };
                let lock = client.lock(key).build().unwrap();
                Aside::start(move || {
                    for _ in 0..5 {
                        match (own % 4, lock.acquire_timeout(Duration::from_millis(200))) {
                            // Refused, or without a turn in so short a time.
                            (0, outcome) => {
                                let error = outcome.unwrap_err();
                                assert!(error.is_refused() || error.is_unavailable(), "{error:?}");
                            }
                            (1, outcome) => {
                                let error = outcome.unwrap_err();
                                assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
                            }
                            // A neighbour's reset may cost this one its budget, not its link.
                            (_, Ok(lease)) => lease.release().unwrap(),
                            (_, Err(error)) => assert!(!error.is_refused(), "{error:?}"),
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.value();
        }
        // Every slot is free again: two at a time get a link, and nobody waits for ever.
        let after: Vec<_> = (0..8)
            .map(|own| {
                let lock = client.lock(format!("order:after {own}")).build().unwrap();
                Aside::start(move || lock.acquire_timeout(PATIENCE).and_then(Lease::release))
            })
            .collect();
        for thread in after {
            thread.value().unwrap();
        }
        let refused = client.lock("other:refused").build().unwrap();
        assert!(refused.acquire_timeout(PATIENCE).unwrap_err().is_refused());
        eventually("at most two links are open", PATIENCE, || {
            server.clients().len() <= 2
        });
    }
}
