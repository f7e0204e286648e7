//! Streams of server-sent events: what changes reaches the pages that show it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use zoolet_client::{AddWatchMode, Client, PersistentWatcher};

use crate::answer::Answer;
use crate::failure::Failure;
use crate::requests::checked_path;
use crate::shared_client::answer;
use crate::state::{Asked, State};

/// How many events wait for a browser; it is let go when it does not read.
const EVENTS_MAX: usize = 8;
const SEND_TIME: Duration = Duration::from_secs(10);

/// The pause between two signs of life.
const ALIVE_PAUSE: Duration = Duration::from_secs(5);

/// Changes within this time are one event.
const GATHER: Duration = Duration::from_millis(300);

/// What a stream reports.
#[derive(Debug)]
enum Topic {
    /// Every look at the servers.
    Ensemble,
    /// Changes of a znode and of its children, or of all that is below it.
    Watch(PersistentWatcher),
    /// The passing of time, for what has no watch.
    Ticks,
}

/// `events`: `topic=ensemble`, `topic=ticks`, `path=` for a znode or `below=` for all below it.
pub(crate) async fn begin(state: &Arc<State>, asked: &Asked) -> Result<Answer, Failure> {
    let place = Arc::clone(&state.streams).try_acquire_owned();
    let place = place.map_err(|_| Failure::unavailable("too many streams of events are open"))?;
    let topic = match (asked.query.text("topic"), asked.query.text("path")) {
        (Some("ensemble"), None) => Topic::Ensemble,
        (Some("ticks"), None) => Topic::Ticks,
        (None, Some(path)) => {
            let client = state.client(asked).await?;
            Topic::Watch(watch(&client, path, AddWatchMode::Persistent).await?)
        }
        (None, None) => {
            let path = asked.query.path("below")?;
            let client = state.client(asked).await?;
            Topic::Watch(watch(&client, path, AddWatchMode::PersistentRecursive).await?)
        }
        _ => return Err(Failure::invalid("one topic is expected: ensemble, ticks, path or below")),
    };
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let stream = Stream { state: Arc::clone(state), events: sender, _place: place };
    tokio::spawn(stream.run(topic));
    Ok(Answer::events(receiver))
}

async fn watch(
    client: &Client,
    path: &str,
    mode: AddWatchMode,
) -> Result<PersistentWatcher, Failure> {
    answer(client.add_watch(checked_path(path)?, mode)).await
}

/// A stream that is sent.
#[derive(Debug)]
struct Stream {
    state: Arc<State>,
    events: mpsc::Sender<Bytes>,
    _place: OwnedSemaphorePermit,
}

/// The browser has left, or does not read.
#[derive(Debug)]
struct Gone;

impl Stream {
    /// Sends events until the browser leaves or the watch ends; the browser comes back by itself.
    async fn run(self, topic: Topic) {
        // The first event shows the page that the stream is there.
        if self.send("open", b"{}").await.is_ok() {
            let _gone = match topic {
                Topic::Ensemble => self.ensemble().await,
                Topic::Watch(watcher) => self.changes(watcher).await,
                Topic::Ticks => self.ticks().await,
            };
        }
    }

    async fn ensemble(&self) -> Result<(), Gone> {
        let mut looks = self.state.shown.subscribe();
        loop {
            self.state.shown.want();
            match timeout(ALIVE_PAUSE, looks.changed()).await {
                Ok(Ok(())) => {
                    let look = looks.borrow_and_update().clone();
                    self.send("ensemble", &look).await?;
                }
                Ok(Err(_)) => return Ok(()),
                Err(_) => self.send_alive().await?,
            }
        }
    }

    async fn changes(&self, mut watcher: PersistentWatcher) -> Result<(), Gone> {
        loop {
            match timeout(ALIVE_PAUSE, watcher.changed()).await {
                Ok(Ok(_)) => {
                    sleep(GATHER).await;
                    // What has come meanwhile is part of it.
                    while let Ok(Ok(_)) = timeout(Duration::ZERO, watcher.changed()).await {}
                    self.send("changed", b"{}").await?;
                }
                // The session has ended.
                Ok(Err(_)) => return Ok(()),
                Err(_) => self.send_alive().await?,
            }
        }
    }

    async fn ticks(&self) -> Result<(), Gone> {
        let mut ticks = interval(ALIVE_PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.send("tick", b"{}").await?;
        }
    }

    async fn send(&self, event: &str, json: &[u8]) -> Result<(), Gone> {
        let bytes = [b"event: ", event.as_bytes(), b"\ndata: ", json, b"\n\n"].concat();
        self.put(Bytes::from(bytes)).await
    }

    async fn send_alive(&self) -> Result<(), Gone> {
        self.put(Bytes::from_static(b": alive\n\n")).await
    }

    async fn put(&self, bytes: Bytes) -> Result<(), Gone> {
        match timeout(SEND_TIME, self.events.send(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}
