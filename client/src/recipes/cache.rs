//! A part of the tree, mirrored in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use zoolet_jute::{AddWatchMode, ErrorCode, EventType, Stat};

use crate::{Client, Error, ErrorKind, WatchedEvent};

use super::name::join;
use super::retry::{children, insist, is_no_node, within};

/// How many changes wait for a slow subscriber; then it is told how many it has missed.
const CHANGES_MAX: usize = 1024;

/// A znode as the mirror knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedNode {
    /// Its data.
    pub data: Bytes,
    /// Its Stat when it was read.
    pub stat: Stat,
}

/// What has changed in the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// A znode has come.
    Created(String, CachedNode),
    /// A znode's data has changed.
    Changed(String, CachedNode),
    /// A znode has gone; this is what it was last.
    Deleted(String, CachedNode),
}

/// How far the mirror has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// It has not seen all of the tree since the client connected last.
    Behind,
    /// It has, and follows the changes.
    Following,
    /// It is over.
    Ended(ErrorKind),
}

type Nodes = BTreeMap<String, CachedNode>;

/// A mirror of a znode and of all below it, kept with one recursive watch: Curator's
/// `CuratorCache`.
///
/// It follows the tree and does not lead it: a read may be a moment old, and older while the
/// client is disconnected. Values that come and go between two reads are not seen; nor are znodes
/// that the session may not read, nor what is below them.
#[derive(Debug)]
pub struct Cache {
    nodes: Arc<Mutex<Nodes>>,
    changes: broadcast::Sender<CacheChange>,
    progress: watch::Receiver<Progress>,
    task: JoinHandle<()>,
}

impl Cache {
    /// Begins to mirror a znode and all below it. It need not exist.
    pub fn start(client: &Client, path: &str) -> Self {
        let nodes = Arc::new(Mutex::default());
        let (changes, _) = broadcast::channel(CHANGES_MAX);
        let (sender, progress) = watch::channel(Progress::Behind);
        let mirror = Mirror {
            client: client.clone(),
            root: path.to_owned(),
            nodes: Arc::clone(&nodes),
            changes: changes.clone(),
            progress: sender,
        };
        Self { nodes, changes, progress, task: tokio::spawn(mirror.run()) }
    }

    /// Waits until all of the tree has been read. An error tells that the mirror has ended.
    pub async fn ready(&self) -> Result<(), Error> {
        let mut progress = self.progress.clone();
        let known = progress.wait_for(|progress| *progress != Progress::Behind).await;
        match known.as_deref() {
            Ok(Progress::Following) => Ok(()),
            Ok(Progress::Ended(kind)) => Err(kind.clone().into()),
            Ok(Progress::Behind) | Err(_) => Err(ErrorKind::Closed.into()),
        }
    }

    /// The same, for so long at most; answers whether that was enough.
    pub async fn ready_timeout(&self, limit: Duration) -> Result<bool, Error> {
        Ok(within(limit, self.ready()).await?.is_some())
    }

    /// Whether all of the tree has been read since the client connected last, and the mirror
    /// follows it.
    pub fn is_ready(&self) -> bool {
        *self.progress.borrow() == Progress::Following
    }

    /// A znode, if the mirror has it.
    pub fn get(&self, path: &str) -> Option<CachedNode> {
        self.nodes().get(path).cloned()
    }

