//! The client's locks beside those of Curator, kazoo and Go, on the same paths, with a referee
//! outside of the ensemble (`src/contenders` has the talk of the other programs).

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::Client;
use zoolet_client::recipes::{
    LockOptions, Lockable, MultiLock, Mutex as LockMutex, ReadLock, ReadWriteLock, Semaphore,
    SemaphoreMutex, WriteLock,
};
use zoolet_tests::contenders::programs::{go, java, kazoo};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};
use zoolet_torture::Mode;
use zoolet_torture::reported::{Doubts, Entry, Grant, ReportedLock};

/// Turns that every contender must have had.
const TURNS: usize = 8;
/// How long that may take.
const CONTEST_MAX: Duration = Duration::from_mins(2);
/// The session timeout of the other programs.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// The permits of a semaphore in the other programs.
const PERMITS: usize = 2;

/// Who holds one path, and how often each had its turn.
#[derive(Debug)]
struct PathState {
    lock: ReportedLock<String>,
    turns: BTreeMap<String, usize>,
}

/// Holds what the contenders report against who may hold what.
#[derive(Debug)]
struct Referee {
    paths: Mutex<BTreeMap<String, PathState>>,
    /// Nothing is done to any contender.
    doubts: Doubts<String>,
    stopped: watch::Sender<bool>,
}

impl Referee {
    /// All contenders, by path.
    fn new(contenders: impl IntoIterator<Item = (String, String)>) -> Arc<Self> {
        let mut paths: BTreeMap<String, PathState> = BTreeMap::new();
        for (path, who) in contenders {
            let permits = if path.contains("semaphore") { PERMITS } else { usize::MAX };
            let lock = ReportedLock::new(&path, permits);
            let state = PathState { lock, turns: BTreeMap::new() };
            paths.entry(path).or_insert(state).turns.insert(who, 0);
        }
        let doubts = Doubts::new(SESSION_TIMEOUT);
        Arc::new(Self { paths: Mutex::new(paths), doubts, stopped: watch::channel(false).0 })
    }

    #[allow(clippy::disallowed_methods, reason = "the time of real processes")]
    fn enter(&self, path: &str, contender: &str, mode: Mode, token: Option<i64>) {
        let mut paths = self.paths.lock().unwrap();
        let lock = &mut paths.get_mut(path).unwrap().lock;
        let grant = Grant { contender: contender.to_owned(), mode, token };
        let entry = lock.enter(grant, &self.doubts, Instant::now());
        assert_eq!(entry.unwrap_or_else(|broken| panic!("{broken}")), Entry::Free);
    }

    fn write(&self, path: &str, who: &String, token: i64) {
        let paths = self.paths.lock().unwrap();
        let judged = paths.get(path).unwrap().lock.wrote(who, token, true, &self.doubts);
        judged.unwrap_or_else(|broken| panic!("{broken}"));
    }

