//! ZooKeeper's own command line, driven by scripts that hold what it is expected to say.
//!
//! A script is a text file. A line `> COMMAND` goes to the command line (`A> COMMAND`, `B> COMMAND`
//! to one of several sessions), and the lines under it are what came out, the watch events first
//! as `event TYPE PATH` lines. `#` starts a comment. [`run_script`] gives the script as it would
//! look with the answers of the servers at hand; a test compares the two texts.
//!
//! Only what two runs cannot have in common is replaced, each by a name: zxids (equal ones by the
//! same name), times, session ids, addresses, the version of the client's build. Blank lines are
//! left out.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::apache;

/// How long one command may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// How long the command line is listened to after an answer, for events that follow it.
const EVENTS_MAX: Duration = Duration::from_secs(5);

const MAIN: &str = "org.apache.zookeeper.ZooKeeperMain";
const PROMPT_START: &str = "[zk: ";
const PROMPT_END: &str = "] ";

/// Why a script could not be run to its end.
#[derive(Debug, Error)]
pub enum CliError {
    #[error("zkCli: {0}")]
    Io(#[from] io::Error),
    #[error("zkCli gave no prompt after \"{command}\"; it said:\n{said}")]
    NoPrompt { command: String, said: String },
    #[error("a script has commands of the form \"> COMMAND\", not \"{0}\"")]
    Script(String),
}

/// What a script runs against.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub classpath: &'a OsStr,
    /// The servers' addresses; a script names them `$1`, `$2`, …. Sessions start at the first.
    pub servers: &'a [String],
    /// How long to wait for events that the script does not have: nothing when a script is checked,
    /// a while when one is recorded.
    pub unknown_events: Duration,
}

/// Runs the commands of a script and returns the script with the answers.
pub fn run_script(script: &str, around: &Surroundings<'_>) -> Result<String, CliError> {
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    let mut names = Names::default();
    let mut result = String::new();
    for step in parse(script)? {
        let Step::Command { session, command, events } = step else {
            if let Step::Comment(line) = step {
                result.push_str(&line);
                result.push('\n');
            }
            continue;
        };
        if !sessions.contains_key(&session) {
            sessions.insert(session.clone(), Session::start(around)?);
        }
        let Some(running) = sessions.get_mut(&session) else { continue };
        let answer = running.command(&fill_in(&command, around.servers), events, around)?;
        let _ = writeln!(result, "{session}> {command}");
        for line in answer {
            result.push_str(&names.normalize(&line, around.servers));
            result.push('\n');
        }
        if command == "quit" {
            sessions.remove(&session);
        }
    }
    Ok(result)
}

/// A line of a script that is not an answer.
enum Step {
    Comment(String),
    Command { session: String, command: String, events: usize },
}

fn parse(script: &str) -> Result<Vec<Step>, CliError> {
    let mut steps = Vec::new();
    for line in script.lines() {
        if line.is_empty() || line.starts_with('#') {
            steps.push(Step::Comment(line.to_owned()));
        } else if let Some((session, command)) = line.split_once("> ")
            && session.chars().all(|letter| letter.is_ascii_uppercase())
        {
            let (session, command) = (session.to_owned(), command.to_owned());
            steps.push(Step::Command { session, command, events: 0 });
        } else if let Some(Step::Command { events, .. }) =
            steps.iter_mut().rev().find(|step| matches!(step, Step::Command { .. }))
        {
            *events += usize::from(line.starts_with("event "));
        } else {
            return Err(CliError::Script(line.to_owned()));
        }
    }
    Ok(steps)
}

/// Replaces `$1`, `$2`, … by the addresses of the servers.
fn fill_in(command: &str, servers: &[String]) -> String {
    let numbered = servers.iter().enumerate();
    numbered.fold(command.to_owned(), |text, (index, server)| {
        text.replace(&format!("${}", index + 1), server)
    })
}

/// One running command line.
struct Session {
    child: Child,
    stdin: ChildStdin,
    output: Receiver<Vec<u8>>,
    /// What came and belongs to the command under way.
    said: Vec<u8>,
}

