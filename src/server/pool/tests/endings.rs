//! Links that end while requests of several callers are on them.

use super::*;
use crate::server::broken::Fence;
use crate::server::wire::Identity;

/// Whoever of them fences their link off, does so for all.
#[track_caller]
fn assert_share_one_fence(faults: &[Fault]) {
    let broken: Vec<_> = faults
        .iter()
        .map(|fault| fault.broken.as_ref().unwrap())
        .collect();
    let Fence::Yours(fencer) = broken[0].fence(&Clock::default(), now()) else {
        panic!("nobody else is at it");
    };
    assert_eq!(fencer.connection.id, "1");
    assert!(matches!(
        broken[1].fence(&Clock::default(), now()),
        Fence::TooLate
    ));
    fencer.note(Some(1), &Identity::default());
    drop(fencer);
    for broken in broken {
        assert!(broken.is_fenced_off());
        let fence = broken.fence(&Clock::default(), now());
        assert!(matches!(fence, Fence::Over));
    }
}

#[test]
fn a_link_that_ends_within_a_batch_leaves_to_each_caller_what_is_its_own() {
    // The bytes of the third reply that still come.
    for bytes in 0.."$1\r\n4\r\n".len() {
        let (peer, pool, open, first) = gated(move |line, _| {
            let replies = [(); 5].map(|()| reply_to(&line.hear().unwrap()));
            line.say(&[&replies[0], &replies[1], &replies[2][..bytes]].concat());
            line.close();
        });
        let others = line_up_echoes(&pool, 2..=6);
        open.send(()).unwrap();
        first.is_answered();
        let (answered, unanswered) = others.split_at(2);
        answered.iter().for_each(Caller::is_answered);
        let faults: Vec<_> = unanswered
            .iter()
            .map(|caller| caller.fails(Class::Unknown))
            .collect();
        assert_share_one_fence(&faults);
        assert_eq!(reconnects(&pool), 0);
        call(&pool, echo(7), Bound::NONE).is_answered();
        assert_eq!((peer.connections(), reconnects(&pool)), (2, 1));
        assert_at_rest(&pool);
        drop((faults, pool));
        assert_eq!(peer.end(), [1, 2, 3, 4, 5, 6, 7]);
    }
}

/// More than the buffers of both sides take.
const HUGE: usize = 32 << 20;

#[test]
fn what_the_socket_has_not_accepted_was_not_sent_and_what_it_has_is_unknown() {
    let (until_here, end_of_test) = gate();
    // The time to write a batch is that of one command; the gate is opened long before.
    let timeouts = Timeouts {
        command: ms(2_000),
        ..PATIENT
    };
    let (peer, pool, open, first) = gated_within(timeouts, move |_, _| end_of_test.pass());
    let huge = Ask {
        padding: HUGE,
        ..echo(4)
    };
    let asks = [echo(2), echo(3), huge, echo(5), echo(6)];
    let others = line_up(&pool, asks.map(|ask| (ask, Bound::NONE)));
    open.send(()).unwrap();
    first.is_answered();
    let faults = [0, 1].map(|at: usize| others[at].fails(Class::Unknown));
    others[2].fails(Class::NotSent);
    assert_share_one_fence(&faults);
    // Nobody is made to wait for the writing of so much, and their link is another one.
    others[3].is_answered();
    others[4].is_answered();
    assert_eq!(peer.connections(), 2);
    assert_at_rest(&pool);
    drop((faults, pool, until_here));
    // What was accepted is there, though nobody has read it by then.
    let mut heard = peer.end();
    heard.sort_unstable();
    assert_eq!(heard, [1, 2, 3, 5, 6]);
}

#[test]
fn garbage_or_a_reply_of_the_wrong_kind_ends_the_link_for_all_behind_it() {
    for (shape, said) in [
        (Shape::Echo, "?what\r\n"),
        (Shape::Set, ":1\r\n"),
        (Shape::Role, "+OK\r\n"),
    ] {
        let (peer, pool, open, first) = gated(move |line, _| {
            let mut replies = Vec::new();
            for number in 2..=5 {
                let mut words = line.hear().unwrap();
                if words[0] == "ROLE" {
                    words = line.hear().unwrap();
                }
                // Those behind it look as if they were in order.
                replies.push(match number {
                    3 => said.as_bytes().to_vec(),
                    _ => reply_to(&words),
                });
            }
            line.say(&replies.concat());
        });
        let asks = [echo(2), shaped(shape, 3), echo(4), echo(5)];
        let others = line_up(&pool, asks.map(|ask| (ask, Bound::NONE)));
        open.send(()).unwrap();
        first.is_answered();
        others[0].is_answered();
        let faults = [1, 2, 3].map(|at: usize| others[at].fails(Class::Unknown));
        assert_share_one_fence(&faults);
        call(&pool, echo(6), Bound::NONE).is_answered();
        assert_eq!(peer.connections(), 2, "{said:?}");
        assert_at_rest(&pool);
    }
}

