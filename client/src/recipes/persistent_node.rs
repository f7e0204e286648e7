//! A znode that comes back when somebody deletes it.

use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use zoolet_jute::{CreateMode, ErrorCode};

use crate::{Client, Error, ErrorKind};

use super::name::{ProtectedId, join, split};
use super::retry::{
    back_off, children_now, delete_if_there, ensure_containers, fired, insist, is_no_node,
    is_transient,
};

/// Where the znode is, as the task knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Presence {
    /// Its first create is under way.
    Coming,
    /// It was there when the task looked last.
    There(Arc<str>),
    /// It is over.
    Ended(ErrorKind),
}

/// Keeps a znode in existence for as long as the session lives: Curator's `PersistentNode`. A
/// znode that is deleted is created again, and one that exists is taken over and gets the data.
///
/// It is deleted when this is closed or dropped, whatever its mode.
#[derive(Debug)]
pub struct PersistentNode {
    presence: watch::Receiver<Presence>,
    data: watch::Sender<Bytes>,
    /// Dropping it tells the task to delete the znode and to end.
    keep: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl PersistentNode {
    /// Creates the znode, and what is missing above it as containers, and keeps it there. A
    /// sequential znode gets a [protected](Self::start_protected) name: without it, one whose
    /// create was not answered could not be found.
    pub fn start(
        client: &Client,
        path: &str,
        mode: CreateMode,
        data: &[u8],
    ) -> Result<Self, Error> {
        if without_number(mode) == mode {
            Ok(Self::launch(client, path, mode, data, None))
        } else {
            Self::start_protected(client, path, mode, data)
        }
    }

    /// The same under the name `_c_<uuid>-<name>`. A sequential znode keeps its number when it
    /// comes back.
    pub fn start_protected(
        client: &Client,
        path: &str,
        mode: CreateMode,
        data: &[u8],
    ) -> Result<Self, Error> {
        let id = ProtectedId::random()?;
        Ok(Self::launch(client, path, mode, data, Some(id)))
    }

    fn launch(
        client: &Client,
        path: &str,
        mode: CreateMode,
        data: &[u8],
        id: Option<ProtectedId>,
    ) -> Self {
        let (dir, name) = split(path).unwrap_or(("/", ""));
        let name = id.map_or_else(|| name.to_owned(), |id| id.curator(name));
        let (sender, presence) = watch::channel(Presence::Coming);
        let (data, wanted) = watch::channel(Bytes::copy_from_slice(data));
        let (keep, dropped) = oneshot::channel();
        let keeper = Keeper {
            client: client.clone(),
            dir: dir.to_owned(),
            name,
            id,
            mode,
            wanted,
            presence: sender,
        };
        Self { presence, data, keep, task: tokio::spawn(keeper.run(dropped)) }
    }

    /// Waits until the znode has been created, and answers its path.
    pub async fn path(&self) -> Result<String, Error> {
        let mut presence = self.presence.clone();
        let known = presence.wait_for(|presence| *presence != Presence::Coming).await;
        match known.as_deref() {
            Ok(Presence::There(path)) => Ok(path.to_string()),
            Ok(Presence::Ended(kind)) => Err(kind.clone().into()),
            Ok(Presence::Coming) | Err(_) => Err(ErrorKind::Closed.into()),
        }
    }

    /// The data that the znode is to have.
    pub fn data(&self) -> Bytes {
        self.data.borrow().clone()
    }

    /// Changes the data, in the background.
    pub fn set_data(&self, data: &[u8]) {
        self.data.send_replace(Bytes::copy_from_slice(data));
    }

    /// Deletes the znode, and waits until the servers have done so.
    pub async fn close(self) -> Result<(), Error> {
        drop(self.keep);
        match self.task.await {
            Ok(ended) => ended,
            Err(ended) => Err(ErrorKind::Protocol(format!("its task was ended: {ended}")).into()),
        }
    }
}

/// The task that keeps the znode there.
struct Keeper {
    client: Client,
    dir: String,
    name: String,
    id: Option<ProtectedId>,
    mode: CreateMode,
    wanted: watch::Receiver<Bytes>,
    presence: watch::Sender<Presence>,
}

impl Keeper {
    async fn run(mut self, dropped: oneshot::Receiver<()>) -> Result<(), Error> {
        let error = tokio::select! {
            error = self.keep() => Some(error),
            _ = dropped => None,
        };
        let kind = error.as_ref().map_or(ErrorKind::Closed, |error| error.kind().clone());
        self.presence.send_replace(Presence::Ended(kind));
        match error {
            Some(error) => Err(error),
            None => self.remove().await,
        }
    }

