//! The signals that `run` is sent: to the command while it runs, to the wait before that.

use std::sync::Arc;
use std::thread;

use leasehold::Canceller;
use parking_lot::Mutex;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use super::group::Group;
use super::ignored::heeded;
use crate::exit::{Code, Failure};

pub(super) struct Receiver {
    phase: Mutex<Phase>,
    canceller: Canceller,
}

enum Phase {
    /// For the lock.
    Waiting,
    /// The wait was ended by this signal.
    Ended(i32),
    Running(Arc<Group>),
}

impl Receiver {
    /// Receives from now on, on a thread of its own.
    pub(super) fn start() -> Result<Arc<Self>, Failure> {
        let refused = |error: std::io::Error| {
            Failure::new(
                Code::UNAVAILABLE,
                format!("cannot receive signals: {error}"),
            )
        };
        let wanted = [
            SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
        ];
        let mut signals = Signals::new(heeded(&wanted)).map_err(refused)?;
        let receiver = Arc::new(Self {
            phase: Mutex::new(Phase::Waiting),
            canceller: Canceller::new(),
        });
        let of_thread = Arc::clone(&receiver);
        thread::Builder::new()
            .name("leasehold-signal".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    of_thread.receive(signal);
                }
            })
            .map_err(refused)?;
        Ok(receiver)
    }

    pub(super) fn canceller(&self) -> &Canceller {
        &self.canceller
    }

    /// The signal that has ended the wait.
    pub(super) fn ended_by(&self) -> Option<i32> {
        match *self.phase.lock() {
            Phase::Ended(signal) => Some(signal),
            _ => None,
        }
    }

    /// From now on the command gets them. `Err` is the signal that came before.
    pub(super) fn hand_to(&self, group: &Arc<Group>) -> Result<(), i32> {
        let mut phase = self.phase.lock();
        if let Phase::Ended(signal) = *phase {
            return Err(signal);
        }
        *phase = Phase::Running(Arc::clone(group));
        Ok(())
    }

    fn receive(&self, signal: i32) {
        let mut phase = self.phase.lock();
        match &*phase {
            Phase::Waiting => match signal {
                SIGHUP | SIGINT | SIGQUIT | SIGTERM => {
                    *phase = Phase::Ended(signal);
                    drop(phase);
                    self.canceller.cancel();
                }
                SIGTSTP => {
                    drop(phase);
                    super::terminal::Terminal::stop_ourselves();
                }
                _ => {}
            },
            Phase::Running(group) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    group.signal(signal);
                }
            }
            Phase::Ended(_) => {}
        }
    }
}
