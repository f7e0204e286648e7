//! Lock programs over the client's own recipes, and their talk with the referee (see
//! `tests/src/compare`).

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a program of the tests: it talks on stdout, measures real time, and ends at the first \
              thing that is wrong"
)]

use std::env;
use std::fmt::Write;
use std::sync::{Arc, Mutex as Shared};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};
use zoolet_client::recipes::{
    LockGuard, LockOptions, Lockable, MultiGuard, MultiLock, Mutex, ReadWriteLock, SemaphoreMutex,
    SimpleLock, WriteLock,
};
use zoolet_client::{Client, ClientOptions, Error};

/// A lock as one contender sees it.
enum Lock {
    One(Box<dyn Lockable>),
    Multi(MultiLock),
    /// It excludes no contender.
    None,
}

/// What a holder has.
enum Held {
    One(LockGuard),
    Multi(MultiGuard),
    None,
}

impl Lock {
    fn open(client: &Client, recipe: &str, path: &str) -> Self {
        match recipe {
            "mutex" => Self::One(Box::new(Mutex::new(client, path))),
            "bilingual" => {
                let options = LockOptions::new().bilingual();
                Self::One(Box::new(Mutex::with_options(client, path, options)))
            }
            "simple" => Self::One(Box::new(SimpleLock::new(client, path))),
            "semaphore-mutex" => Self::One(Box::new(SemaphoreMutex::new(client, path))),
            "write" => Self::One(Box::new(WriteLock(ReadWriteLock::new(client, path)))),
            "multi" => {
                let (one, two) = (format!("{path}/one"), format!("{path}/two"));
                Self::Multi(MultiLock::mutexes(client, [one.as_str(), two.as_str()]))
            }
            "none" => Self::None,
            other => panic!("no recipe {other}"),
        }
    }

    async fn acquire(&self) -> Result<Held, Error> {
        match self {
            Self::One(lock) => Ok(Held::One(lock.acquire_boxed().await?.unwrap())),
            Self::Multi(lock) => Ok(Held::Multi(lock.acquire().await?)),
            Self::None => Ok(Held::None),
        }
    }
}

impl Held {
    /// A number that rises with each grant; 0 if there is none.
    fn token(&self) -> i64 {
        match self {
            Self::One(guard) => guard.token().get(),
            Self::Multi(guard) => guard.tokens()[0].get(),
            Self::None => 0,
        }
    }

    async fn lost(&self) {
        match self {
            Self::One(guard) => drop(guard.lost().await),
            Self::Multi(guard) => drop(guard.lost().await),
            Self::None => std::future::pending().await,
        }
    }

    /// Acquires once more. A task has no identity, so the lock waits for itself; but the guard of
    /// one lock can be shared.
    async fn again(&self, lock: &Lock) -> &'static str {
        let limit = millis(&env::var("COMPARE_LEASE_MS").unwrap()) / 2;
        match (self, lock) {
            (Self::One(_), Lock::One(lock)) => match timeout(limit, lock.acquire_boxed()).await {
                Ok(guard) => guard.unwrap().unwrap().release().await.map(|_| "granted").unwrap(),
                Err(_) => "waits, or shares its guard",
            },
            (Self::Multi(_), Lock::Multi(lock)) => {
                match lock.acquire_timeout(limit).await.unwrap() {
                    Some(guard) => guard.release().await.map(|_| "granted").unwrap(),
                    None => "waits",
                }
            }
            _ => "refused",
        }
    }

    async fn release(self) -> Result<bool, Error> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Multi(guard) => guard.release().await,
            Self::None => Ok(true),
        }
    }
}

/// What contenders measure together.
#[derive(Default)]
struct Times {
    released: Option<Instant>,
    cycles: Vec<u128>,
    hand_overs: Vec<u128>,
}

#[tokio::main]
async fn main() {
    let mut words = Vec::new();
    let mut contenders = Vec::new();
    for (number, argument) in env::args().skip(1).enumerate() {
        let (recipe, name) = argument.split_once(':').unwrap();
        let contender = Contender {
            number,
            recipe: recipe.to_owned(),
            path: format!("/{name}"),
            client: connect().await,
        };
        let (sender, receiver) = unbounded_channel();
        words.push(sender);
        contenders.push(contender.clone());
        tokio::spawn(contender.take_turns(receiver));
    }
    println!("READY");
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [word @ ("ASK" | "OK" | "AGAIN"), number] => send(&words, number, word),
            ["RUN", long, hold] => run(&contenders, millis(long), millis(hold)).await,
            ["STOP"] => {
                close(contenders).await;
                return println!("DONE");
            }
            other => panic!("the referee said {other:?}"),
        }
    }
}

