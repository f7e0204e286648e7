//! Watches: commands leave them, and the code that ran the command waits for them.

use std::pin::Pin;

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use zoolet_client::{
    AddWatchMode, ErrorCode, OneshotWatcher, PersistentWatcher, WatchedEvent, WatcherType,
};

use crate::args::{AddWatch, RemoveWatches, WatchMode};
use crate::context::Context;
use crate::error::CtlError;
use crate::format::name_text;
use crate::path;

/// What a command has begun to watch.
#[derive(Debug)]
pub(crate) struct Watch {
    path: String,
    kind: WatcherType,
    watcher: Watcher,
}

#[derive(Debug)]
enum Watcher {
    Once(OneshotWatcher),
    Persistent(PersistentWatcher),
}

impl Watch {
    /// A watch that reports one event.
    pub(crate) fn once(path: &str, kind: WatcherType, watcher: OneshotWatcher) -> Self {
        Self { path: path.to_owned(), kind, watcher: Watcher::Once(watcher) }
    }

    /// Whether it reports more than one event.
    pub(crate) const fn is_persistent(&self) -> bool {
        matches!(self.watcher, Watcher::Persistent(_))
    }
}

/// `addWatch [-m MODE] PATH`.
pub(crate) async fn add_watch(arguments: &AddWatch, context: &Context) -> Result<Watch, CtlError> {
    path::check(&arguments.path)?;
    let (mode, kind) = match arguments.mode {
        WatchMode::Persistent => (AddWatchMode::Persistent, WatcherType::Persistent),
        WatchMode::PersistentRecursive => {
            (AddWatchMode::PersistentRecursive, WatcherType::PersistentRecursive)
        }
    };
    let (connection, path) = (&context.connection, &arguments.path);
    let watcher = connection.ask(path, connection.client.add_watch(path, mode)).await?;
    Ok(Watch { path: path.clone(), kind, watcher: Watcher::Persistent(watcher) })
}

/// `removewatches [-c|-d|-a|-p|-r] [-l] PATH`.
pub(crate) async fn remove_watches(
    arguments: &RemoveWatches,
    context: &Context,
) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let remove = context.connection.client.remove_watches(&arguments.path, kind_of(arguments));
    if !context.connection.ask(&arguments.path, remove).await? {
        let error = CtlError::of(&ErrorCode::NoWatcher.into(), &arguments.path);
        return Err(error.hint("a session sees its own watches alone"));
    }
    context.output.result(String::new, || json!({ "path": arguments.path }))
}

fn kind_of(arguments: &RemoveWatches) -> WatcherType {
    match arguments {
        RemoveWatches { children: true, .. } => WatcherType::Children,
        RemoveWatches { data: true, .. } => WatcherType::Data,
        RemoveWatches { persistent: true, .. } => WatcherType::Persistent,
        RemoveWatches { recursive: true, .. } => WatcherType::PersistentRecursive,
        RemoveWatches { .. } => WatcherType::Any,
    }
}

/// An event, and the watch if it goes on.
type Waiting =
    Pin<Box<dyn Future<Output = (Option<WatchedEvent>, Option<(Watcher, Dropped)>)> + Send>>;

/// Tells that a watch is not kept any more.
type Dropped = oneshot::Receiver<()>;

/// A watch is waited for until this is dropped.
#[derive(Debug)]
struct Kept {
    path: String,
    kind: WatcherType,
    keeps: oneshot::Sender<()>,
}

/// The watches of a session that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    waiting: FuturesUnordered<Waiting>,
    kept: Vec<Kept>,
}

impl Watches {
    pub(crate) fn extend(&mut self, watches: Vec<Watch>) {
        // Those that have ended are closed.
        self.kept.retain(|kept| !kept.keeps.is_closed());
        for watch in watches {
            let (keeps, dropped) = oneshot::channel();
            self.kept.push(Kept { path: watch.path, kind: watch.kind, keeps });
            self.wait(watch.watcher, dropped);
        }
    }

    fn wait(&mut self, watcher: Watcher, mut dropped: Dropped) {
        self.waiting.push(Box::pin(async move {
            match watcher {
                Watcher::Once(watcher) => tokio::select! {
                    event = watcher.changed() => (event.ok(), None),
                    _ = &mut dropped => (None, None),
                },
                Watcher::Persistent(mut watcher) => {
                    let event = tokio::select! {
                        event = watcher.changed() => event.ok(),
                        _ = &mut dropped => None,
                    };
                    (event, Some((Watcher::Persistent(watcher), dropped)))
                }
            }
        }));
    }

    /// Ends those watches that a command has asked to remove, without a server; returns whether
    /// there were any.
    pub(crate) fn forget(&mut self, arguments: &RemoveWatches) -> bool {
        let kind = kind_of(arguments);
        self.kept.retain(|kept| !kept.keeps.is_closed());
        let before = self.kept.len();
        self.kept.retain(|kept| {
            kept.path != arguments.path || (kind != WatcherType::Any && kind != kept.kind)
        });
        self.kept.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.kept.clear();
    }

    /// The next event; `None` when nothing is watched any more. Watches that were removed, and those
    /// of a session that has ended, leave quietly.
    pub(crate) async fn next(&mut self) -> Option<WatchedEvent> {
        loop {
            let (event, again) = self.waiting.next().await?;
            if let Some(event) = event {
                if let Some((watcher, dropped)) = again {
                    self.wait(watcher, dropped);
                }
                return Some(event);
            }
        }
    }
}

/// An event in zkCli's words.
pub(crate) fn event_text(event: &WatchedEvent) -> String {
    let path = name_text(&event.path);
    format!("WatchedEvent type:{:?} path:{path} zxid:{}", event.event_type, event.zxid)
}

pub(crate) fn event_json(event: &WatchedEvent) -> Value {
    json!({ "event": {
        "type": format!("{:?}", event.event_type),
        "path": event.path,
        "zxid": event.zxid.to_string(),
    }})
}
