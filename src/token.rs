//! The token: the value that proves which acquisition owns a record.

use std::fmt;
use std::str::FromStr;

use crate::error::{Cause, Config, Error};

/// Hexadecimal digits in a token: 20 bytes of randomness, two digits a byte.
const DIGITS: usize = 40;

/// A label travels with every command, and records are read back up to a few KiB.
const LONGEST_LABEL: usize = 1024;

/// The text of a lock record: 40 hexadecimal digits and, after a space, the label if there
/// is one.
///
/// Each acquisition has a token of its own, drawn from the operating system's randomness
/// (160 bits, one call per token, nothing buffered, so that neither a fork nor a copy of a
/// virtual machine repeats one). Whoever knows the token can release the lock, so treat it
/// as a secret: `Debug` shows a short fingerprint and there is no `Display`;
/// [`expose`](Self::expose) is the one way to the text.
///
/// The record is compared as a whole on the server, label included, as the documented
/// pattern for [distributed locks](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)
/// asks.
///
/// # Example: a token survives the way through text
///
/// ```
/// use leasehold::Token;
///
/// let text = "00112233445566778899aabbccddeeff00112233 nightly report";
/// let token: Token = text.parse()?;
/// assert_eq!(token.expose(), text);
/// assert_eq!(token.label(), Some("nightly report"));
/// assert!(!format!("{token:?}").contains("00112233445566778899"));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: Box<str>,
}

impl Token {
    /// Draws a fresh token. The label has been checked by [`check_label`].
    pub(crate) fn fresh(label: Option<&str>) -> Result<Self, Cause> {
        let mut random = [0; DIGITS / 2];
        getrandom::fill(&mut random).map_err(Cause::Randomness)?;
        let length = DIGITS + label.map_or(0, |label| 1 + label.len());
        let mut text = String::with_capacity(length);
        for byte in random {
            let start = 2 * usize::from(byte);
            text.push_str(&PAIRS[start..start + 2]);
        }
        if let Some(label) = label {
            text.push(' ');
            text.push_str(label);
        }
        // The capacity is exact, so that this does not move the text.
        Ok(Self {
            text: text.into_boxed_str(),
        })
    }

    /// The whole text, as it stands in the lock record.
    ///
    /// Keep it out of logs, command lines and error messages: it is all that a stranger
    /// needs to release the lock.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The label behind the digits, if there is one.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.text.get(DIGITS + 1..)
    }

    /// Eight hexadecimal digits that tell two tokens apart in a log and do not give the
    /// token away.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(self.text.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(fingerprint {})", self.fingerprint())
    }
}

impl FromStr for Token {
    type Err = Error;

    /// Reads a token from its text, as [`expose`](Self::expose) gave it.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) if the text is not 40 lower-case hexadecimal digits,
    /// or if something other than a space and a valid label follows them. The message does
    /// not repeat the text.
    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = || Error::config(Config::MalformedToken { length: text.len() });
        let digits = text.as_bytes().get(..DIGITS).ok_or_else(malformed)?;
        if !digits
            .iter()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Err(malformed());
        }
        match text.get(DIGITS..) {
            Some("") => {}
            Some(rest) => {
                let label = rest.strip_prefix(' ').ok_or_else(malformed)?;
                check_label(label).map_err(Error::config)?;
            }
            None => return Err(malformed()),
        }
        Ok(Self { text: text.into() })
    }
}

/// A label is a line of text: whoever reads a record by hand must see where it ends.
pub(crate) fn check_label(label: &str) -> Result<(), Config> {
    if label.is_empty() {
        return Err(Config::EmptyLabel);
    }
    if LONGEST_LABEL < label.len() {
        return Err(Config::LabelTooLong {
            length: label.len(),
            most: LONGEST_LABEL,
        });
    }
    match label.chars().position(char::is_control) {
        Some(position) => Err(Config::ControlInLabel { position }),
        None => Ok(()),
    }
}

/// The fingerprint of any record, a foreign client's included.
///
/// FNV-1a folded to 32 bits: the same in every process and version, unlike the standard
/// hasher, and too short to lead back to 160 random bits.
pub(crate) fn fingerprint(record: &[u8]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in record {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// The two digits of every byte, one after the other: half the time of digit by digit.
const PAIRS: &str = {
    const BYTES: [u8; 512] = {
        let digits = b"0123456789abcdef";
        let mut pairs = [0; 512];
        let mut byte = 0;
        while byte < 256 {
            pairs[2 * byte] = digits[byte >> 4];
            pairs[2 * byte + 1] = digits[byte & 0xf];
            byte += 1;
        }
        pairs
    };
    // Found out at compile time or never.
    match std::str::from_utf8(&BYTES) {
        Ok(pairs) => pairs,
        Err(_) => panic!("hexadecimal digits are text"),
    }
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_million_tokens_are_distinct_and_well_formed() {
        let mut seen = HashSet::new();
        for _ in 0..1_000_000 {
            let token = Token::fresh(None).unwrap();
            assert_eq!(token.text.len(), DIGITS);
            assert!(token.text.bytes().all(|b| b.is_ascii_hexdigit()));
            let value = u128::from_str_radix(&token.text[..32], 16).unwrap();
            assert!(seen.insert((value, token.text[32..].to_owned())));
        }
        assert_eq!(seen.len(), 1_000_000);
    }

    #[test]
    fn every_digit_of_a_token_takes_every_value() {
        let mut seen = HashSet::new();
        for _ in 0..2_000 {
            let token = Token::fresh(None).unwrap();
            seen.extend(token.text.char_indices());
        }
        assert_eq!(seen.len(), DIGITS * 16);
    }

    #[test]
    fn a_label_stands_behind_one_space_and_comes_back() {
        let token = Token::fresh(Some("a b")).unwrap();
        assert_eq!(token.label(), Some("a b"));
        assert_eq!(token.expose().as_bytes()[DIGITS], b' ');
        let again: Token = token.expose().parse().unwrap();
        assert_eq!(again, token);
        assert_eq!(Token::fresh(None).unwrap().label(), None);
    }

    #[test]
    fn what_is_not_a_token_is_refused_without_being_repeated() {
        let digits = "0123456789abcdef0123456789abcdef01234567";
        for text in [
            "".to_owned(),
            digits[..39].to_owned(),
            format!("{digits}0"),
            format!("{digits} "),
            format!("{digits} a\nb"),
            digits.to_uppercase(),
            format!("{}é", &digits[..39]),
            "g".repeat(40),
        ] {
            let error = text.parse::<Token>().unwrap_err();
            assert!(error.is_config(), "{text:?}");
            assert!(text.is_empty() || !error.to_string().contains(&text));
        }
    }

    #[test]
    fn debug_shows_no_part_of_the_token() {
        let token = Token::fresh(Some("secret-label")).unwrap();
        let shown = format!("{token:?}");
        assert!(!shown.contains(&token.text[..8]));
        assert!(!shown.contains("secret-label"));
        assert!(shown.contains(&token.fingerprint()));
    }
}
