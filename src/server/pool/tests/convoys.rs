//! Callers in line and under way: their order, their times, and leaders that go.

use super::*;
use crate::server::broken::{Broken, Fence};

/// Whether the link has to be fenced off still, as seen by one who does not wait.
fn is_to_be_waited_for(broken: &Broken) -> bool {
    let fence = broken.fence(&Clock::default(), now());
    matches!(fence, Fence::TooLate) && !broken.is_fenced_off()
}

/// Whether it is known without a kill that nothing can run any more.
fn is_over(broken: &Broken) -> bool {
    let fence = broken.fence(&Clock::default(), now());
    matches!(fence, Fence::Over) && broken.is_fenced_off()
}

#[test]
fn callers_that_wait_go_out_in_one_piece_and_each_gets_its_own_reply() {
    let (batches, arrived) = channel();
    let (peer, pool, open, first) = gated(move |line, _| {
        let mut words = line.hear();
        let mut replies = reply_to(&words.take().unwrap());
        let mut count = 1;
        while let Some(words) = line.at_hand() {
            replies.extend(reply_to(&words));
            count += 1;
        }
        let _ = batches.send(count);
        line.say(&replies);
    });
    let shapes = [
        Shape::Echo,
        Shape::Count,
        Shape::Role,
        Shape::Courteous,
        Shape::Echo,
    ];
    let asks = shapes
        .into_iter()
        .zip(2..)
        .map(|(shape, number)| (shaped(shape, number), Bound::NONE));
    let others = line_up(&pool, asks);
    open.send(()).unwrap();
    first.is_answered();
    others.iter().for_each(Caller::is_answered);
    // Two of the requests are two commands each.
    assert_eq!(arrived.recv_timeout(PATIENCE), Ok(7));
    assert_eq!((peer.connections(), reconnects(&pool)), (1, 0));
    assert_at_rest(&pool);
    drop(pool);
    assert_eq!(peer.end(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_caller_whose_time_ends_in_line_has_sent_nothing_and_holds_up_nobody() {
    let (peer, pool, open, first) = gated(|_, _| {});
    let asks = [
        (echo(2), Bound::NONE),
        (echo(3), ends_in(ms(30))),
        (echo(4), Bound::NONE),
        (echo(5), ends_in(ms(30)).urgent()),
    ];
    // One by one, or the short ones would be gone before the others are there.
    let others = asks.map(|(ask, bound)| call(&pool, ask, bound));
    others[1].fails(Class::NoTurn);
    others[3].fails(Class::NoTurn);
    eventually("the others wait", || in_line(&pool) == 2);
    open.send(()).unwrap();
    first.is_answered();
    others[0].is_answered();
    others[2].is_answered();
    assert_eq!(peer.connections(), 1);
    assert_at_rest(&pool);
    drop((pool, others));
    let mut heard = peer.end();
    heard.sort_unstable();
    assert_eq!(heard, [1, 2, 4]);
}

/// A server that reads a batch of `count` and answers it when the gate is opened again.
fn held_batch(count: usize) -> (Peer, Arc<Pool>, Sender<()>, Caller) {
    gated(move |line, gate| {
        let replies: Vec<_> = (0..count)
            .map(|_| reply_to(&line.hear().unwrap()))
            .collect();
        gate.pass();
        line.say(&replies.concat());
    })
}

/// Long enough to be on its way before it is over, on a busy machine too.
const SHORT: Duration = ms(1_000);

#[test]
fn a_caller_whose_time_ends_aboard_is_told_unknown_and_costs_the_others_nothing() {
    let (peer, pool, open, first) = held_batch(3);
    let asks = [
        (echo(2), Bound::NONE),
        (echo(3), ends_in(SHORT)),
        (echo(4), Bound::NONE),
    ];
    let others = line_up(&pool, asks);
    open.send(()).unwrap();
    first.is_answered();
    peer.wait_for(4);
    let fault = others[1].fails(Class::Unknown);
    // Killing the link would cost the others their replies; and when those are there, it is known
    // to have run.
    let broken = fault.broken.as_ref().unwrap();
    assert!(is_to_be_waited_for(broken));
    open.send(()).unwrap();
    others[0].is_answered();
    others[2].is_answered();
    eventually("all has arrived", || is_over(broken));
    call(&pool, echo(5), Bound::NONE).is_answered();
    assert_eq!((peer.connections(), reconnects(&pool)), (1, 0));
    assert_at_rest(&pool);
    drop((fault, pool));
    assert_eq!(peer.end(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_leader_whose_time_ends_hands_on_and_the_others_get_their_replies_on_the_same_link() {
    let (peer, pool, open, first) = held_batch(4);
    let asks = [
        (echo(2), ends_in(SHORT)),
        (echo(3), ends_in(SHORT + ms(200))),
        (echo(4), Bound::NONE),
        (echo(5), Bound::NONE),
    ];
    let others = line_up(&pool, asks);
    open.send(()).unwrap();
    first.is_answered();
    peer.wait_for(5);
    // Two leaders, one after the other.
    let faults = [0, 1].map(|at: usize| others[at].fails(Class::Unknown));
    let broken = || faults.iter().map(|fault| fault.broken.as_ref().unwrap());
    assert!(broken().all(is_to_be_waited_for));
    open.send(()).unwrap();
    others[2].is_answered();
    others[3].is_answered();
    eventually("all has arrived", || broken().all(is_over));
    // What came for those who have gone is nobody else's.
    call(&pool, echo(6), Bound::NONE).is_answered();
    assert_eq!((peer.connections(), reconnects(&pool)), (1, 0));
    assert_at_rest(&pool);
    drop((faults, pool));
    assert_eq!(peer.end(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_leader_that_has_its_reply_reads_on_for_the_others_no_longer_than_its_own_time() {
    let (peer, pool, open, first) = gated(|line, gate| {
        let replies = [(); 3].map(|()| reply_to(&line.hear().unwrap()));
        line.say(&replies[0]);
        gate.pass();
        line.say(&replies[1..].concat());
    });
    let asks = [
        (echo(2), ends_in(SHORT)),
        (echo(3), Bound::NONE),
        (echo(4), Bound::NONE),
    ];
    let others = line_up(&pool, asks);
    open.send(()).unwrap();
    first.is_answered();
    others[0].is_answered();
    open.send(()).unwrap();
    others[1].is_answered();
    others[2].is_answered();
    assert_eq!((peer.connections(), reconnects(&pool)), (1, 0));
    assert_at_rest(&pool);
}

#[test]
fn a_batch_that_all_have_given_up_on_ends_its_link_and_no_other_caller_s_time() {
    let (peer, pool, open, first) = held_batch(2);
    let asks = [(echo(2), ends_in(SHORT)), (echo(3), ends_in(SHORT))];
    let others = line_up(&pool, asks);
    open.send(()).unwrap();
    first.is_answered();
    peer.wait_for(3);
    let behind = line_up_echoes(&pool, [4]);
    let faults = [0, 1].map(|at: usize| others[at].fails(Class::Unknown));
    behind[0].is_answered();
    assert_eq!((peer.connections(), reconnects(&pool)), (2, 1));
    assert_at_rest(&pool);
    // Nobody reads there any more: it takes a kill.
    let fence = faults[0].broken.as_ref().unwrap();
    let fence = fence.fence(&Clock::default(), now());
    assert!(matches!(fence, Fence::Yours(_)));
    drop(fence);
    drop((faults, pool, open));
    let mut heard = peer.end();
    heard.sort_unstable();
    assert_eq!(heard, [1, 2, 3, 4]);
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting_and_its_slot_to_the_next() {
    // The leader meets it in its own reply, or in that of another.
    for panics_at in [2, 3] {
        let (peer, pool, open, first) = held_batch(4);
        let asks = (2..=5).map(|number| match number {
            _ if number == panics_at => shaped(Shape::Panic, number),
            _ => echo(number),
        });
        let others = line_up(&pool, asks.map(|ask| (ask, Bound::NONE)));
        open.send(()).unwrap();
        first.is_answered();
        peer.wait_for(5);
        let behind = line_up_echoes(&pool, [6, 7]);
        open.send(()).unwrap();
        others[0].panics();
        // One of them has its reply in hand at the server: the leader took it along.
        let faults = [1, 2, 3].map(|at: usize| others[at].fails(Class::Unknown));
        behind.iter().for_each(Caller::is_answered);
        assert_eq!(peer.connections(), 2);
        assert_at_rest(&pool);
        drop((faults, pool));
        assert_eq!(peer.end(), [1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn a_caller_that_panics_alone_on_a_link_leaves_its_slot_to_the_next() {
    let (open, gate) = gate();
    let peer = Peer::start(move |mut line| {
        if line.number == 1 {
            let words = line.hear().unwrap();
            gate.pass();
            line.say(&reply_to(&words));
        }
        line.serve();
    });
    let pool = pool_to(&peer, 1, PATIENT);
    let first = call(&pool, shaped(Shape::Panic, 1), Bound::NONE);
    peer.wait_for(1);
    let behind = line_up_echoes(&pool, [2, 3]);
    open.send(()).unwrap();
    first.panics();
    behind.iter().for_each(Caller::is_answered);

    // Neither does one that panics before it has sent anything, alone or on its way into the line.
    call(&pool, shaped(Shape::Unpackable, 4), Bound::NONE).panics();
    assert_at_rest(&pool);
    call(&pool, echo(5), Bound::NONE).is_answered();
}

#[test]
fn a_caller_that_panics_on_its_way_into_the_line_is_not_in_it() {
    let (peer, pool, open, first) = gated(|_, _| {});
    let lined_up = line_up_echoes(&pool, [2]);
    call(&pool, shaped(Shape::Unpackable, 3), Bound::NONE).panics();
    let behind = line_up_echoes(&pool, [4]);
    open.send(()).unwrap();
    first.is_answered();
    lined_up[0].is_answered();
    behind[0].is_answered();
    assert_at_rest(&pool);
    drop(pool);
    assert_eq!(peer.end(), [1, 2, 4]);
}

#[test]
fn what_is_urgent_goes_before_others_and_the_others_are_not_forgotten() {
    let (peer, pool, open, first) = gated(|_, _| {});
    let urgent = Bound::NONE.urgent();
    let asks = [
        (echo(2), Bound::NONE),
        (echo(3), Bound::NONE),
        (echo(4), urgent),
        (echo(5), urgent),
        (echo(6), urgent),
    ];
    let others = line_up(&pool, asks);
    open.send(()).unwrap();
    first.is_answered();
    others.iter().for_each(Caller::is_answered);
    drop(pool);
    // In turns, from the front line first.
    assert_eq!(peer.end(), [1, 4, 2, 5, 3, 6]);
}

#[test]
fn what_is_urgent_is_on_the_next_link_however_many_stand_in_line() {
    const CROWD: u32 = 150;
    let (peer, pool, open, first) = gated(|_, _| {});
    let crowd: Vec<_> = (2..2 + CROWD)
        .map(|number| call(&pool, echo(number), Bound::NONE))
        .collect();
    eventually("all stand in line", || in_line(&pool) == CROWD as usize);
    let urgent = line_up(&pool, [(echo(1_000), Bound::NONE.urgent())]);
    open.send(()).unwrap();
    first.is_answered();
    urgent[0].is_answered();
    crowd.iter().for_each(Caller::is_answered);
    assert_eq!(peer.connections(), 1);
    drop(pool);
    let heard = peer.end();
    assert_eq!(heard.len(), CROWD as usize + 2);
    assert_eq!(heard[1], 1_000);
}

#[test]
fn a_batch_is_no_longer_than_its_last_caller_can_wait_for() {
    let (batches, arrived) = channel();
    let (peer, pool, open, first) = gated(move |line, _| {
        while let Some(words) = line.hear() {
            let (mut replies, mut count) = (reply_to(&words), 1);
            while let Some(words) = line.at_hand() {
                replies.extend(reply_to(&words));
                count += 1;
            }
            let _ = batches.send(count);
            line.say(&replies);
        }
    });
    let crowd: Vec<_> = (2..202)
        .map(|number| call(&pool, echo(number), Bound::NONE))
        .collect();
    eventually("all stand in line", || in_line(&pool) == crowd.len());
    open.send(()).unwrap();
    first.is_answered();
    crowd.iter().for_each(Caller::is_answered);
    assert_at_rest(&pool);
    drop(pool);
    drop(peer.end());
    let mut sizes: Vec<usize> = arrived.iter().collect();
    assert_eq!(sizes.iter().sum::<usize>(), 200);
    sizes.retain(|size| MOST_ABOARD < *size);
    assert!(sizes.is_empty(), "{sizes:?}");
}

#[test]
fn a_caller_that_goes_before_it_is_aboard_has_sent_nothing() {
    let (peer, pool, open, first) = gated(|_, _| {});
    let caller = line_up(&pool, [(echo(2), ends_in(ms(200)))]);
    // A leader has taken it along, and is not given the time to write.
    let turn = pool.state.lock().waiting.next().unwrap();
    caller[0].fails(Class::NoTurn);
    let link = pool.open(Bound::NONE).unwrap();
    let under_way = Broken::under_way(link.wire(), 1);
    assert!(!turn.board(&under_way), "it goes out all the same");
    drop((link, under_way));
    open.send(()).unwrap();
    first.is_answered();
    drop(pool);
    assert_eq!(peer.end(), [1]);
}
