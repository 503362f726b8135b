//! Where a command or a reply ends in a stream of bytes, and what a command says.

/// The first whole command in `bytes`: its words and its length. `None` while it is incomplete.
pub fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (header, mut at) = line(bytes, 0)?;
    let Some(count) = header.strip_prefix(b"*") else {
        // The inline form, as typed by hand.
        let words = header
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        return Some((words.map(<[u8]>::to_vec).collect(), at));
    };
    let mut words = Vec::new();
    for _ in 0..number(count).max(0) {
        let (header, start) = line(bytes, at)?;
        let end = start + number(header.get(1..).unwrap_or_default()).max(0) as usize;
        words.push(bytes.get(start..end)?.to_vec());
        at = end + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// The length of the first whole reply in `bytes` (RESP2 and RESP3).
pub fn reply_len(bytes: &[u8]) -> Option<usize> {
    end_of_reply(bytes, 0)
}

/// The words as text; bytes that are not UTF-8 are replaced.
pub fn text(words: &[Vec<u8>]) -> Vec<String> {
    words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// `words` as a client sends them.
pub fn pack(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(&bulk(word));
    }
    bytes
}

/// `text` as a bulk string, the form of most replies.
pub fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Whether a command begins with `name`, which may be several words: `CLIENT KILL`.
pub fn begins_with(command: &[String], name: &str) -> bool {
    let mut words = command.iter();
    name.split_whitespace()
        .all(|part| words.next().is_some_and(|w| w.eq_ignore_ascii_case(part)))
}

fn end_of_reply(bytes: &[u8], at: usize) -> Option<usize> {
    let (header, next) = line(bytes, at)?;
    let length = || number(header.get(1..).unwrap_or_default());
    match header.first() {
        Some(b'$' | b'=' | b'!') if length() >= 0 => {
            let end = next + length() as usize + 2;
            (end <= bytes.len()).then_some(end)
        }
        Some(b'*' | b'~' | b'>') => {
            (0..length().max(0)).try_fold(next, |at, _| end_of_reply(bytes, at))
        }
        Some(b'%') => (0..2 * length().max(0)).try_fold(next, |at, _| end_of_reply(bytes, at)),
        _ => Some(next),
    }
}

/// The line that starts at `at`, without its end, and where the next one starts.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let length = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&rest[..length], at + length + 2))
}

fn number(digits: &[u8]) -> i64 {
    str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}
