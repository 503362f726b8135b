//! What becomes of a lock's record on this server: at a restart, when memory runs out, at a
//! failover.

use super::finding::{Finding, Level};
use super::look::Facts;

/// Of the memory that the server may use, in percent: more is nearly all.
const NEARLY_FULL: u64 = 90;

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![persistence(facts)];
    findings.extend(disk(facts));
    findings.push(eviction(facts));
    findings.extend(memory(facts));
    if !facts.is_replica() {
        findings.push(replicas(facts));
        findings.extend(failover(facts));
    }
    findings
}

fn persistence(facts: &Facts) -> Finding {
    const LOOK: &str = "persistence";
    match (facts.info("aof_enabled"), facts.config("appendfsync")) {
        (Some("0"), _) => Finding::new(
            Level::Warning,
            LOOK,
            "appendonly is off",
            "A crash of the server loses locks, and so does a restart without a snapshot: others \
             take them while their holders are still at work.",
        )
        .mend(
            "CONFIG SET appendonly yes, and the same in redis.conf; or let the server stay away \
             for as long as the longest ttl before it starts again",
        ),
        (Some(_), Some("no")) => Finding::new(
            Level::Warning,
            LOOK,
            "appendonly is on, appendfsync is no",
            "A crash of the machine loses what its system had not written yet, as a rule the \
             locks of the last 30 seconds.",
        )
        .mend("CONFIG SET appendfsync everysec (or always), and the same in redis.conf"),
        (Some(_), flushed) => Finding::new(
            Level::Ok,
            LOOK,
            match flushed {
                Some(flushed) => format!("appendonly is on, appendfsync is {flushed}"),
                None => "appendonly is on".to_owned(),
            },
            "Locks outlive a restart and a crash of the server. A crash of the machine can lose \
             those of the last second, unless appendfsync is always.",
        ),
        (None, _) => unknown(
            LOOK,
            "Without appendonly a restart of the server loses locks.",
        ),
    }
}

/// What stops all writes as soon as it is found out.
fn disk(facts: &Facts) -> Option<Finding> {
    let failed = |field| facts.info(field).is_some_and(|status| status != "ok");
    let what = match (
        failed("aof_last_write_status"),
        failed("rdb_last_bgsave_status"),
    ) {
        (true, _) => "the last write to the append-only file failed",
        (_, true) => "the last snapshot failed",
        _ => return None,
    };
    Some(
        Finding::new(
            Level::Warning,
            "disk",
            what,
            "The server refuses writes in this state (MISCONF), if it is not told to go on: no \
             lock can be taken or renewed.",
        )
        .mend("see to the server's disk; its log says what failed"),
    )
}

fn eviction(facts: &Facts) -> Finding {
    const LOOK: &str = "eviction";
    let limit = facts.number("maxmemory");
    let Some((limit, policy)) = limit.zip(facts.info("maxmemory_policy")) else {
        return unknown(
            LOOK,
            "Any maxmemory-policy but noeviction deletes locks when memory runs out.",
        );
    };
    let limit_shown = match limit {
        0 => "no maxmemory".to_owned(),
        limit => format!("maxmemory {}", bytes(limit)),
    };
    let found = format!("{limit_shown}, maxmemory-policy {policy}");
    let (level, means) = match (policy, limit) {
        ("noeviction", _) => {
            let means = "No lock is deleted to make room for other keys.";
            return Finding::new(Level::Ok, LOOK, found, means);
        }
        (_, 0) => (
            Level::Note,
            "As soon as a maxmemory is set, this policy deletes locks to make room.",
        ),
        _ => (
            Level::Unsafe,
            "When memory runs out, the server deletes locks to make room: others take them while \
             their holders are still at work.",
        ),
    };
    Finding::new(level, LOOK, found, means).mend(
        "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; a cache belongs on \
         another server",
    )
}

fn memory(facts: &Facts) -> Option<Finding> {
    let limit = facts.number("maxmemory").filter(|limit| *limit != 0)?;
    let used = facts.number("used_memory")?;
    let percent = used.saturating_mul(100) / limit;
    if percent < NEARLY_FULL {
        return None;
    }
    Some(
        Finding::new(
            Level::Warning,
            "memory",
            format!("{percent} % of maxmemory {} is used", bytes(limit)),
            "When it is full, no lock can be taken (OOM); renewals and releases go on.",
        )
        .mend("raise maxmemory, or keep less on this server"),
    )
}

fn replicas(facts: &Facts) -> Finding {
    const LOOK: &str = "replicas";
    match facts.number("connected_slaves") {
        None => unknown(
            LOOK,
            "At a failover to a replica the newest locks can be lost.",
        ),
        Some(0) => Finding::new(
            Level::Note,
            LOOK,
            "none",
            "While this server is away no lock can be taken or renewed. No failover can lose one.",
        ),
        Some(count) => Finding::new(
            Level::Note,
            LOOK,
            format!("{count}, which follow asynchronously"),
            "A failover can lose the newest locks: a second holder is possible until the first \
             one's deadline. Where that does harm, the resource checks fences.",
        ),
    }
}

