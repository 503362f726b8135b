//! The signals that were ignored when we were started (`nohup`, a background job of a script):
//! they stay ignored, for us and for the command.

use std::fs;

/// Those of `wanted` that are not ignored. Where the system does not tell, none is.
pub(super) fn heeded(wanted: &[i32]) -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = mask(&status).unwrap_or(0);
    let is_heeded = |signal: &&i32| ignored & (1 << (**signal - 1)) == 0;
    wanted.iter().filter(is_heeded).copied().collect()
}

fn mask(status: &str) -> Option<u64> {
    let digits = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_found_among_the_other_lines() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(mask(status), Some(0x1001));
        assert_eq!(mask("Name:\tx\n"), None);
    }
}
