//! The processes below one, whatever groups they have made for themselves: `timeout`, shells with
//! job control and daemons leave the group that they were started in.
//!
//! Read from `/proc`, so on Linux alone; elsewhere nothing is found, and the group has to do.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// How often it is looked for more while they are being killed: each may have started others.
const ROUNDS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Pid,
    parent: i32,
    pub(super) group: Pid,
    is_dead: bool,
    is_stopped: bool,
}

/// Has those whose parent dies become children of this process, and not of process 1: nothing
/// that the command has started gets out of sight.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// All that live below `root`, but those of the groups `except`.
pub(super) fn below(root: Pid, except: &[Pid]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut roots = vec![root.as_raw_nonzero().get()];
    while let Some(root) = roots.pop() {
        for process in children.remove(&root).into_iter().flatten() {
            if !except.contains(&process.group) {
                roots.push(process.id.as_raw_nonzero().get());
                found.push(process);
            }
        }
    }
    found.retain(|process| !process.is_dead);
    found
}

/// Kills all that live below `root`, until none does.
pub(super) fn kill_below(root: Pid, except: &[Pid]) {
    for _ in 0..ROUNDS {
        let processes = below(root, except);
        if processes.is_empty() {
            return;
        }
        for process in processes {
            // Another user's cannot be: `sudo` is not covered.
            let _ = kill_process(process.id, Signal::KILL);
        }
        std::thread::yield_now();
    }
}

/// Whether a process is stopped; where nothing tells, it is.
pub(super) fn is_stopped(id: Pid) -> bool {
    read(id.as_raw_nonzero().get()).is_none_or(|process| process.is_stopped)
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?))
}

fn read(id: i32) -> Option<Process> {
    of_stat(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// `ID (NAME) STATE PARENT GROUP …`; the name may hold anything.
fn of_stat(id: i32, stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    Some(Process {
        id: Pid::from_raw(id)?,
        parent: fields.next()?.parse().ok()?,
        group: Pid::from_raw(fields.next()?.parse().ok()?)?,
        is_dead: matches!(state, "Z" | "X" | "x"),
        is_stopped: matches!(state, "T" | "t"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_is_passed_over() {
        let process = of_stat(7, "7 (a) b) S 3 5 5 0 -1 4194304 1").unwrap();
        assert_eq!((process.parent, process.is_dead), (3, false));
        assert_eq!(process.group, Pid::from_raw(5).unwrap());
        assert!(of_stat(7, "7 (a) Z 3 5 5").unwrap().is_dead);
        assert_eq!(of_stat(7, "7 (a"), None);
    }
}
