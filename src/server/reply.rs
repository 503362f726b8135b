//! Cutting replies out of the bytes that come in.
//!
//! `+OK`, `$-1` and `:n` are matched by hand: they are all that the hot path sees. For
//! everything else the reply's length is found first and the whole frame goes to the
//! parser of the `redis` crate. Length first, because that parser reads past the end of a
//! reply, and because it trusts lengths that no server of ours would send.

use redis::Value;

/// More than any reply that leasehold asks for; the largest string Redis keeps is in it.
const LONGEST_STRING: usize = 512 * 1024 * 1024;
/// `ROLE` on a primary lists its replicas.
const MOST_ITEMS: usize = 4096;
const DEEPEST_NESTING: usize = 8;
const LONGEST_LINE: usize = 64 * 1024;

/// Bytes that are not the beginning of any reply that Redis gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Garbage;

/// Takes the first reply off `bytes`: the value and the length of its frame, or `None`
/// while it is incomplete.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Value, usize)>, Garbage> {
    if bytes.starts_with(b"+OK\r\n") {
        return Ok(Some((Value::Okay, 5)));
    }
    if bytes.starts_with(b"$-1\r\n") {
        return Ok(Some((Value::Nil, 5)));
    }
    let Some(length) = frame(bytes, 0)? else {
        return Ok(None);
    };
    if bytes.starts_with(b":") {
        let number = integer(&bytes[1..length - 2])?;
        return Ok(Some((Value::Int(number), length)));
    }
    let value = redis::parse_redis_value(&bytes[..length]).map_err(|_| Garbage)?;
    Ok(Some((value, length)))
}

/// The length of the first frame of `bytes`, or `None` while it is incomplete.
fn frame(bytes: &[u8], depth: usize) -> Result<Option<usize>, Garbage> {
    let Some(kind) = bytes.first() else {
        return Ok(None);
    };
    if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') || DEEPEST_NESTING < depth {
        return Err(Garbage);
    }
    let Some(line) = line(&bytes[1..])? else {
        return Ok(None);
    };
    let mut length = 1 + line.len() + 2;
    match kind {
        b'$' => {
            let Some(size) = size(line, LONGEST_STRING)? else {
                return Ok(Some(length));
            };
            let end = length + size;
            match bytes.get(end..end + 2) {
                Some(b"\r\n") => Ok(Some(end + 2)),
                Some(_) => Err(Garbage),
                None => Ok(None),
            }
        }
        b'*' => {
            for _ in 0..size(line, MOST_ITEMS)?.unwrap_or(0) {
                match frame(&bytes[length..], depth + 1)? {
                    Some(item) => length += item,
                    None => return Ok(None),
                }
            }
            Ok(Some(length))
        }
        _ => Ok(Some(length)),
    }
}

fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Garbage> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => match bytes[..end].strip_suffix(b"\r") {
            Some(line) if line.len() <= LONGEST_LINE => Ok(Some(line)),
            _ => Err(Garbage),
        },
        None if LONGEST_LINE < bytes.len() => Err(Garbage),
        None => Ok(None),
    }
}

/// A length, or `None` for −1, which stands for "nothing there".
fn size(line: &[u8], most: usize) -> Result<Option<usize>, Garbage> {
    match integer(line)? {
        -1 => Ok(None),
        size => match usize::try_from(size) {
            Ok(size) if size <= most => Ok(Some(size)),
            _ => Err(Garbage),
        },
    }
}

fn integer(line: &[u8]) -> Result<i64, Garbage> {
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Garbage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPLIES: [&[u8]; 9] = [
        b"+OK\r\n",
        b"$-1\r\n",
        b":1\r\n",
        b":-9223372036854775808\r\n",
        b"-NOSCRIPT No matching script.\r\n",
        b"$5\r\na\r\nbc\r\n",
        b"*2\r\n$2\r\nab\r\n:-1\r\n",
        b"*3\r\n$6\r\nmaster\r\n:7\r\n*1\r\n*3\r\n$1\r\nh\r\n$1\r\np\r\n$1\r\n0\r\n",
        b"*-1\r\n",
    ];

    #[test]
    fn every_reply_is_found_whole_and_no_shorter_piece_of_it() {
        for reply in REPLIES {
            let (value, length) = decode(reply).unwrap().unwrap();
            assert_eq!(length, reply.len());
            assert_eq!(value, redis::parse_redis_value(reply).unwrap());
            for end in 0..reply.len() {
                assert_eq!(decode(&reply[..end]), Ok(None), "{end} of {reply:?}");
            }
        }
    }

    #[test]
    fn what_follows_a_reply_is_left_alone() {
        for first in REPLIES {
            for second in REPLIES {
                let both = [first, second].concat();
                assert_eq!(decode(&both).unwrap().unwrap().1, first.len());
            }
        }
    }

    #[test]
    fn lengths_that_no_server_sends_are_garbage_and_allocate_nothing() {
        for bytes in [
            &b"$9223372036854775807\r\n"[..],
            b"*9223372036854775807\r\n",
            b"*100000\r\n",
            b"$-2\r\n",
            b":1x\r\n",
            b"%1\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            b"$2\r\nabcd",
            b"+a\n",
        ] {
            assert_eq!(decode(bytes), Err(Garbage), "{bytes:?}");
        }
        assert_eq!(decode(&b"*1\r\n".repeat(20)), Err(Garbage));
        assert_eq!(decode(&vec![b'+'; LONGEST_LINE + 2]), Err(Garbage));
    }

    proptest! {
        #[test]
        fn no_bytes_at_all_make_the_decoder_panic_or_overrun(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(&b"+-:$*\r\n0123456789"[..])], 0..200)
        ) {
            if let Ok(Some((_, length))) = decode(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }
}
