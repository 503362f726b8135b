//! Packing commands into the bytes that go out.

use std::fmt;

/// The most memory that an empty batch keeps.
const MOST_KEPT: usize = 32 * 1024;

/// A batch of packed commands.
///
/// `redis::Cmd` packs as well, at the price of allocations for each command (two with a
/// reused `Cmd`); this buffer is kept by its link, and a command costs none.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    first_end: usize,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        // One long request, or a crowd of them, is no reason to keep so much for ever.
        if MOST_KEPT < self.bytes.capacity() {
            self.bytes.shrink_to(MOST_KEPT);
        }
        self.first_end = 0;
    }

    /// Appends one command, its name included, in RESP: an array of bulk strings.
    pub(crate) fn push(&mut self, arguments: &[&[u8]]) {
        self.open(arguments.len());
        for argument in arguments {
            self.argument(argument);
        }
        self.close();
    }

    /// Begins a command of `count` arguments, which [`argument`](Self::argument) then
    /// appends one by one.
    pub(crate) fn open(&mut self, count: usize) {
        self.bytes.push(b'*');
        self.number(count);
    }

    pub(crate) fn argument(&mut self, argument: &[u8]) {
        self.bytes.push(b'$');
        self.number(argument.len());
        self.bytes.extend_from_slice(argument);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Ends a command begun by [`open`](Self::open).
    pub(crate) fn close(&mut self) {
        if self.first_end == 0 {
            self.first_end = self.bytes.len();
        }
    }

    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            first_end: 0,
        }
    }

    /// Appends commands that were packed elsewhere.
    pub(super) fn append(&mut self, other: &Self) {
        if self.first_end == 0 {
            self.first_end = other.first_end;
        }
        self.bytes.extend_from_slice(&other.bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the first command ends: while fewer bytes than that have been accepted, no
    /// command of the batch can run.
    pub(crate) const fn first_end(&self) -> usize {
        self.first_end
    }

    /// Nearly all numbers of a command have one or two digits, and there are a dozen of them
    /// in a cycle: written through [`Decimal`] they were a quarter of all its instructions.
    fn number(&mut self, number: usize) {
        if number < 100 {
            let (tens, ones) = ((number / 10) as u8, (number % 10) as u8);
            if tens != 0 {
                self.bytes.push(b'0' + tens);
            }
            self.bytes.push(b'0' + ones);
        } else {
            self.bytes
                .extend_from_slice(Decimal::of(number as u64).as_bytes());
        }
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Tokens and passwords are packed in it: it shows its length alone.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("length", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// A number as decimal text on the stack.
pub(crate) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(crate) fn of(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { digits, start };
            }
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_packed_command_is_what_the_redis_crate_packs(
            arguments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..220), 1..120)
        ) {
            let mut batch = Batch::default();
            let slices: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            batch.push(&slices);
            let theirs = redis::pack_command(&arguments);
            prop_assert_eq!(batch.bytes(), &theirs[..]);
        }

        #[test]
        fn a_decimal_is_the_number_as_text(number in any::<u64>()) {
            let (ours, theirs) = (Decimal::of(number), number.to_string());
            prop_assert_eq!(ours.as_bytes(), theirs.as_bytes());
        }
    }

    #[test]
    fn the_end_of_the_first_command_stays_when_more_follow() {
        let mut batch = Batch::default();
        batch.push(&[b"ROLE"]);
        let end = batch.bytes().len();
        batch.push(&[b"ROLE"]);
        assert_eq!(batch.first_end(), end);
        batch.clear();
        assert_eq!(batch.first_end(), 0);
        assert_eq!(Decimal::of(u64::MAX).as_bytes(), b"18446744073709551615");
    }
}
