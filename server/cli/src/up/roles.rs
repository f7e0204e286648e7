//! Which roles the servers have while they run, and what is printed when one changes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::announce::line_of;
use super::child::{Answer, Child, ask};
use crate::output::Output;

/// The time between two looks at the roles.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The answers of servers, by the ids of their processes.
type Answers = Vec<(u32, Answer)>;

/// Prints the line of a server again when its role or its process is another.
#[derive(Debug)]
pub(super) struct Roles {
    /// The line of each server that was printed last.
    printed: BTreeMap<u8, String>,
    looking: Option<JoinHandle<Answers>>,
    next_look: Instant,
    stdout: Output,
}

impl Roles {
    /// Takes the lines of these servers for printed.
    pub(super) fn printed(children: &[Child], stdout: Output) -> Self {
        let lines = children.iter().filter(|child| child.end().is_none());
        let lines = lines.map(|child| (child.server.id, line_of(child, child.mode())));
        let next_look = Instant::now() + LOOK_INTERVAL;
        Self { printed: lines.collect(), looking: None, next_look, stdout }
    }

    /// Looks at the servers now and then, without waiting for their answers. Returns whether one has
    /// another role than before.
    pub(super) fn look(&mut self, children: &mut [Child]) -> bool {
        if let Some(answers) = self.looking.as_mut().and_then(FutureExt::now_or_never) {
            self.looking = None;
            // A panic has been reported.
            return answers.is_ok_and(|answers| self.take(&answers, children));
        }
        if self.looking.is_none() && Instant::now() >= self.next_look {
            self.next_look = Instant::now() + LOOK_INTERVAL;
            let asked = children.iter().filter(|child| child.can_have_a_role());
            let asked = asked.map(|child| (child.pid(), child.server.client.to_string()));
            let asked: Vec<_> = asked.collect();
            let ask_one = async |(pid, address): (u32, String)| (pid, ask(&address).await);
            self.looking =
                Some(tokio::spawn(async move { join_all(asked.into_iter().map(ask_one)).await }));
        }
        false
    }

    fn take(&mut self, answers: &Answers, children: &mut [Child]) -> bool {
        let (mut text, mut has_changed, now) = (String::new(), false, now());
        for child in children {
            let answer = answers.iter().find(|(pid, _)| *pid == child.pid());
            let (Some((_, answer)), true) = (answer, child.can_have_a_role()) else { continue };
            let line = match answer {
                Answer::Serves(mode) => {
                    has_changed |= child.take_mode(mode);
                    line_of(child, Some(mode))
                }
                Answer::NoLeader => line_of(child, Some("no leader")),
                Answer::Silent => continue,
            };
            if self.printed.get(&child.server.id) != Some(&line) {
                text.extend([line.trim_end(), ", since ", &now, "\n"]);
                self.printed.insert(child.server.id, line);
            }
        }
        if !text.is_empty() {
            self.stdout.put(text.as_bytes());
        }
        has_changed
    }
}

/// Returns the time as the log has it.
fn now() -> String {
    let mut now = String::new();
    // Writing to a String cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut now));
    now
}
