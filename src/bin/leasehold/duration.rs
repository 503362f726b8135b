//! Durations as people write them: `500ms`, `30s`, `2m`, `1h30m`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Reads a duration. A bare number is refused: nobody can tell seconds from milliseconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let mut millis: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("is empty; write for example 30s".to_owned());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = after.split_at(letters);
        if number.is_empty() {
            return Err("is no duration; write for example 500ms, 30s, 2m or 1h30m".to_owned());
        }
        if unit.is_empty() && next.is_empty() {
            return Err(format!(
                "has no unit; write {number}s for seconds or {number}ms for milliseconds"
            ));
        }
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let Some((_, factor)) = unit else {
            return Err("has a unit that is none of ms, s, m, h, d".to_owned());
        };
        let part = number.parse::<u64>().ok();
        let sum = part
            .and_then(|part| part.checked_mul(*factor))
            .and_then(|part| part.checked_add(millis));
        let Some(sum) = sum else {
            return Err("is longer than can be counted".to_owned());
        };
        millis = sum;
        rest = next;
    }
    Ok(Duration::from_millis(millis))
}

/// Writes one as people read it: to a tenth of the unit that fits.
pub(crate) fn show(span: Duration) -> String {
    let millis = span.as_millis();
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..120_000 => format!("{:.1}s", span.as_secs_f64()),
        120_000..7_200_000 => format!("{:.1}m", span.as_secs_f64() / 60.0),
        _ => format!("{:.1}h", span.as_secs_f64() / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            (" 2m ", 120_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_with_a_hint() {
        let hint = parse("30").unwrap_err();
        assert!(hint.contains("30s") && hint.contains("30ms"), "{hint}");
        assert!(parse("1h30").is_err());
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "30sec",
            "1µs",
            "99999999999999999999s",
            "ms5",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
