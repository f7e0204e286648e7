//! Watches: commands leave them, and whoever ran the command waits for them.

use std::pin::Pin;

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use zoolet_client::{
    AddWatchMode, Error, ErrorCode, OneshotWatcher, PersistentWatcher, WatchedEvent, WatcherType,
};

use super::Context;
use crate::args::{AddWatch, RemoveWatches, WatchMode};
use crate::error::CtlError;
use crate::format::name_text;
use crate::path;

/// What a command has begun to watch.
#[derive(Debug)]
pub(crate) enum Watch {
    Once(OneshotWatcher),
    Persistent(PersistentWatcher),
}

/// `addWatch [-m MODE] PATH`.
pub(crate) async fn add_watch(arguments: &AddWatch, context: &Context) -> Result<Watch, CtlError> {
    path::check(&arguments.path)?;
    let mode = match arguments.mode {
        WatchMode::Persistent => AddWatchMode::Persistent,
        WatchMode::PersistentRecursive => AddWatchMode::PersistentRecursive,
    };
    let connection = &context.connection;
    let watch = connection.client.add_watch(&arguments.path, mode);
    connection.ask(&arguments.path, watch).await.map(Watch::Persistent)
}

/// `removewatches [-c|-d|-a|-p|-r] PATH`.
pub(crate) async fn remove_watches(
    arguments: &RemoveWatches,
    context: &Context,
) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let kind = match arguments {
        RemoveWatches { children: true, .. } => WatcherType::Children,
        RemoveWatches { data: true, .. } => WatcherType::Data,
        RemoveWatches { persistent: true, .. } => WatcherType::Persistent,
        RemoveWatches { recursive: true, .. } => WatcherType::PersistentRecursive,
        RemoveWatches { .. } => WatcherType::Any,
    };
    let remove = context.connection.client.remove_watches(&arguments.path, kind);
    if !context.connection.ask(&arguments.path, remove).await? {
        let error = CtlError::of(&ErrorCode::NoWatcher.into(), &arguments.path);
        return Err(error.hint("a session sees its own watches alone"));
    }
    context.output.result(String::new, || json!({ "path": arguments.path }))
}

type Waiting = Pin<Box<dyn Future<Output = (Result<WatchedEvent, Error>, Option<Watch>)> + Send>>;

/// The watches of a session that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    waiting: FuturesUnordered<Waiting>,
}

impl Watches {
    pub(crate) fn add(&mut self, watch: Watch) {
        self.waiting.push(Box::pin(async move {
            match watch {
                Watch::Once(watcher) => (watcher.changed().await, None),
                Watch::Persistent(mut watcher) => {
                    let event = watcher.changed().await;
                    (event, Some(Watch::Persistent(watcher)))
                }
            }
        }));
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The next event; `None` when nothing is watched any more. Watches that were removed, and those
    /// of a session that has ended, leave quietly.
    pub(crate) async fn next(&mut self) -> Option<WatchedEvent> {
        loop {
            let (event, watch) = self.waiting.next().await?;
            if let Ok(event) = event {
                if let Some(watch) = watch {
                    self.add(watch);
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
