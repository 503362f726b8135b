//! What a failure says about a command: the words that everything else is decided by.

/// What a failure says about the command that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// There was no turn at the links in time: nothing has been sent, and nothing is wrong.
    NoTurn,
    /// No link could be opened: nothing has been sent.
    NoLink,
    /// The socket did not accept the command's last byte: it cannot run.
    NotSent,
    /// The server answered that it did not run it; another try may help.
    NotRun,
    /// The server answered that it will not run it; another try will not help.
    Refused,
    /// The key holds something that is not a string. Definite, and the link is fine.
    WrongType,
    /// Sent whole and not answered in a way that says whether it ran.
    Unknown,
}