#[test]
fn a_reply_that_nobody_asked_for_is_nobody_s() {
    let (open, gate) = gate();
    let peer = Peer::start(move |mut line| {
        // Behind the reply to one request, and behind those to a batch.
        if line.number <= 2 {
            let mut replies = reply_to(&line.hear().unwrap());
            gate.pass();
            while let Some(words) = line.at_hand() {
                replies.extend(reply_to(&words));
            }
            replies.extend(b"$2\r\n99\r\n");
            line.say(&replies);
        }
        line.serve();
    });
    let pool = pool_to(&peer, 1, PATIENT);
    let first = call(&pool, echo(1), Bound::NONE);
    peer.wait_for(1);
    let tricked = line_up_echoes(&pool, [2, 3]);
    open.send(()).unwrap();
    first.is_answered();
    for caller in &tricked {
        caller.fails(Class::NotSent);
    }
    let second = call(&pool, echo(4), Bound::NONE);
    peer.wait_for(4);
    let tricked = line_up_echoes(&pool, [5, 6]);
    open.send(()).unwrap();
    second.is_answered();
    for caller in &tricked {
        caller.fails(Class::NotSent);
    }
    call(&pool, echo(7), Bound::NONE).is_answered();
    assert_at_rest(&pool);
    drop((pool, second));
    assert_eq!(peer.end(), [1, 4, 7]);
}

#[test]
fn an_end_before_a_courtesy_is_answered_costs_its_caller_nothing() {
    let (peer, pool, open, first) = gated(|line, _| {
        let (echo, _load) = (line.hear().unwrap(), line.hear().unwrap());
        line.hear();
        line.say(&reply_to(&echo));
        line.close();
    });
    let asks = [shaped(Shape::Courteous, 2), echo(3)];
    let others = line_up(&pool, asks.map(|ask| (ask, Bound::NONE)));
    open.send(()).unwrap();
    first.is_answered();
    others[0].is_answered();
    others[1].fails(Class::Unknown);
    call(&pool, echo(4), Bound::NONE).is_answered();
    assert_eq!(peer.connections(), 2);
    assert_at_rest(&pool);
}

#[test]
fn those_who_wait_are_told_at_once_when_no_link_can_be_opened() {
    let (open, gate) = gate();
    let peer = Peer::start(move |mut line| {
        if line.number == 1 {
            gate.pass();
        } else {
            line.serve();
        }
    });
    let pool = pool_to(&peer, 1, PATIENT);
    let first = call(&pool, echo(1), Bound::NONE);
    eventually("it is being opened", || pool.state.lock().opening == 1);
    let others = line_up_echoes(&pool, 2..=5);
    open.send(()).unwrap();
    first.fails(Class::NoLink);
    for caller in &others {
        caller.fails(Class::NoLink);
    }
    assert_eq!(peer.connections(), 1, "they do not try one after the other");
    call(&pool, echo(6), Bound::NONE).is_answered();
    assert_at_rest(&pool);
    drop((pool, others));
    assert_eq!(peer.end(), [6]);
}

#[test]
fn a_link_that_ends_while_nobody_uses_it_takes_its_like_with_it() {
    let ((open, to_answer), (close, to_close)) = (gate(), gate());
    let peer = Peer::start(move |mut line| {
        if line.number <= 2 {
            let words = line.hear().unwrap();
            to_answer.pass();
            line.say(&reply_to(&words));
            to_close.pass();
            line.close();
        } else {
            line.serve();
        }
    });
    let pool = pool_to(&peer, 2, PATIENT);
    let both = [1, 2].map(|number| call(&pool, echo(number), Bound::NONE));
    peer.wait_for(1);
    peer.wait_for(2);
    (0..2).for_each(|_| open.send(()).unwrap());
    both.iter().for_each(Caller::is_answered);
    (0..2).for_each(|_| close.send(()).unwrap());
    // The first caller finds out; the next is not sent into the same trap.
    let found_out = call(&pool, echo(3), Bound::NONE).outcome().unwrap_err();
    assert!(matches!(found_out.class, Class::Unknown | Class::NotSent));
    call(&pool, echo(4), Bound::NONE).is_answered();
    assert_eq!((peer.connections(), reconnects(&pool)), (3, 1));
    assert_at_rest(&pool);
}