    async fn keep(&mut self) -> Error {
        loop {
            if let Err(error) = self.keep_once().await {
                return error;
            }
        }
    }

    /// Deletes the znode, one too whose create is not answered yet: it stands in front of this in
    /// the order of the session.
    async fn remove(&self) -> Result<(), Error> {
        let numbered = without_number(self.mode) == self.mode;
        let name = if numbered { Some(self.name.clone()) } else { self.find().await? };
        match name {
            Some(name) => delete_if_there(&self.client, &join(&self.dir, &name)).await.map(drop),
            None => Ok(()),
        }
    }

    /// Makes the znode what it should be, and waits until it is not any more.
    async fn keep_once(&mut self) -> Result<(), Error> {
        let path = self.create().await?;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let (data, watch) = match insist(|| self.client.get_watched(&path)).await {
                Ok((data, _, watch)) => (data, watch),
                Err(error) if is_no_node(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            if data != wanted {
                match insist(|| self.client.set_data(&path, &wanted, -1)).await {
                    Err(error) if is_no_node(&error) => return Ok(()),
                    other => drop(other?),
                }
                continue;
            }
            tokio::select! {
                changed = fired(watch) => changed?,
                // The handle is gone with its sender; then the task is about to be told.
                changed = self.wanted.changed() => if changed.is_err() { pending().await },
            }
        }
    }

    /// Creates the znode unless it is there, and notes its path.
    async fn create(&mut self) -> Result<Arc<str>, Error> {
        let mut tries = 0;
        loop {
            let path = join(&self.dir, &self.name);
            let data = self.wanted.borrow().clone();
            let created = match self.client.create(&path, &data, self.mode).await {
                Ok((created, _)) => created,
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => path,
                Err(error) if is_no_node(&error) => {
                    ensure_containers(&self.client, &self.dir).await?;
                    continue;
                }
                Err(error) if is_transient(&error) => {
                    back_off(&mut tries).await;
                    match self.find().await? {
                        Some(name) => join(&self.dir, &name),
                        None => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            if let Some((_, name)) = split(&created) {
                name.clone_into(&mut self.name);
                self.mode = without_number(self.mode);
            }
            let created: Arc<str> = created.into();
            self.presence.send_replace(Presence::There(Arc::clone(&created)));
            return Ok(created);
        }
    }

    /// The name of a protected znode whose create was not answered.
    async fn find(&self) -> Result<Option<String>, Error> {
        let Some(id) = self.id else { return Ok(None) };
        let names = children_now(&self.client, &self.dir).await?;
        Ok(names.into_iter().find(|name| id.owns(name)))
    }
}

/// The mode in which a znode comes back under the number that it had.
const fn without_number(mode: CreateMode) -> CreateMode {
    match mode {
        CreateMode::EphemeralSequential => CreateMode::Ephemeral,
        CreateMode::PersistentSequential => CreateMode::Persistent,
        CreateMode::PersistentSequentialWithTtl => CreateMode::PersistentWithTtl,
        CreateMode::Persistent
        | CreateMode::Ephemeral
        | CreateMode::Container
        | CreateMode::PersistentWithTtl => mode,
    }
}
