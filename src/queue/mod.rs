//! The queue of one process for each key: who waits for what this client itself holds, or for the
//! one of its threads that is at the server for all of them.
//!
//! First come, first served. Only the one in front goes to the server, and only while nobody here
//! holds the key: a release by a neighbour is known here before any server can tell of it. The
//! room knows neither server nor lease: a [`Tenancy`] is all it has to know of whoever holds a key,
//! a claim is what a waiter brings, and what it may be handed is whatever the giver has.

mod place;
mod seat;
mod seats;
mod words;

pub(crate) use seat::Seat;
pub(crate) use seats::{Came, Queue};
pub(crate) use words::{Start, Tenancy, Word};