    fn leave(&self, path: &str, who: &String) {
        let mut paths = self.paths.lock().unwrap();
        let state = paths.get_mut(path).unwrap();
        let held = state.lock.leave(who, &self.doubts);
        assert!(held.unwrap_or_else(|broken| panic!("{broken}")), "{path}: {who}");
        *state.turns.get_mut(who).unwrap() += 1;
        let all_had = |state: &PathState| state.turns.values().all(|turns| *turns >= TURNS);
        if paths.values().all(all_had) {
            self.stopped.send_replace(true);
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }
}

/// One of the client's own contenders, until the contest is over.
async fn contend(
    referee: Arc<Referee>,
    lock: Box<dyn Lockable>,
    path: &str,
    who: &String,
    mode: Mode,
) {
    while !referee.is_stopped() {
        let guard = lock.acquire_boxed().await.unwrap().unwrap();
        let token = (mode == Mode::Exclusive).then(|| guard.token().get());
        referee.enter(path, who, mode, token);
        sleep(Duration::from_millis(3)).await;
        referee.leave(path, who);
        assert!(guard.release().await.unwrap());
        sleep(Duration::from_millis(3)).await;
    }
}

/// Another program with its contenders, until the contest is over.
async fn drive(referee: Arc<Referee>, command: Command, name: &str, contenders: &[(&str, &str)]) {
    let mut command = tokio::process::Command::from(command);
    command.args(contenders.iter().map(|(recipe, path)| format!("{recipe}:{path}")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stopped = referee.stopped.subscribe();
    let mut stop_is_sent = false;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line.unwrap(),
            stop = stopped.changed(), if !stop_is_sent => {
                stop.unwrap();
                stop_is_sent = true;
                stdin.write_all(b"STOP\n").await.unwrap();
                continue;
            }
        };
        let line = line.unwrap_or_else(|| panic!("{name} has ended"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = |number: &str| {
            let number: usize = number.parse().unwrap();
            (contenders[number].1, who(name, number))
        };
        let answer = match words.as_slice() {
            ["READY"] => "GO\n".to_owned(),
            ["HELD", number, mode, token @ ..] => {
                let (path, who) = place(number);
                let mode = if *mode == "shared" { Mode::Shared } else { Mode::Exclusive };
                let token = token.first().map(|token| token.parse().unwrap());
                referee.enter(path, &who, mode, token);
                format!("OK {number}\n")
            }
            ["WRITE", number, token] => {
                let (path, who) = place(number);
                referee.write(path, &who, token.parse().unwrap());
                format!("OK {number}\n")
            }
            ["FREE", number] => {
                let (path, who) = place(number);
                referee.leave(path, &who);
                format!("OK {number}\n")
            }
            ["DONE"] => break,
            other => panic!("{name} said {other:?}"),
        };
        stdin.write_all(answer.as_bytes()).await.unwrap();
    }
    drop(stdin);
    assert!(child.wait().await.unwrap().success(), "{name}");
}

fn who(name: &str, number: usize) -> String {
    format!("{name} {number}")
}

/// The client's own lock of a recipe's name.
fn own(client: &Client, recipe: &str, path: &str) -> (Box<dyn Lockable>, Mode) {
    let read_write = || ReadWriteLock::new(client, path);
    match recipe {
        "mutex" => (Box::new(LockMutex::new(client, path)), Mode::Exclusive),
        "bilingual" => {
            let options = LockOptions::new().bilingual();
            (Box::new(LockMutex::with_options(client, path, options)), Mode::Exclusive)
        }
        "read" => (Box::new(ReadLock(read_write())), Mode::Shared),
        "write" => (Box::new(WriteLock(read_write())), Mode::Exclusive),
        "semaphore" => (Box::new(Semaphore::new(client, path, PERMITS)), Mode::Shared),
        "semaphore-mutex" => (Box::new(SemaphoreMutex::new(client, path)), Mode::Exclusive),
        other => panic!("there is no {other}"),
    }
}

/// The recipes of a program and of this client that meet, by path.
struct Meeting {
    name: &'static str,
    program: fn() -> Result<Command, ToolError>,
    theirs: Vec<(&'static str, &'static str)>,
    ours: Vec<(&'static str, &'static str)>,
}

fn curator() -> Meeting {
    Meeting {
        name: "Curator",
        program: || java("curator-5.9", &["../curator/Curated.java"], "Curated"),
        theirs: vec![
            ("mutex", "/curator/mutex"),
            ("mutex", "/curator/mutex"),
            ("write", "/curator/read-write"),
            ("read", "/curator/read-write"),
            ("read", "/curator/read-write"),
            ("semaphore", "/curator/semaphore"),
            ("semaphore", "/curator/semaphore"),
            ("semaphore-mutex", "/curator/s-mutex"),
        ],
        ours: vec![
            ("mutex", "/curator/mutex"),
            ("bilingual", "/curator/mutex"),
            ("write", "/curator/read-write"),
            ("read", "/curator/read-write"),
            ("read", "/curator/read-write"),
            ("semaphore", "/curator/semaphore"),
            ("semaphore", "/curator/semaphore"),
            ("semaphore-mutex", "/curator/s-mutex"),
        ],
    }
}

fn kazoo_as_it_comes() -> Meeting {
    Meeting {
        name: "kazoo",
        program: kazoo,
        theirs: vec![
            ("mutex", "/kazoo/mutex"),
            ("mutex", "/kazoo/mutex"),
            ("election", "/kazoo/mutex"),
            ("write", "/kazoo/read-write"),
            ("read", "/kazoo/read-write"),
            ("read", "/kazoo/read-write"),
        ],
        ours: vec![
            ("bilingual", "/kazoo/mutex"),
            ("bilingual", "/kazoo/mutex"),
            ("bilingual", "/kazoo/read-write"),
        ],
    }
}

fn go_locks() -> Meeting {
    Meeting {
        name: "Go",
        program: go,
        theirs: vec![("mutex", "/go/mutex"), ("mutex", "/go/mutex")],
        ours: vec![("mutex", "/go/mutex"), ("bilingual", "/go/mutex")],
    }
}

async fn meet(meeting: &Meeting, servers: &str) {
    let mut command = (meeting.program)().unwrap();
    command
        .env("ZK_CONNECT", servers)
        .env("ZK_SESSION_TIMEOUT_MS", SESSION_TIMEOUT.as_millis().to_string());
    let sides = [(meeting.name, &meeting.theirs), ("this client", &meeting.ours)];
    let referee = Referee::new(sides.into_iter().flat_map(|(name, contenders)| {
        let numbered = contenders.iter().enumerate();
        numbered.map(move |(number, (_, path))| ((*path).to_owned(), who(name, number)))
    }));
    let mut contest = JoinSet::new();
    for (number, (recipe, path)) in meeting.ours.iter().copied().enumerate() {
        let (lock, mode) = own(&Client::connect(servers).await.unwrap(), recipe, path);
        let referee = Arc::clone(&referee);
        contest.spawn(async move {
            contend(referee, lock, path, &who("this client", number), mode).await;
        });
    }
    let (name, theirs) = (meeting.name, meeting.theirs.clone());
    let shared = Arc::clone(&referee);
    contest.spawn(async move { drive(shared, command, name, &theirs).await });
    let all = async {
        while let Some(ended) = contest.join_next().await {
            ended.unwrap();
        }
    };
    let end = timeout(CONTEST_MAX, all).await;
    assert!(end.is_ok(), "{}: {:?}", meeting.name, referee.paths.lock().unwrap());
}

fn run(suite: &str, needs: &[&str], meeting: &Meeting) {
    if !tools::require_foreign(suite, needs).unwrap() {
        return;
    }
    if let Err(error) = (meeting.program)() {
        return tools::skip_unless_required(suite, error).unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let servers = Servers::zoolet().servers(3).start().unwrap();
    runtime.block_on(meet(meeting, &servers.connect_string()));
    drop(servers);
    if tools::is_tier("lock_programs") {
        let servers = Servers::apache().servers(3).start().unwrap();
        runtime.block_on(meet(meeting, &servers.connect_string()));
    }
}

#[test]
fn locks_are_shared_with_curator() {
    run("recipes beside Curator", &["java", "mvn"], &curator());
}

#[test]
fn a_bilingual_lock_is_shared_with_kazoo() {
    run("recipes beside kazoo", &["python3"], &kazoo_as_it_comes());
}

#[test]
fn mutexes_are_shared_with_go() {
    run("recipes beside Go", &["go"], &go_locks());
}

#[test]
fn a_multi_lock_is_shared_with_curator() {
    let meeting = Meeting { theirs: vec![("multi", "/multi")], ours: Vec::new(), ..curator() };
    if !tools::require_foreign("multi lock beside Curator", &["java", "mvn"]).unwrap() {
        return;
    }
    let servers = Servers::zoolet().servers(3).start().unwrap();
    let connect = servers.connect_string();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::connect(&connect).await.unwrap();
        let referee = Referee::new(
            [("/multi", "Curator 0"), ("/multi", "this client 0")]
                .map(|(path, who)| (path.to_owned(), who.to_owned())),
        );
        let mut command = (meeting.program)().unwrap();
        command
            .env("ZK_CONNECT", &connect)
            .env("ZK_SESSION_TIMEOUT_MS", SESSION_TIMEOUT.as_millis().to_string());
        let shared = Arc::clone(&referee);
        let theirs = tokio::spawn(async move {
            drive(shared, command, "Curator", &meeting.theirs).await;
        });
        let own = who("this client", 0);
        let multi = MultiLock::mutexes(&client, ["/multi/one", "/multi/two"]);
        while !referee.is_stopped() {
            let guard = multi.acquire().await.unwrap();
            referee.enter("/multi", &own, Mode::Exclusive, None);
            sleep(Duration::from_millis(3)).await;
            referee.leave("/multi", &own);
            assert!(guard.release().await.unwrap());
        }
        timeout(CONTEST_MAX, theirs).await.unwrap().unwrap();
    });
}