impl Session {
    fn start(around: &Surroundings<'_>) -> Result<Self, CliError> {
        let server = around.servers.first().map_or("", String::as_str);
        let java = apache::java(around.classpath);
        // The shell puts both outputs into one pipe, so that their order is kept.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "exec \"$@\" 2>&1", "sh"])
            .arg(java.get_program())
            .args(java.get_args())
            // The client's own log goes where the answers go, with times and threads.
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
            .args([MAIN, "-waitforconnection", "-server", server])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let mut stdout = child.stdout.take().ok_or_else(missing)?;
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count) = stdout.read(&mut chunk) {
                let part = chunk.get(..count).unwrap_or_default();
                if count == 0 || sender.send(part.to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut session = Self { child, stdin, output, said: Vec::new() };
        // The greeting ends with the first prompt; its event (connected) is a part of it.
        session.listen("the start", &|lines| lines.prompts > 0 && !lines.events.is_empty())?;
        session.said.clear();
        Ok(session)
    }

    /// Sends one command and gives the lines of its answer, events first.
    fn command(
        &mut self,
        command: &str,
        events: usize,
        around: &Surroundings<'_>,
    ) -> Result<Vec<String>, CliError> {
        self.stdin.write_all(format!("{command}\n").as_bytes())?;
        self.stdin.flush()?;
        if command == "quit" {
            self.listen(command, &|_| false)?;
        } else {
            self.listen(command, &|lines| lines.prompts > 0)?;
            self.listen_for_events(events, around.unknown_events)?;
        }
        let Lines { mut events, mut answer, .. } = Lines::of(&self.said);
        sort_identities(&mut answer);
        self.said.clear();
        events.extend(answer);
        Ok(events)
    }

    /// Listens until the command is over, or the program has ended.
    #[allow(clippy::disallowed_methods, reason = "a deadline for a real process")]
    fn listen(&mut self, command: &str, over: &dyn Fn(&Lines) -> bool) -> Result<(), CliError> {
        let deadline = Instant::now() + ANSWER_MAX;
        while !over(&Lines::of(&self.said)) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(part) => self.said.extend(part),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    let said = String::from_utf8_lossy(&self.said).into_owned();
                    return Err(CliError::NoPrompt { command: command.to_owned(), said });
                }
            }
        }
        Ok(())
    }

    /// Waits for the events that the script has, and for `unknown` after the last of them. Events
    /// that do not come are not an error here: the comparison shows them.
    #[allow(clippy::disallowed_methods, reason = "a deadline for a real process")]
    fn listen_for_events(&mut self, count: usize, unknown: Duration) -> Result<(), CliError> {
        let deadline = Instant::now() + EVENTS_MAX;
        loop {
            let complete = Lines::of(&self.said).events.len() >= count;
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if complete { unknown.min(left) } else { left };
            match self.output.recv_timeout(wait) {
                Ok(part) => self.said.extend(part),
                Err(_) => return Ok(()),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended with `quit`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sorts what `whoami` lists: the order of identities is that of a hash table.
fn sort_identities(answer: &mut [String]) {
    let title = answer.iter().position(|line| line.starts_with("Auth scheme: "));
    if let Some((_, identities)) = title.and_then(|title| answer.split_at_mut_checked(title + 1)) {
        identities.sort_unstable();
    }
}

/// What a command line said, taken apart.
struct Lines {
    prompts: usize,
    events: Vec<String>,
    answer: Vec<String>,
}

impl Lines {
    /// Events come from a thread of their own, so they may stand anywhere between other lines. An
    /// unfinished line is left for later.
    fn of(said: &[u8]) -> Self {
        let text = String::from_utf8_lossy(said);
        let mut lines = Self { prompts: 0, events: Vec::new(), answer: Vec::new() };
        for line in text.split_inclusive('\n') {
            let rest = lines.without_prompts(line);
            if !rest.ends_with('\n') {
                continue;
            }
            let rest = rest.trim_end();
            if let Some(event) = rest.strip_prefix("WatchedEvent ") {
                lines.events.push(event_line(event));
            } else if !rest.is_empty() && rest != "WATCHER::" {
                lines.answer.push(rest.to_owned());
            }
        }
        lines
    }

    fn without_prompts<'a>(&mut self, line: &'a str) -> &'a str {
        let mut rest = line;
        while let Some(prompt) = rest.strip_prefix(PROMPT_START)
            && let Some((_, after)) = prompt.split_once(PROMPT_END)
        {
            self.prompts += 1;
            rest = after;
        }
        rest
    }
}

/// `state:SyncConnected type:NodeCreated path:/a zxid: 5` as `event NodeCreated /a zxid 5`, and an
/// event of the connection as `event SyncConnected`.
fn event_line(event: &str) -> String {
    let words: Vec<&str> = event.split(' ').collect();
    let word = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)).unwrap_or("?");
    if word("type:") == "None" {
        return format!("event {}", word("state:"));
    }
    let zxid = words.last().copied().unwrap_or("?");
    format!("event {} {} zxid {zxid}", word("type:"), word("path:"))
}

