//! Many processes, one lock.

use std::fs;

use super::{Running, assert_nothing_is_left, beside, run};
use crate::support::Server;

const PROCESSES: usize = 20;

#[test]
fn twenty_processes_contend_and_their_commands_never_overlap() {
    let server = Server::start();
    let diary = beside(&server, "diary");
    // Each line is appended in one piece.
    let body = "echo \"$$ in\" >> \"$DIARY\"; sleep 0.02; echo \"$$ out\" >> \"$DIARY\"";
    let start = || Running::start(run(&server, &["--wait", "1m"], body).env("DIARY", &diary));
    let all: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    for running in all {
        let ended = running.end_within(std::time::Duration::from_secs(60));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    }
    let text = fs::read_to_string(&diary).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2 * PROCESSES);
    for pair in lines.chunks(2) {
        let came = pair[0].strip_suffix(" in");
        assert!(
            came.is_some() && pair[1].strip_suffix(" out") == came,
            "{pair:?}"
        );
    }
    assert_nothing_is_left(&server);
}