    /// The names of a znode's children.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = join(path, "");
        let nodes = self.nodes();
        let below = nodes.range(prefix.clone()..).map_while(|(at, _)| at.strip_prefix(&prefix));
        below.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned).collect()
    }

    /// All znodes, by path.
    pub fn snapshot(&self) -> BTreeMap<String, CachedNode> {
        self.nodes().clone()
    }

    /// The changes from now on. A subscriber that is too slow is told how many it has missed.
    pub fn subscribe(&self) -> broadcast::Receiver<CacheChange> {
        self.changes.subscribe()
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task that follows the tree.
struct Mirror {
    client: Client,
    root: String,
    nodes: Arc<Mutex<Nodes>>,
    changes: broadcast::Sender<CacheChange>,
    progress: watch::Sender<Progress>,
}

impl Mirror {
    async fn run(self) {
        let error = loop {
            if let Err(error) = self.follow().await {
                break error;
            }
        };
        self.progress.send_replace(Progress::Ended(error.kind().clone()));
    }

    /// Watches the tree and follows it until the watch ends: this was too slow for the events.
    async fn follow(&self) -> Result<(), Error> {
        let mut state = self.client.state();
        let mode = AddWatchMode::PersistentRecursive;
        // First the watch: what changes while the tree is read comes as an event.
        let mut watch = insist(|| self.client.add_watch(&self.root, mode)).await?;
        loop {
            state.borrow_and_update();
            // What was told before is in what is read now. The last word of a connection that was
            // lost may be the end of a znode that has come again since, which nobody told.
            watch.discard();
            self.read_all().await?;
            self.progress.send_replace(Progress::Following);
            let connected = loop {
                tokio::select! {
                    biased;
                    changed = state.changed() => break changed.is_ok(),
                    event = watch.changed() => {
                        let Ok(event) = event else {
                            self.progress.send_replace(Progress::Behind);
                            return Ok(());
                        };
                        self.apply(&event).await?;
                    }
                }
            };
            // Servers do not tell a recursive watch what it has missed: read it all again, which
            // waits for a connection.
            self.progress.send_replace(Progress::Behind);
            if !connected {
                return Err(ErrorKind::Closed.into());
            }
        }
    }

    async fn apply(&self, event: &WatchedEvent) -> Result<(), Error> {
        match event.event_type {
            EventType::NodeDeleted => self.forget(&event.path),
            EventType::NodeCreated | EventType::NodeDataChanged => self.read(&event.path).await?,
            EventType::NodeChildrenChanged
            | EventType::None
            | EventType::DataWatchRemoved
            | EventType::ChildWatchRemoved
            | EventType::PersistentWatchRemoved => {}
        }
        Ok(())
    }

    /// Reads the whole tree, and forgets what is not there any more.
    async fn read_all(&self) -> Result<(), Error> {
        let mut seen = Nodes::new();
        let mut paths = vec![self.root.clone()];
        while let Some(path) = paths.pop() {
            let (node, names) = tokio::join!(self.fetch(&path), children(&self.client, &path));
            if let Some(node) = node? {
                let names = match names {
                    Err(error) if error.code() == Some(ErrorCode::NoAuth) => Vec::new(),
                    names => names?,
                };
                paths.extend(names.iter().map(|name| join(&path, name)));
                seen.insert(path, node);
            }
        }
        let gone: Vec<String> = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.keys().filter(|path| !seen.contains_key(*path)).cloned().collect()
        };
        for path in gone.iter().rev() {
            self.forget(path);
        }
        for (path, node) in seen {
            self.note(path, node);
        }
        Ok(())
    }

    async fn read(&self, path: &str) -> Result<(), Error> {
        match self.fetch(path).await? {
            Some(node) => self.note(path.to_owned(), node),
            None => self.forget(path),
        }
        Ok(())
    }

    async fn fetch(&self, path: &str) -> Result<Option<CachedNode>, Error> {
        match insist(|| self.client.get(path)).await {
            Ok((data, stat)) => Ok(Some(CachedNode { data, stat })),
            // What this session may not read is not there for it: one such znode is no reason to
            // end the mirror of all others.
            Err(error) if is_no_node(&error) || error.code() == Some(ErrorCode::NoAuth) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes over what was read, unless the mirror has it.
    fn note(&self, path: String, node: CachedNode) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = nodes.insert(path.clone(), node.clone());
        drop(nodes);
        let change = match before {
            None => CacheChange::Created(path, node),
            Some(before) if before.stat.czxid != node.stat.czxid => {
                self.tell(CacheChange::Deleted(path.clone(), before));
                CacheChange::Created(path, node)
            }
            Some(before) if before.stat.mzxid != node.stat.mzxid => {
                CacheChange::Changed(path, node)
            }
            Some(_) => return,
        };
        self.tell(change);
    }

    fn forget(&self, path: &str) {
        let gone = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        if let Some(node) = gone {
            self.tell(CacheChange::Deleted(path.to_owned(), node));
        }
    }

    fn tell(&self, change: CacheChange) {
        // Nobody need listen.
        let _ = self.changes.send(change);
    }
}