/// Names for what two runs cannot have in common.
#[derive(Default)]
struct Names {
    zxids: BTreeMap<u64, usize>,
}

impl Names {
    fn normalize(&mut self, line: &str, servers: &[String]) -> String {
        let line = servers.iter().enumerate().fold(line.to_owned(), |text, (index, server)| {
            text.replace(server.as_str(), &format!("${}", index + 1))
        });
        if let Some((head, zxid)) = line.rsplit_once(" zxid ")
            && head.starts_with("event ")
        {
            return format!("{head} zxid {}", self.zxid(zxid.parse().ok()));
        }
        if let Some((key, value)) = line.split_once(" = ") {
            return format!("{key} = {}", self.stat_value(key, value));
        }
        if line.starts_with("ZooKeeper CLI version: ") {
            return "ZooKeeper CLI version: <version>".to_owned();
        }
        if line.starts_with("server.") {
            return member_line(&line);
        }
        if line.starts_with("version=") {
            return "version=<version>".to_owned();
        }
        match line.split_once(' ') {
            // `config -c`: the version, and the client addresses of all servers in any order.
            Some((_, addresses)) if addresses.starts_with('$') => {
                let mut addresses: Vec<&str> = addresses.split(',').collect();
                addresses.sort_unstable();
                format!("<version> {}", addresses.join(","))
            }
            _ => sorted_list(line),
        }
    }

    fn stat_value(&mut self, key: &str, value: &str) -> String {
        let hexadecimal =
            value.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        match key {
            "cZxid" | "mZxid" | "pZxid" => self.zxid(hexadecimal),
            "ephemeralOwner" if hexadecimal != Some(0) => "<session>".to_owned(),
            "ctime" | "mtime" if !value.ends_with(" 1970") => "<time>".to_owned(),
            _ => value.to_owned(),
        }
    }

    /// Zxid 0 is the initial tree's and stays; every other one is numbered when it is first seen.
    fn zxid(&mut self, zxid: Option<u64>) -> String {
        match zxid {
            Some(0) => "0x0".to_owned(),
            Some(zxid) => {
                let next = self.zxids.len() + 1;
                format!("<zxid {}>", self.zxids.entry(zxid).or_insert(next))
            }
            None => "<no zxid>".to_owned(),
        }
    }
}

/// `[b, a]` as `[a, b]`: the order of such a list is that of a hash table.
fn sorted_list(line: String) -> String {
    let Some(list) = line.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
        return line;
    };
    let mut items: Vec<&str> = list.split(", ").collect();
    items.sort_unstable();
    format!("[{}]", items.join(", "))
}

/// `server.1=127.0.0.1:2888:3888:participant;$1` without the ports between servers.
fn member_line(line: &str) -> String {
    let (member, client) = line.split_once(';').unwrap_or((line, ""));
    let parts: Vec<&str> = member
        .split(':')
        .map(|part| if part.parse::<u16>().is_ok() { "<port>" } else { part })
        .collect();
    format!("{};{client}", parts.join(":"))
}