/// Closes all sessions.
async fn close(contenders: Vec<Contender>) {
    let mut closing = JoinSet::new();
    for contender in contenders {
        // One that has been replaced is closed already.
        closing.spawn(async move { drop(contender.client.close().await) });
    }
    closing.join_all().await;
}

fn send(words: &[UnboundedSender<String>], number: &str, word: &str) {
    words[number.parse::<usize>().unwrap()].send(word.to_owned()).unwrap();
}

async fn connect() -> Client {
    let timeout = millis(&env::var("COMPARE_LEASE_MS").unwrap());
    let options = ClientOptions::new().session_timeout(timeout);
    options.connect(&env::var("COMPARE_SERVERS").unwrap()).await.unwrap()
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

/// A contender with a session of its own.
#[derive(Clone)]
struct Contender {
    number: usize,
    recipe: String,
    path: String,
    client: Client,
}

impl Contender {
    async fn take_turns(mut self, mut words: UnboundedReceiver<String>) {
        while words.recv().await.is_some() {
            if self.client.state().borrow().is_terminal() {
                self.client = connect().await;
            }
            self.turn(&mut words).await;
        }
    }

    async fn turn(&self, words: &mut UnboundedReceiver<String>) {
        let number = self.number;
        let lock = Lock::open(&self.client, &self.recipe, &self.path);
        let held = match lock.acquire().await {
            Ok(held) => held,
            Err(error) => return println!("FAILED {number} {error}"),
        };
        println!("HELD {number} {}", held.token());
        let mut lost = false;
        loop {
            tokio::select! {
                () = held.lost(), if !lost => {
                    lost = true;
                    println!("LOST {number}");
                }
                word = words.recv() => match word.as_deref() {
                    Some("AGAIN") => println!("AGAIN {number} {}", held.again(&lock).await),
                    _ => break,
                },
            }
        }
        // It writes without looking whether it still holds the lock.
        println!("WRITE {number} {}", held.token());
        words.recv().await;
        match held.release().await {
            Ok(kept) => println!("FREED {number} {kept}"),
            Err(error) => println!("FREED {number} failed {error}"),
        }
    }

    /// See the same of the program in Go.
    async fn contend(
        self,
        times: Arc<Shared<Times>>,
        grants: watch::Sender<u64>,
        end: Instant,
        hold: Duration,
    ) {
        let lock = Lock::open(&self.client, &self.recipe, &self.path);
        while Instant::now() < end {
            let asked = Instant::now();
            let held = tokio::select! {
                held = lock.acquire() => held.unwrap(),
                () = sleep(end.saturating_duration_since(asked)) => return,
            };
            let acquired = Instant::now();
            let mut own = 0;
            grants.send_modify(|count| {
                *count += 1;
                own = *count;
            });
            {
                let mut times = times.lock().unwrap();
                let is_late = hold.is_zero() || acquired >= end;
                if let Some(released) = times.released.filter(|_| !is_late) {
                    times.hand_overs.push((acquired - released).as_micros());
                }
            }
            if !hold.is_zero() && acquired < end {
                sleep(hold).await;
            }
            let released = Instant::now();
            times.lock().unwrap().released = Some(released);
            held.release().await.unwrap();
            let done = Instant::now();
            // What ends after the window is not part of its throughput.
            if done < end {
                let cycle = acquired - asked + (done - released);
                times.lock().unwrap().cycles.push(cycle.as_micros());
            }
            if !hold.is_zero() {
                let mut granted = grants.subscribe();
                let other = granted.wait_for(|count| *count != own);
                let _ = timeout_at(end.into(), other).await;
            }
        }
    }
}

/// Has all contenders acquire and release for a time, and prints how long each cycle took.
async fn run(contenders: &[Contender], long: Duration, hold: Duration) {
    let times = Arc::new(Shared::new(Times::default()));
    let grants = watch::channel(0).0;
    let end = Instant::now() + long;
    let mut running = JoinSet::new();
    for contender in contenders {
        running.spawn(contender.clone().contend(Arc::clone(&times), grants.clone(), end, hold));
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    let mut times = std::mem::take(&mut *times.lock().unwrap());
    println!("CYCLES{}", list(&mut times.cycles));
    println!("HANDOVERS{}", list(&mut times.hand_overs));
}

fn list(times: &mut [u128]) -> String {
    times.sort_unstable();
    times.iter().fold(String::new(), |mut text, time| {
        let _ = write!(text, " {time}");
        text
    })
}
