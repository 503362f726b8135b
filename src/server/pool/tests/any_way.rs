//! Any callers, any cut of the replies, any point of failure.

use std::collections::HashSet;
use std::sync::{Barrier, OnceLock, Weak};

use proptest::prelude::*;

use super::peer::number_of;
use super::*;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
enum End {
    Never,
    /// It is closed before it has been opened.
    AtOnce,
    /// After so many bytes of replies no more are said, and the connection is closed in order.
    Close(usize),
    Reset(usize),
    /// Nothing more is said, and nobody is told.
    Silence(usize),
    /// In place of the reply to this request, counted from 0, stands something else.
    Garbage(usize),
}

#[derive(Clone, Debug)]
struct Plan {
    /// After how many bytes the replies are cut, over and over.
    cuts: Vec<usize>,
    end: End,
}

/// A request, and how long its caller dawdles before it.
type Wish = (Shape, u32);

#[derive(Clone, Debug)]
struct Case {
    max_links: usize,
    callers: Vec<Vec<Wish>>,
    /// What becomes of the connections, in the order in which they are accepted; those behind them
    /// are served well.
    plans: Vec<Plan>,
}

fn any_shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        4 => Just(Shape::Echo),
        2 => Just(Shape::Count),
        1 => Just(Shape::Role),
        1 => Just(Shape::Courteous),
    ]
}

fn any_case(end: impl Strategy<Value = End>) -> impl Strategy<Value = Case> {
    let wish = (any_shape(), prop_oneof![3 => Just(0), 1 => 0..3_000_u32]);
    let plan =
        (prop::collection::vec(1..24_usize, 1..4), end).prop_map(|(cuts, end)| Plan { cuts, end });
    (
        1..=2_usize,
        prop::collection::vec(prop::collection::vec(wish, 1..4), 1..=12),
        prop::collection::vec(plan, 0..4),
    )
        .prop_map(|(max_links, callers, plans)| Case {
            max_links,
            callers,
            plans,
        })
}

/// What the server knows of the requests that have arrived.
#[derive(Default)]
struct Seen {
    /// Those whose reply has been said, all of it.
    answered: Mutex<HashSet<u32>>,
}

/// Serves a connection as planned, the first request not before `is_time` returns. Returns whether
/// it is to be reset.
fn serve(line: &mut Line, plan: &Plan, seen: &Seen, is_time: &impl Fn()) -> bool {
    let limit = match plan.end {
        End::AtOnce => return false,
        End::Close(limit) | End::Reset(limit) | End::Silence(limit) => limit,
        End::Never | End::Garbage(_) => usize::MAX,
    };
    let mut cuts = plan.cuts.iter().copied().cycle();
    let (mut said, mut count, mut is_first) = (0, 0, true);
    while said < limit || !line.is_open() {
        let Some(mut words) = line.hear() else {
            return false;
        };
        if is_first {
            is_time();
        }
        is_first = false;
        // All that has come in is answered in one stream, so that it is cut anywhere.
        let (mut replies, mut ends) = (Vec::new(), Vec::new());
        loop {
            if let Some(number) = number_of(&words) {
                if matches!(plan.end, End::Garbage(at) if at == count) {
                    say(line, &replies, &mut cuts, &ends, (said, limit), seen);
                    line.say(b"?what\r\n$1\r\n1\r\n:1\r\n");
                    line.drain();
                    return false;
                }
                count += 1;
                replies.extend(reply_to(&words));
                ends.push((said + replies.len(), number));
            } else {
                replies.extend(reply_to(&words));
            }
            match line.at_hand() {
                Some(next) => words = next,
                None => break,
            }
        }
        said = say(line, &replies, &mut cuts, &ends, (said, limit), seen);
    }
    match plan.end {
        End::Reset(_) => return true,
        End::Silence(_) => line.drain(),
        _ => line.close(),
    }
    false
}

/// Says what the limit allows, cut into pieces; returns how much has been said so far.
fn say(
    line: &mut Line,
    replies: &[u8],
    cuts: &mut impl Iterator<Item = usize>,
    ends: &[(usize, u32)],
    (before, limit): (usize, usize),
    seen: &Seen,
) -> usize {
    let mut rest = &replies[..replies.len().min(limit - before)];
    let after = before + rest.len();
    // Noted first: its caller may be back before the last piece has been written.
    let whole = ends.iter().filter(|(end, _)| *end <= after);
    seen.answered
        .lock()
        .extend(whole.map(|(_, number)| *number));
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
        line.say(piece);
        // The other side may look at the piece by itself.
        thread::yield_now();
        rest = behind;
    }
    after
}

/// What a caller was told.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// The number that its reply says.
    Reply(Option<u32>),
    /// The class of the fault, and whether there is a link to fence off.
    Fault(Class, bool),
}

struct Played {
    told: Vec<(u32, Told)>,
    arrived: Vec<u32>,
    answered: HashSet<u32>,
}

