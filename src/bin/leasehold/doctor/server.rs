//! What server this is: its version, its mode, its role.

use super::finding::{Finding, Level};
use super::look::Facts;

/// The oldest Redis that leasehold is for.
const OLDEST: (u32, u32) = (6, 2);

/// What tells all of it; the first of the two needs no right.
const REFUSED: &str = "HELLO as well as INFO";

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![version(facts), mode(facts)];
    if !facts.is_sentinel() {
        findings.push(role(facts));
    }
    findings
}

fn version(facts: &Facts) -> Finding {
    const LOOK: &str = "server";
    // Valkey gives the version of Redis that it is like in `INFO`, and its own in `HELLO`.
    let own = facts.info("valkey_version");
    let version = own.or_else(|| facts.hello_or("version", "redis_version"));
    let kind = match own {
        Some(_) => "valkey",
        None => facts.hello.get("server").map_or("redis", String::as_str),
    };
    let Some(version) = version else {
        return Finding::unknown(
            LOOK,
            REFUSED,
            "leasehold is for Redis 6.2 or newer, and Valkey.",
        );
    };
    let (level, name, means) = match (kind, major_and_minor(version)) {
        ("redis", Some(version)) if version < OLDEST => (
            Level::Unsafe,
            "Redis",
            "leasehold is for Redis 6.2 or newer: before it there is no CLIENT INFO, by which a \
             command whose reply was lost is kept from running late.",
        ),
        ("redis", Some(_)) => (Level::Ok, "Redis", "leasehold is for Redis 6.2 or newer."),
        ("valkey", Some(_)) => (Level::Ok, "Valkey", "leasehold is for every Valkey."),
        (kind, _) => (
            Level::Note,
            kind,
            "leasehold was tried on Redis 6.2 or newer and on Valkey, and not on this.",
        ),
    };
    let finding = Finding::new(level, LOOK, format!("{name} {version}"), means);
    if level == Level::Unsafe {
        return finding.mend("take a newer server: Redis 6.2 or newer, or Valkey");
    }
    finding
}

fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn mode(facts: &Facts) -> Finding {
    const LOOK: &str = "mode";
    match facts.hello_or("mode", "redis_mode") {
        Some("standalone") => Finding::new(
            Level::Ok,
            LOOK,
            "one server by itself, no cluster",
            "All locks are on this server.",
        ),
        Some("cluster") => Finding::new(
            Level::Unsafe,
            LOOK,
            "a node of a cluster",
            "leasehold does not follow a cluster's redirections yet: of the locks only those \
             whose slot is on this node can be taken.",
        )
        .mend("keep locks on a server that is not in cluster mode"),
        Some("sentinel") => Finding::new(
            Level::Unsafe,
            LOOK,
            "a sentinel",
            "It keeps no keys, it only knows who does. leasehold does not ask sentinels yet.",
        )
        .mend("give the address of the primary: SENTINEL GET-MASTER-ADDR-BY-NAME tells"),
        Some(other) => Finding::new(
            Level::Note,
            LOOK,
            format!("{other}, which leasehold does not know"),
            "Whether all locks can be taken there is unknown.",
        ),
        None => Finding::unknown(
            LOOK,
            REFUSED,
            "On a node of a cluster, most locks cannot be taken.",
        ),
    }
}

fn role(facts: &Facts) -> Finding {
    const LOOK: &str = "role";
    if facts.is_replica() {
        let of = match (facts.info("master_host"), facts.info("master_port")) {
            (Some(host), Some(port)) => format!(" of {host}:{port}"),
            _ => String::new(),
        };
        return Finding::new(
            Level::Unsafe,
            LOOK,
            format!("a replica{of}"),
            "A replica takes no locks. One that can be written to is worse: its primary knows \
             nothing of what is locked there.",
        )
        .mend("give the address of the primary");
    }
    match facts.hello_or("role", "role") {
        Some("master") => Finding::new(
            Level::Ok,
            LOOK,
            "a primary",
            "It is the one that decides who holds a lock.",
        ),
        _ => Finding::unknown(LOOK, REFUSED, "Locks belong on a primary."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(hello: &[(&str, &str)], info: &[(&str, &str)]) -> Facts {
        Facts::told(hello, info, &[])
    }

    #[test]
    fn a_server_is_judged_by_its_kind_and_version() {
        for (kind, number, level) in [
            ("redis", "6.0.16", Level::Unsafe),
            ("redis", "6.2.0", Level::Ok),
            ("redis", "7.0.15", Level::Ok),
            ("redis", "10.1", Level::Ok),
            ("redis", "8.0-rc1", Level::Ok),
            ("valkey", "9.1.2", Level::Ok),
            ("dragonfly", "1.0", Level::Note),
            ("redis", "unstable", Level::Note),
        ] {
            let finding = version(&said(&[("server", kind), ("version", number)], &[]));
            assert_eq!(finding.level, level, "{kind} {number}");
            assert!(finding.found.contains(number));
            assert_eq!(finding.mend.is_some(), level == Level::Unsafe);
        }
        assert_eq!(version(&Facts::default()).level, Level::Note);
    }

    #[test]
    fn valkey_is_known_by_its_own_version_where_hello_is_refused() {
        let finding = version(&said(
            &[],
            &[("redis_version", "7.2.4"), ("valkey_version", "8.0.1")],
        ));
        assert_eq!(
            (finding.level, finding.found.as_str()),
            (Level::Ok, "Valkey 8.0.1")
        );
    }

    #[test]
    fn what_keeps_no_locks_is_unsafe() {
        for (mode_said, level) in [
            ("standalone", Level::Ok),
            ("cluster", Level::Unsafe),
            ("sentinel", Level::Unsafe),
            ("other", Level::Note),
        ] {
            assert_eq!(mode(&said(&[("mode", mode_said)], &[])).level, level);
            assert_eq!(mode(&said(&[], &[("redis_mode", mode_said)])).level, level);
        }
        for (role_said, level) in [
            ("master", Level::Ok),
            ("replica", Level::Unsafe),
            ("slave", Level::Unsafe),
        ] {
            assert_eq!(role(&said(&[("role", role_said)], &[])).level, level);
        }
        assert_eq!(role(&Facts::default()).level, Level::Note);
    }
}