/// Whether a primary that was cut off from its replicas goes on giving locks.
fn failover(facts: &Facts) -> Option<Finding> {
    const LOOK: &str = "failover";
    let replicas = facts.number("connected_slaves");
    // `INFO` has this field if, and only if, a number and a lag are set.
    let good = facts.number("min_slaves_good_slaves");
    let wanted = facts.config("min-replicas-to-write");
    let wanted = wanted.and_then(|number| number.parse::<u64>().ok());
    let lag = facts.config("min-replicas-max-lag").unwrap_or("?");
    match (wanted, good) {
        // It is set, so one at least is wanted.
        (wanted, Some(good)) if good < wanted.unwrap_or(1) => Some(
            Finding::new(
                Level::Unsafe,
                LOOK,
                format!("fewer replicas follow ({good}) than min-replicas-to-write asks for"),
                "The server refuses writes (NOREPLICAS): no lock can be taken or renewed.",
            )
            .mend("bring its replicas back"),
        ),
        (_, Some(_)) => Some(Finding::new(
            Level::Ok,
            LOOK,
            match wanted {
                Some(wanted) => {
                    format!("min-replicas-to-write is {wanted}, min-replicas-max-lag {lag} s")
                }
                None => "min-replicas-to-write is set".to_owned(),
            },
            "A primary that is cut off from its replicas soon stops giving locks.",
        )),
        (None, None) if facts.info.is_empty() => Some(unknown(
            LOOK,
            "Without min-replicas-to-write a primary that was cut off goes on giving locks.",
        )),
        _ if replicas == Some(0) => None,
        _ => Some(
            Finding::new(
                Level::Warning,
                LOOK,
                "min-replicas-to-write is not set",
                "A primary that is cut off from its replicas goes on giving locks, while one of \
                 them takes its place and gives them too.",
            )
            .mend(
                "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 10, and the same in \
                 redis.conf",
            ),
        ),
    }
}

/// A refused question is no good news.
fn unknown(look: &'static str, means: &str) -> Finding {
    Finding::unknown(look, "INFO", means)
        .mend("ask with a user that may send INFO, or ask whoever keeps the server")
}

fn bytes(count: u64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")];
    match units.iter().find(|(size, _)| *size <= count) {
        Some((size, unit)) => format!("{} {unit}", count / size),
        None => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(info: &[(&str, &str)], config: &[(&str, &str)]) -> Facts {
        Facts::told(&[], info, config)
    }

    #[test]
    fn a_policy_that_evicts_is_unsafe_with_a_limit_and_a_note_without() {
        for (limit, policy, level) in [
            ("0", "noeviction", Level::Ok),
            ("3145728", "noeviction", Level::Ok),
            ("0", "allkeys-lru", Level::Note),
            ("3145728", "allkeys-lru", Level::Unsafe),
            ("3145728", "volatile-ttl", Level::Unsafe),
            ("3145728", "one of later days", Level::Unsafe),
        ] {
            let info = [("maxmemory", limit), ("maxmemory_policy", policy)];
            let finding = eviction(&said(&info, &[]));
            assert_eq!(finding.level, level, "{limit} {policy}");
            assert!(finding.found.contains(policy));
        }
    }

    #[test]
    fn what_is_not_told_is_unknown_and_not_fine() {
        for finding in findings(&Facts::default()) {
            assert_eq!(finding.level, Level::Note, "{finding:?}");
            assert!(!finding.known, "{finding:?}");
        }
    }

    #[test]
    fn persistence_is_judged_by_what_a_crash_leaves() {
        for (enabled, flushed, level) in [
            ("0", None, Level::Warning),
            ("1", Some("no"), Level::Warning),
            ("1", Some("everysec"), Level::Ok),
            ("1", None, Level::Ok),
        ] {
            let config: Vec<_> = flushed
                .map(|value| ("appendfsync", value))
                .into_iter()
                .collect();
            let finding = persistence(&said(&[("aof_enabled", enabled)], &config));
            assert_eq!(finding.level, level, "{finding:?}");
        }
    }

    #[test]
    fn a_failed_snapshot_and_a_full_memory_are_warnings() {
        let fine = [
            ("rdb_last_bgsave_status", "ok"),
            ("aof_last_write_status", "ok"),
        ];
        assert!(disk(&said(&fine, &[])).is_none());
        let failed = disk(&said(&[("rdb_last_bgsave_status", "err")], &[]));
        assert_eq!(failed.map(|finding| finding.level), Some(Level::Warning));
        for (used, limit, full) in [("89", "100", false), ("90", "100", true), ("5", "0", false)] {
            let facts = said(&[("used_memory", used), ("maxmemory", limit)], &[]);
            assert_eq!(memory(&facts).is_some(), full, "{used} of {limit}");
        }
    }

    #[test]
    fn a_primary_with_replicas_should_want_some_of_them() {
        let wanted = [("min-replicas-to-write", "1")];
        let not_wanted = [("min-replicas-to-write", "0")];
        let level = |info: &[(&str, &str)], config: &[(&str, &str)]| {
            failover(&said(info, config)).map(|finding| finding.level)
        };
        assert_eq!(level(&[("connected_slaves", "0")], &not_wanted), None);
        let one = ("connected_slaves", "1");
        assert_eq!(level(&[one], &not_wanted), Some(Level::Warning));
        assert_eq!(level(&[one], &[]), Some(Level::Warning));
        let good = [one, ("min_slaves_good_slaves", "1")];
        assert_eq!(level(&good, &wanted), Some(Level::Ok));
        assert_eq!(level(&good, &[]), Some(Level::Ok));
        let bad = [("connected_slaves", "0"), ("min_slaves_good_slaves", "0")];
        assert_eq!(level(&bad, &wanted), Some(Level::Unsafe));
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        assert_eq!(bytes(3 << 20), "3 MB");
        assert_eq!(bytes(1023), "1023 B");
    }
}
