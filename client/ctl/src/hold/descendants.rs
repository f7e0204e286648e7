//! The processes that a command has started, and what those have started in turn.
//!
//! A process group does not hold all of them: on a terminal the command stays in the group of this
//! program, and any process can leave a group. So they are found by their parents, in `/proc`. For
//! that no process may get lost whose parent has died: this program adopts them, as a child subreaper.
//! Where there is no `/proc`, none are found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::process;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::signal::unix::{self, SignalKind, signal};

/// Knows the descendants of this process, but for those that it had before the command.
#[derive(Debug)]
pub(crate) struct Descendants {
    /// Children of whatever this program was before it was executed, which are not the command's.
    earlier: BTreeSet<i32>,
    /// Reports children that have ended.
    ended: unix::Signal,
}

/// What `/proc` says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// Whether it runs nothing any more and only waits for its parent to take notice.
    has_ended: bool,
}

impl Descendants {
    /// Begins to adopt. To be called before the command is started.
    pub(crate) fn adopt() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            // Where it is not granted, those are found whose parents live.
            let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        }
        let own = own_pid();
        let children = processes().into_iter().filter(|process| process.parent == own);
        let earlier = children.map(|process| process.pid).collect();
        Ok(Self { earlier, ended: signal(SignalKind::child())? })
    }

    /// Waits until a child has ended, which may be one that was adopted.
    pub(crate) async fn child_ended(&mut self) {
        self.ended.recv().await;
    }

    /// Takes notice of adopted children that have ended, which would pile up otherwise. The command
    /// itself is left to its own waiter.
    pub(crate) fn reap(command: Pid) {
        let own = own_pid();
        for process in processes() {
            let is_orphan = process.parent == own && process.pid != command.as_raw_pid();
            if is_orphan
                && process.has_ended
                && let Some(pid) = Pid::from_raw(process.pid)
            {
                // How it ended is of no interest.
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }

    /// Whether any still runs.
    pub(crate) fn is_any_left(&self) -> bool {
        self.find().iter().any(|process| !process.has_ended)
    }

    /// Asks all to end, but for the command and, if that is the first of a group, those in it: they
    /// are asked by the code that started it, and once is enough.
    pub(crate) fn terminate(&self, command: Pid, has_group: bool) {
        let command = command.as_raw_pid();
        for process in self.find() {
            let is_signaled = process.pid == command || (has_group && process.group == command);
            if !is_signaled {
                process.send(Signal::TERM);
            }
        }
    }

    /// Stops all, the command too, and those that were started meanwhile.
    pub(crate) fn stop(&self) {
        let mut stopped = BTreeSet::new();
        loop {
            let found = self.find();
            let mut new = found.iter().filter(|process| stopped.insert(process.pid)).peekable();
            if new.peek().is_none() {
                return;
            }
            new.for_each(|process| process.send(Signal::STOP));
        }
    }

    /// Sends a signal to all, the command too.
    pub(crate) fn send(&self, signal: Signal) {
        for process in self.find() {
            process.send(signal);
        }
    }

    fn find(&self) -> Vec<Process> {
        below(own_pid(), &self.earlier, processes())
    }
}

impl Process {
    fn send(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // One that is gone needs no signal, and one of another user takes none.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Every process below one, without those that are left out and what is below them.
fn below(top: i32, left_out: &BTreeSet<i32>, processes: Vec<Process>) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in processes {
        if !left_out.contains(&process.pid) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let (mut found, mut parents) = (Vec::new(), vec![top]);
    while let Some(parent) = parents.pop() {
        // Taken out, so that not even a table read while it changed leads in a circle.
        let of_it = children.remove(&parent).unwrap_or_default();
        parents.extend(of_it.iter().map(|process| process.pid));
        found.extend(of_it);
    }
    found
}

/// Every process there is. One that ends while they are read may be missing.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // The name of a program need not be text.
    let stats = pids.filter_map(|pid| fs::read(format!("/proc/{pid}/stat")).ok());
    stats.filter_map(|stat| parse(&String::from_utf8_lossy(&stat))).collect()
}

/// Reads `/proc/PID/stat`: the pid, the name in parentheses, which may hold blanks and parentheses
/// as well, the state, the parent and the group.
fn parse(stat: &str) -> Option<Process> {
    let (head, tail) = stat.rsplit_once(')')?;
    let pid = head.split_once(" (")?.0.parse().ok()?;
    let mut columns = tail.split_whitespace();
    let has_ended = matches!(columns.next()?, "Z" | "X" | "x");
    let parent = columns.next()?.parse().ok()?;
    let group = columns.next()?.parse().ok()?;
    Some(Process { pid, parent, group, has_ended })
}

fn own_pid() -> i32 {
    i32::try_from(process::id()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        for (stat, pid, parent, group, has_ended) in [
            ("7 (sh) S 1 7 7 0 -1 4194560 100", 7, 1, 7, false),
            ("12 (a b) R 3 4 4 34816 12", 12, 3, 4, false),
            ("13 (x) Z 1 2 (y)) Z 12 11 11 0", 13, 12, 11, true),
            ("14 () ( ) T 0 0 0 0", 14, 0, 0, false),
            ("15 (two\nlines) S 12 15 15 0", 15, 12, 15, false),
        ] {
            let expected = Process { pid, parent, group, has_ended };
            assert_eq!(parse(stat), Some(expected), "{stat}");
        }
        for bad in ["", "7", "7 (sh", "7 (sh)", "7 (sh) S", "7 (sh) S 1", "x (sh) S 1 1 1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_below_is_found_at_every_depth() {
        let process = |pid, parent| Process { pid, parent, group: 1, has_ended: false };
        // 5 was there earlier, 8 and 9 are a circle, 4 has a child with a smaller pid.
        let table = [(2, 1), (3, 2), (4, 3), (1, 4), (5, 2), (6, 5), (7, 1), (8, 9), (9, 8)];
        let table = table.map(|(pid, parent)| process(pid, parent)).to_vec();
        let found = below(2, &BTreeSet::from([5]), table.clone());
        let mut pids: Vec<i32> = found.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [1, 2, 3, 4, 7]);
        assert_eq!(below(10, &BTreeSet::new(), table), []);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_among_all() {
        assert!(processes().iter().any(|process| process.pid == own_pid() && !process.has_ended));
    }
}