/// Plays a case: all callers at the same time, each with its requests one after the other.
fn play(case: &Case, timeouts: Timeouts, bound: fn(u32) -> Bound) -> Played {
    let (seen, there) = (
        Arc::<Seen>::default(),
        Arc::<OnceLock<Weak<Pool>>>::default(),
    );
    let (plans, noted, pool) = (case.plans.clone(), Arc::clone(&seen), Arc::clone(&there));
    let crowd = case.callers.len().saturating_sub(case.max_links);
    // So that there are batches, a first reply waits for a crowd. Not for long: some may be on
    // another link.
    let is_time = move || {
        let (clock, end) = (Clock::default(), now().plus(ms(5)));
        let pool = pool.get().and_then(Weak::upgrade);
        while clock.now() < end && pool.as_ref().is_some_and(|pool| in_line(pool) < crowd) {
            thread::yield_now();
        }
    };
    let peer = Peer::start(move |mut line| {
        let well = Plan {
            cuts: vec![usize::MAX],
            end: End::Never,
        };
        let plan = plans.get(line.number - 1).unwrap_or(&well);
        if serve(&mut line, plan, &noted, &is_time) {
            line.reset();
        }
    });
    let pool = pool_to(&peer, case.max_links, timeouts);
    let _ = there.set(Arc::downgrade(&pool));
    let told = together(case, &pool, bound);
    assert_at_rest(&pool);
    // Nobody has taken a slot away: when the planned connections are used up, all is well.
    let tries = case.plans.len() + case.max_links + 1;
    let works = (0..tries).any(|_| call(&pool, echo(0), Bound::NONE).outcome().is_ok());
    assert!(works, "no link works any more");
    drop(pool);
    let mut arrived = peer.end();
    arrived.retain(|number| *number != 0);
    let answered = seen.answered.lock().clone();
    Played {
        told,
        arrived,
        answered,
    }
}

fn together(case: &Case, pool: &Arc<Pool>, bound: fn(u32) -> Bound) -> Vec<(u32, Told)> {
    let start = Arc::new(Barrier::new(case.callers.len()));
    let callers: Vec<_> = (1..)
        .zip(case.callers.clone())
        .map(|(caller, wishes)| {
            let (done, outcome) = channel();
            let (pool, start) = (Arc::clone(pool), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                let told = (0..).zip(wishes).map(|(turn, (shape, dawdling))| {
                    (0..dawdling).for_each(|_| std::hint::spin_loop());
                    let ask = shaped(shape, caller * 100 + turn);
                    (ask.number, told(&ask, pool.run(bound(ask.number), &ask)))
                });
                let told: Vec<_> = told.collect();
                drop(pool);
                let _ = done.send(told);
            });
            outcome
        })
        .collect();
    let told = callers.into_iter().flat_map(|outcome| {
        let told = outcome.recv_timeout(2 * PATIENCE);
        told.expect("nobody hangs and nobody panics")
    });
    told.collect()
}

fn told(ask: &Ask, outcome: Result<Replies, Fault>) -> Told {
    match outcome {
        Ok(mut replies) => Told::Reply(number_in(ask, &mut replies)),
        Err(fault) => Told::Fault(fault.class, fault.broken.is_some()),
    }
}

/// What holds whatever happens.
fn check(played: &Played) -> Result<(), TestCaseError> {
    let mut arrived = HashSet::new();
    for number in &played.arrived {
        prop_assert!(arrived.insert(number), "{number} was sent twice");
    }
    for (number, told) in &played.told {
        match told {
            Told::Reply(said) => {
                prop_assert_eq!(*said, Some(*number), "the reply of another");
                prop_assert!(played.answered.contains(number), "{} had no reply", number);
            }
            Told::Fault(Class::Unknown, broken) => {
                prop_assert!(*broken, "{} has nothing to fence off", number);
            }
            Told::Fault(Class::NotSent | Class::NoTurn | Class::NoLink, broken) => {
                prop_assert!(!*broken);
                prop_assert!(!arrived.contains(number), "{} was sent after all", number);
            }
            Told::Fault(class, _) => prop_assert!(false, "{number}: {class:?}"),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_caller_gets_its_own_reply_or_is_told_exactly_what_became_of_its_request(
        case in any_case(prop_oneof![
            2 => Just(End::Never),
            1 => Just(End::AtOnce),
            3 => (0..120_usize).prop_map(End::Close),
            1 => (0..120_usize).prop_map(End::Reset),
            2 => (0..12_usize).prop_map(End::Garbage),
        ])
    ) {
        let played = play(&case, PATIENT, |_| Bound::NONE);
        check(&played)?;
        // What a reset takes with it nobody knows.
        let is_exact = !case.plans.iter().any(|plan| matches!(plan.end, End::Reset(_)));
        for (number, told) in &played.told {
            if is_exact && matches!(told, Told::Fault(Class::Unknown, _)) {
                prop_assert!(played.arrived.contains(number), "{} was not sent", number);
                prop_assert!(!played.answered.contains(number), "{} had a reply", number);
            }
            let is_sound = case.plans.iter().all(|plan| matches!(plan.end, End::Never));
            prop_assert!(!is_sound || matches!(told, Told::Reply(_)), "{}: {:?}", number, told);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_who_is_in_a_hurry_is_told_what_is_not_so(
        case in any_case(prop_oneof![
            1 => Just(End::Never),
            1 => Just(End::AtOnce),
            1 => (0..120_usize).prop_map(End::Close),
            3 => (0..120_usize).prop_map(End::Silence),
            1 => (0..12_usize).prop_map(End::Garbage),
        ])
    ) {
        let timeouts = Timeouts { connect: ms(60), command: ms(30) };
        let hurry = |number: u32| {
            let span = ms(u64::from(number * 7 % 50));
            Bound::within(now(), span, span / 2)
        };
        let played = play(&case, timeouts, hurry);
        check(&played)?;
    }
}
