//! Contenders over the client's own recipes, and their talk with the referee (see
//! `tests/src/contenders`).

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a program of the tests: it talks on stdout, and ends at the first thing that is wrong"
)]

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::{Semaphore as Signal, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use zoolet_client::recipes::{
    FencingToken, LeaderSelector, LockOptions, Lockable, Mutex, ReadLock, ReadWriteLock, Semaphore,
    SemaphoreMutex, SimpleLock, Suspension, Term, WriteLock,
};
use zoolet_client::{Client, ClientOptions, Error};

const PERMITS: usize = 2;

/// How far the contest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Going,
    Stopped,
}

/// A contender's way to the referee.
#[derive(Clone, Debug)]
struct Talk {
    number: usize,
    phase: watch::Receiver<Phase>,
    answers: Arc<Signal>,
}

impl Talk {
    /// Holds what it has got for a moment, and writes with its token, if it has one, without looking
    /// whether it still holds it.
    async fn hold(&self, mode: &str, token: Option<FencingToken>) {
        if let Some(token) = token {
            self.say(&format!("HELD {} {mode} {token}", self.number)).await;
            pause().await;
            self.say(&format!("WRITE {} {token}", self.number)).await;
        } else {
            self.say(&format!("HELD {} {mode}", self.number)).await;
            pause().await;
        }
        self.say(&format!("FREE {}", self.number)).await;
    }

    async fn say(&self, line: &str) {
        println!("{line}");
        self.answers.acquire().await.unwrap().forget();
    }

    fn goes_on(&self) -> bool {
        *self.phase.borrow() != Phase::Stopped
    }
}

#[tokio::main]
async fn main() {
    let contenders: Vec<String> = env::args().skip(1).collect();
    let (phase, phases) = watch::channel(Phase::Waiting);
    let mut answers = BTreeMap::new();
    let mut contest = JoinSet::new();
    for (number, contender) in contenders.iter().enumerate() {
        let (recipe, path) = contender.split_once(':').unwrap();
        let client = connect().await.unwrap();
        let signal = Arc::new(Signal::new(0));
        answers.insert(number, Arc::clone(&signal));
        let talk = Talk { number, phase: phases.clone(), answers: signal };
        let (recipe, path) = (recipe.to_owned(), path.to_owned());
        contest.spawn(async move {
            let mut phase = talk.phase.clone();
            phase.wait_for(|phase| *phase != Phase::Waiting).await.unwrap();
            contend(client, &recipe, &path, &talk).await
        });
    }
    println!("READY");
    tokio::spawn(listen(phase, answers));
    let mut clients = Vec::new();
    while let Some(ended) = contest.join_next().await {
        clients.push(ended.unwrap());
    }
    for client in clients {
        client.close().await.unwrap();
    }
    println!("DONE");
}

async fn connect() -> Result<Client, Error> {
    let timeout_ms = env::var("ZK_SESSION_TIMEOUT_MS").unwrap().parse().unwrap();
    let options = ClientOptions::new().session_timeout(Duration::from_millis(timeout_ms));
    options.connect(&env::var("ZK_CONNECT").unwrap()).await
}

/// A new session, as soon as a server can be reached.
async fn reconnect() -> Client {
    loop {
        match connect().await {
            Ok(client) => return client,
            Err(error) => eprintln!("no session yet: {error}"),
        }
        pause().await;
    }
}

/// Hears the referee.
async fn listen(phase: watch::Sender<Phase>, answers: BTreeMap<usize, Arc<Signal>>) {
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["GO"] => drop(phase.send_replace(Phase::Going)),
            ["STOP"] => drop(phase.send_replace(Phase::Stopped)),
            ["OK", number] => answers[&number.parse::<usize>().unwrap()].add_permits(1),
            other => panic!("{other:?}"),
        }
    }
}

/// Takes turns, with a new session after each one that has expired. Returns the last client.
async fn contend(mut client: Client, recipe: &str, path: &str, talk: &Talk) -> Client {
    while let Err(error) = take_turns(&client, recipe, path, talk).await {
        let may_expire = env::var_os("ZK_MAY_EXPIRE").is_some();
        assert!(may_expire && error.ends_session(), "contender {}: {error}", talk.number);
        client = reconnect().await;
    }
    client
}

async fn take_turns(client: &Client, recipe: &str, path: &str, talk: &Talk) -> Result<(), Error> {
    if recipe == "election" {
        // A term goes on while the ensemble changes its leader.
        let selector = LeaderSelector::new(client, path).suspension(Suspension::StayOn);
        while talk.goes_on() {
            let term = selector.lead(async |_| talk.hold("exclusive", None).await).await?;
            assert_eq!(term, Term::Done(()));
            pause().await;
        }
        return Ok(());
    }
    let (lock, mode) = lock(client, recipe, path);
    while talk.goes_on() {
        let guard = lock.acquire_boxed().await?.unwrap();
        talk.hold(mode, (mode == "exclusive").then(|| guard.token())).await;
        assert!(guard.release().await?, "a lock was lost, and its session lives");
        pause().await;
    }
    Ok(())
}

fn lock(client: &Client, recipe: &str, path: &str) -> (Box<dyn Lockable>, &'static str) {
    let read_write = || ReadWriteLock::new(client, path);
    match recipe {
        "mutex" => (Box::new(Mutex::new(client, path)), "exclusive"),
        "bilingual" => {
            let options = LockOptions::new().bilingual();
            (Box::new(Mutex::with_options(client, path, options)), "exclusive")
        }
        "simple" => (Box::new(SimpleLock::new(client, path)), "exclusive"),
        "semaphore-mutex" => (Box::new(SemaphoreMutex::new(client, path)), "exclusive"),
        "write" => (Box::new(WriteLock(read_write())), "exclusive"),
        "read" => (Box::new(ReadLock(read_write())), "shared"),
        "semaphore" => (Box::new(Semaphore::new(client, path, PERMITS)), "shared"),
        other => panic!("there is no {other}"),
    }
}

async fn pause() {
    sleep(Duration::from_millis(5)).await;
}
