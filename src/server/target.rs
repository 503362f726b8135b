//! What a command is about, and whose a record is found to be.

use super::keys::Keys;
use crate::token::Token;

/// What one attempt is about.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) token: &'a Token,
    /// Time to live, in whole milliseconds.
    pub(crate) ttl: u64,
    pub(crate) fenced: bool,
}

/// Whose the record is, as a compare script found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It was ours, and the script did its work.
    Ours,
    /// There is no record.
    Gone,
    /// Another's record, or a key of another type, stands there.
    Another,
}
