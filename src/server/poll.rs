//! Waiting for several sockets at a time.

use socket2::Socket;

use crate::clock::{Clock, Time};

/// Waits until one of `sockets` can be read, or written where that is wanted, or until `until`.
/// It may return for no reason.
#[cfg(unix)]
pub(super) fn wait<'a>(
    sockets: impl Iterator<Item = (&'a Socket, bool)>,
    clock: &Clock,
    until: Time,
) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut polled: Vec<_> = sockets
        .map(|(socket, writes)| {
            let flags = if writes {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            PollFd::new(socket, flags)
        })
        .collect();
    let span = Timespec::try_from(until.since(clock.now())).ok();
    // A signal ends it early, which is as good as any other reason to look again.
    let _ = poll(&mut polled, span.as_ref());
}

/// Without a `poll` that safe code can call, sockets are looked at every millisecond while a
/// reply is expected.
#[cfg(not(unix))]
pub(super) fn wait<'a>(
    _sockets: impl Iterator<Item = (&'a Socket, bool)>,
    clock: &Clock,
    until: Time,
) {
    let look = clock.now().plus(std::time::Duration::from_millis(1));
    crate::backoff::pause(clock, look.min(until));
}
