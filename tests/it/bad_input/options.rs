//! Options and URLs that cannot be used. Nothing here needs a server, and none is asked.

use std::time::Duration;

use leasehold::{Client, ClientBuilder, Error, LockBuilder};
use proptest::prelude::*;

use super::{in_one_line, said};
use crate::links::patient;
use crate::support::{Scripted, Server, Step};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Builds a lock with these options and expects the error to name all of `parts`.
#[track_caller]
fn refuses(client: &Client, options: impl Fn(LockBuilder) -> LockBuilder, parts: &[&str]) {
    let error = options(client.lock("order:1")).build().unwrap_err();
    assert!(error.is_config(), "{error:?}");
    let text = in_one_line(&error);
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[track_caller]
fn accepts(client: &Client, options: impl Fn(LockBuilder) -> LockBuilder) {
    options(client.lock("order:1")).build().unwrap();
}

#[test]
fn what_cannot_be_used_is_refused_before_anybody_is_called() {
    let server = Scripted::start(|_, _| Step::Healthy);
    let client = Client::open(&server.url()).unwrap();
    for error in [
        client.lock("").build().unwrap_err(),
        client.lock(String::new()).fenced().build().unwrap_err(),
        client.inspect("").unwrap_err(),
    ] {
        assert!(error.is_config() && error.key().is_none(), "{error:?}");
        assert_eq!(said(&error), ["the key is empty"]);
    }
    refuses(&client, |lock| lock.ttl(ms(9)).without_renewal(), &[]);
    refuses(&client, |lock| lock.label("a\nb"), &[]);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_ttl_out_of_range_is_refused_with_what_was_given_and_what_is_possible() {
    let client = Client::open("redis://127.0.0.1").unwrap();
    let alone = |ttl| move |lock: LockBuilder| lock.ttl(ttl).without_renewal();
    refuses(&client, alone(Duration::ZERO), &["ttl 0ns", "below 10ms"]);
    refuses(&client, alone(ms(9)), &["ttl 9ms", "below 10ms"]);
    refuses(
        &client,
        alone(Duration::from_nanos(9_999_999)),
        &["ttl 9.999999ms"],
    );
    accepts(&client, alone(ms(10)));
    let longest = longest_ttl(&client);
    let most = &format!("above {longest:?}");
    accepts(&client, alone(longest));
    refuses(&client, alone(longest + ms(1)), &[most]);
    refuses(
        &client,
        alone(ms(1 << 53)),
        &["ttl 9007199254740.992s", most],
    );
    refuses(
        &client,
        alone(Duration::MAX),
        &["ttl 18446744073709551615.999s", most],
    );
    let renewed = |ttl| move |lock: LockBuilder| lock.ttl(ttl);
    refuses(
        &client,
        renewed(Duration::ZERO),
        &["ttl 0ns", "below 150ms"],
    );
    refuses(&client, renewed(ms(149)), &["ttl 149ms", "below 150ms"]);
    accepts(&client, renewed(ms(150)));
    accepts(&client, renewed(longest));
    refuses(&client, renewed(Duration::MAX), &[most]);
}

/// The longest ttl that a lock of this client may have.
fn longest_ttl(client: &Client) -> Duration {
    let (mut fits, mut exceeds) = (ms(10), ms(1 << 53));
    while fits + ms(1) < exceeds {
        let middle = ms(((fits + exceeds) / 2).as_millis() as u64);
        match client.lock("x").ttl(middle).without_renewal().build() {
            Ok(_) => fits = middle,
            Err(_) => exceeds = middle,
        }
    }
    fits
}

#[test]
fn the_longest_ttl_that_is_accepted_works_on_a_real_server() {
    let server = Server::start();
    let client = patient(&server.url());
    let longest = longest_ttl(&client);
    let least = i64::try_from(longest.as_millis()).unwrap() - 60_000;
    let fenced = client.lock("order:fenced").ttl(longest).fenced();
    for lock in [client.lock("order:1").ttl(longest), fenced] {
        let lock = lock.max_hold(Duration::MAX).build().unwrap();
        let lease = lock.try_acquire().unwrap().unwrap();
        assert!(least < server.pttl(lock.key()));
        lease.check().unwrap();
        lease.renew().unwrap();
        lease.ensure(longest / 2).unwrap();
        assert!(least < server.pttl(lock.key()));
        let holder = client.inspect(lock.key()).unwrap().unwrap();
        assert!(Some(longest / 2) < holder.remaining());
        lease.release().unwrap();
        assert_eq!(server.get(lock.key()), None);
    }
}

#[test]
fn options_that_disagree_are_named_with_both_values() {
    let client = Client::open("redis://127.0.0.1").unwrap();
    // V = 1000 − 10 − 2 = 988 ms.
    let danger =
        |danger| move |lock: LockBuilder| lock.ttl(ms(1000)).without_renewal().danger(danger);
    accepts(&client, danger(ms(987)));
    refuses(
        &client,
        danger(ms(988)),
        &["danger 988ms", "below 988ms", "ttl 1s"],
    );
    refuses(
        &client,
        danger(Duration::MAX),
        &["danger 18446744073709551615.999", "988ms"],
    );
    accepts(&client, danger(Duration::ZERO));

    // τ = 300 ms, V = 2968 ms, and 2968 − 1000 − 2 × (300 + 8) = 1352 ms.
    let every = |every| move |lock: LockBuilder| lock.ttl(ms(3000)).renew_every(every);
    accepts(&client, every(ms(300)));
    refuses(
        &client,
        every(ms(299)),
        &["renew_every 299ms", "below 300ms"],
    );
    refuses(
        &client,
        every(Duration::ZERO),
        &["renew_every 0ns", "below 300ms"],
    );
    accepts(&client, every(ms(1352)));
    let late = ["renew_every 1.353s", "above 1.352s", "ttl 3s", "danger 1s"];
    refuses(&client, every(ms(1353)), &late);
    refuses(&client, every(Duration::MAX), &["above 1.352s"]);

    // Where renewal is automatic, a wide danger zone can leave no room for it.
    let wide = |lock: LockBuilder| lock.ttl(ms(3000)).danger(ms(2900));
    refuses(
        &client,
        wide,
        &["danger 2.9s", "ttl 3s", "`without_renewal`"],
    );
    accepts(&client, |lock| wide(lock).without_renewal());

    let hold = |hold| move |lock: LockBuilder| lock.ttl(ms(3000)).max_hold(hold);
    accepts(&client, hold(ms(1001)));
    refuses(&client, hold(ms(1000)), &["max_hold 1s", "danger 1s"]);
    refuses(
        &client,
        hold(Duration::ZERO),
        &["max_hold 0ns", "danger 1s"],
    );
    accepts(&client, hold(Duration::MAX));
}

#[test]
fn one_attempt_to_renew_is_as_long_as_the_command_timeout_and_at_least_10_ms() {
    let quick = Client::builder("redis://127.0.0.1").command_timeout(ms(2));
    let quick = quick.build().unwrap();
    let every = |every| move |lock: LockBuilder| lock.ttl(ms(3000)).renew_every(every);
    accepts(&quick, every(ms(10)));
    refuses(&quick, every(ms(9)), &["renew_every 9ms", "below 10ms"]);
    // 2968 − 1000 − 2 × (2 + 8) = 1948 ms.
    accepts(&quick, every(ms(1948)));
    refuses(
        &quick,
        every(ms(1949)),
        &["renew_every 1.949s", "above 1.948s"],
    );
}

#[test]
fn a_label_is_one_line_of_text() {
    let client = Client::open("redis://127.0.0.1").unwrap();
    let label = |label: &'static str| move |lock: LockBuilder| lock.label(label);
    refuses(&client, label(""), &["the label is empty"]);
    for (text, position) in [
        ("a\nb", 1),
        ("\r", 0),
        ("nightly\treport", 7),
        ("é\u{7f}", 1),
        ("ab\0", 2),
    ] {
        refuses(
            &client,
            label(text),
            &["the label", &format!("position {position}")],
        );
    }
    refuses(&client, label("a\u{85}b"), &["position 1"]);
    accepts(&client, label("host-7 job 12: nächtlich"));
    accepts(&client, label(" "));
}

#[test]
fn timeouts_and_numbers_of_links_that_leave_no_way_to_the_server_are_refused() {
    let builder = || Client::builder("redis://127.0.0.1");
    let refused = |builder: ClientBuilder, parts: &[&str]| {
        let error = builder.build().unwrap_err();
        assert!(error.is_config(), "{error:?}");
        let text = in_one_line(&error);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    refused(
        builder().connect_timeout(Duration::ZERO),
        &["`connect_timeout` of 0ns", "1ms"],
    );
    refused(
        builder().command_timeout(Duration::ZERO),
        &["`command_timeout` of 0ns", "1ms"],
    );
    let short = Duration::from_micros(999);
    refused(builder().command_timeout(short), &["999µs", "1ms"]);
    refused(builder().max_links(0), &["`max_links` of 0"]);
    builder()
        .connect_timeout(ms(1))
        .command_timeout(ms(1))
        .max_links(1)
        .build()
        .unwrap();
}

#[test]
fn timeouts_without_end_and_links_without_number_work_on_a_real_server() {
    let server = Server::start();
    let client = Client::builder(&server.url())
        .connect_timeout(Duration::MAX)
        .command_timeout(Duration::MAX)
        .max_links(usize::MAX);
    let client = client.build().unwrap();
    client.ping().unwrap();
    let lock = client.lock("order:1").build().unwrap();
    let lease = lock.acquire_timeout(Duration::MAX).unwrap();
    assert_eq!(lock.try_acquire().unwrap().map(drop), None);
    lease.verify().unwrap();
    lease.renew().unwrap();
    assert!(client.inspect("order:1").unwrap().is_some());
    lease.release().unwrap();
}

#[test]
fn a_url_that_cannot_be_used_is_refused_and_its_password_is_nowhere() {
    const SECRET: &str = "hunter2";
    for url in [
        "",
        "127.0.0.1:6379",
        ":hunter2@127.0.0.1:6379",
        "redis:hunter2@127.0.0.1",
        "redis://",
        "redis://:hunter2@",
        "redis://:hunter2@host:99999",
        "redis://:hunter2@host:six",
        "redis://:hunter2@host/notanumber",
        "redis://:hunter2@host/-1",
        "redis://:hunter2@host/?protocol=hunter2",
        "redis://:hunter2@[::1",
        "redis://user:%zz hunter2@host name",
        "rediss://:hunter2@host",
        "valkeys://:hunter2@host",
        "http://user:hunter2@host",
        "unix://",
    ] {
        let refused = |error: &Error| {
            assert!(error.is_config(), "{url}: {error:?}");
            let shown = format!("{} {error:?}", in_one_line(error));
            assert!(!shown.contains(SECRET), "{url}: {shown}");
        };
        refused(&Client::open(url).unwrap_err());
        let builder = Client::builder(url);
        assert!(!format!("{builder:?}").contains(SECRET), "{url}");
        refused(&builder.build().unwrap_err());
    }
    for scheme in ["rediss", "http"] {
        let text = in_one_line(&Client::open(&format!("{scheme}://host")).unwrap_err());
        assert!(text.contains(&format!("`{scheme}`")), "{text}");
    }
}

#[test]
fn no_handle_shows_the_password_of_a_url_that_is_fine() {
    for url in [
        "redis://:hunter2@127.0.0.1:1",
        "redis://ann:hunter2@127.0.0.1:1/3",
        "unix:///run/redis.sock?pass=hunter2",
        "redis+unix:///run/redis.sock?user=ann&pass=hunter2",
    ] {
        let client = Client::open(url).unwrap();
        let builder = client.lock("order:1");
        let lock = builder.clone().build().unwrap();
        let error = client.ping().unwrap_err();
        let shown = format!("{client:?} {builder:?} {lock:?} {error:?} {error}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(error.is_unavailable(), "{error:?}");
        said(&error);
    }
}

fn any_span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        Just(Duration::from_nanos(u64::MAX)),
        (0_u64..400).prop_map(Duration::from_millis),
        (0_u64..100_000).prop_map(Duration::from_millis),
        any::<u64>().prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_millis),
        any::<u64>().prop_map(Duration::from_secs),
        (any::<u64>(), 0_u32..1_000_000_000).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
    ]
}

fn any_url() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(
        &[
            "redis",
            "rediss",
            "valkey",
            "unix",
            "redis+unix",
            "HTTP",
            "",
        ][..],
    );
    let part = prop_oneof![
        Just(String::new()),
        any::<String>(),
        "[a-z0-9%@:/?#\\[\\]._=&+-]{0,24}",
        "(:[a-z]{1,5}@)?[a-z0-9.]{1,9}(:[0-9]{1,6})?(/[0-9-]{1,20})?",
        "/[a-z%]{0,9}\\?(db|user|pass|protocol)=[a-z0-9%-]{0,20}",
    ];
    prop_oneof![
        any::<String>(),
        (scheme, part).prop_map(|(scheme, part)| format!("{scheme}://{part}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_options_make_a_builder_panic_and_those_it_accepts_obey_the_rules(
        ttl in prop::option::of(any_span()),
        danger in prop::option::of(any_span()),
        renew_every in prop::option::of(any_span()),
        max_hold in prop::option::of(any_span()),
        renewed in any::<bool>(),
        timeouts in (prop::option::of(any_span()), prop::option::of(any_span())),
        max_links in any::<usize>(),
        label in prop::option::of(any::<String>()),
        key in any::<String>(),
    ) {
        let mut builder = Client::builder("redis://127.0.0.1:1").max_links(max_links);
        let (connect, command) = timeouts;
        if let Some(connect) = connect {
            builder = builder.connect_timeout(connect);
        }
        if let Some(command) = command {
            builder = builder.command_timeout(command);
        }
        let Ok(client) = builder.build() else { return Ok(()) };
        prop_assert!(0 < max_links);
        prop_assert!(connect.is_none_or(|timeout| ms(1) <= timeout));
        prop_assert!(command.is_none_or(|timeout| ms(1) <= timeout));

        let mut lock = client.lock(key.clone());
        if let Some(ttl) = ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(danger) = danger {
            lock = lock.danger(danger);
        }
        if let Some(every) = renew_every {
            lock = lock.renew_every(every);
        }
        if let Some(max_hold) = max_hold {
            lock = lock.max_hold(max_hold);
        }
        if let Some(label) = &label {
            lock = lock.label(label.clone());
        }
        if !renewed {
            lock = lock.without_renewal();
        }
        let _ = format!("{lock:?}");
        let lock = match lock.build() {
            Ok(lock) => lock,
            Err(error) => {
                prop_assert!(error.is_config());
                said(&error);
                return Ok(());
            }
        };
        prop_assert!(lock.key() == key && !key.is_empty());
        prop_assert!(label.is_none_or(|label| !label.is_empty() && !label.contains('\n')));
        let ttl = ttl.unwrap_or(ms(30_000));
        let validity = ttl - ttl / 100 - ms(2);
        let danger = danger.unwrap_or(ttl / 3);
        let least = if renewed { ms(150) } else { ms(10) };
        prop_assert!(least <= ttl);
        prop_assert!(ttl < ms(1 << 53));
        prop_assert!(danger < validity);
        prop_assert!(max_hold.is_none_or(|max_hold| danger < max_hold));
        if renewed && let Some(every) = renew_every {
            let attempt = command.unwrap_or(ms(1000)).min(ttl / 10);
            // What lies below a millisecond of the ttl is cut off before anything is derived.
            prop_assert!(attempt.max(ms(10)) <= every + ms(1));
            prop_assert!(every + (attempt + ms(8)) * 2 + danger <= validity + ms(1));
        }
    }

    #[test]
    fn no_text_makes_the_opening_of_a_client_panic(url in any_url()) {
        match Client::open(&url) {
            Ok(client) => drop(format!("{client:?}")),
            Err(error) => {
                prop_assert!(error.is_config());
                said(&error);
            }
        }
    }
}
