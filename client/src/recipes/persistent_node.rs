//! A znode that comes back when somebody deletes it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use zoolet_jute::{CreateMode, ErrorCode, Stat};

use crate::{Client, Error, ErrorKind, Version};

use super::name::{ProtectedId, Sequence, join, split};
use super::retry::{
    back_off, children_now, clean_up_later, delete_created, ensure_containers, exists_now, fired,
    is_not_found, retry_transient, within,
};

/// Where the znode is, as the task knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Presence {
    /// Its create is under way, or waits for the end of another session's.
    Coming,
    /// It was there when the task looked last.
    There(Arc<str>),
    /// It is over.
    Ended(ErrorKind),
}

/// Keeps a znode in existence for as long as the session lives: Curator's `PersistentNode`. A
/// znode that is deleted is created again, and one that exists is taken over and gets the data.
/// What others write on it afterwards stays, as with Curator, until the data is changed here.
///
/// An ephemeral znode of another session is not taken over: it goes with that session, which may be
/// about to end, and is waited for. It is deleted when this is closed or dropped, whatever its mode,
/// and also when an error that does not end the session ends this: then in the background.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::PersistentNode;
/// use zoolet_client::{CreateMode, Version};
///
/// let node = PersistentNode::start(&client, "/alive/1", CreateMode::Ephemeral, b"10.0.0.1")?;
/// let path = node.path().await?;
/// let created = client.get_watched(&path).await?.2;
/// client.delete(&path, Version::Any).await?;
/// created.await?;
/// // It comes back.
/// while client.exists(&path).await?.is_none() {
///     tokio::task::yield_now().await;
/// }
/// node.close().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "dropping a persistent node deletes its znode"]
pub struct PersistentNode {
    presence: watch::Receiver<Presence>,
    data: watch::Sender<Bytes>,
    /// Dropping it has the task delete the znode and end.
    keep: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl PersistentNode {
    /// Creates the znode, and what is missing above it as containers, and keeps it there. A
    /// sequential znode gets a [protected](Self::start_protected) name: without it, one whose
    /// create was not answered could not be found. Modes with a time to live are refused.
    pub fn start(
        client: &Client,
        path: &str,
        mode: CreateMode,
        data: &[u8],
    ) -> Result<Self, Error> {
        let is_sequential = without_number(mode) != mode;
        Self::launch(client, path, mode, data, is_sequential)
    }

    /// The same under the name `_c_<uuid>-<name>`. A sequential znode keeps its number when it
    /// comes back.
    pub fn start_protected(
        client: &Client,
        path: &str,
        mode: CreateMode,
        data: &[u8],
    ) -> Result<Self, Error> {
        Self::launch(client, path, mode, data, true)
    }

    /// Takes over the znodes that another process has [started](Self::start) at this path in this
    /// mode, protected or not, and left with the session that this client has resumed; see
    /// [`Client::detach`]. Each keeps its name and the data that it has. There are as many as that
    /// process has kept there, none if the session has no such znode, and no other handle may have
    /// them.
    ///
    /// Only modes whose znodes are ephemeral: a persistent znode does not belong to a session, so this
    /// fails with [`ErrorKind::Protocol`]. [Start](Self::start) one at the whole path that the other
    /// had, and it is taken over.
    pub async fn adopt(client: &Client, path: &str, mode: CreateMode) -> Result<Vec<Self>, Error> {
        refuse_ttl(mode)?;
        refuse_persistent(mode)?;
        let (dir, base) = split(path).unwrap_or(("/", ""));
        let mut found = Vec::new();
        for name in children_now(client, dir).await? {
            let id = ProtectedId::of(&name);
            if !is_kept(&name, base, id, mode) {
                continue;
            }
            let path = join(dir, &name);
            match retry_transient(client, || client.get(&path)).await {
                Ok((data, stat)) if stat.ephemeral_owner == client.session().id => {
                    found.push((name, data, id));
                }
                Ok(_) => {}
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // A handle that is dropped deletes its znode: none is made before all are found.
        let mode = without_number(mode);
        let keep =
            |(name, data, id): (_, Bytes, _)| Self::keep(client, (dir, name), mode, &data, id);
        Ok(found.into_iter().map(keep).collect())
    }

    fn launch(
        client: &Client,
        path: &str,
        mode: CreateMode,
        data: &[u8],
        is_protected: bool,
    ) -> Result<Self, Error> {
        refuse_ttl(mode)?;
        let id = is_protected.then(ProtectedId::random).transpose()?;
        let (dir, name) = split(path).unwrap_or(("/", ""));
        let name = id.map_or_else(|| name.to_owned(), |id| id.curator(name));
        Ok(Self::keep(client, (dir, name), mode, data, id))
    }

    fn keep(
        client: &Client,
        (dir, name): (&str, String),
        mode: CreateMode,
        data: &[u8],
        id: Option<ProtectedId>,
    ) -> Self {
        let (sender, presence) = watch::channel(Presence::Coming);
        let (data, wanted) = watch::channel(Bytes::copy_from_slice(data));
        let (keep, dropped) = oneshot::channel();
        let kept = Kept { client: client.clone(), dir: dir.to_owned(), name, id, mode };
        let keeper = Keeper { kept, wanted, presence: sender, may_be_there: false };
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

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn path_timeout(&self, limit: Duration) -> Result<Option<String>, Error> {
        within(limit, self.path()).await
    }

    /// Its path, if it was there when the task looked last.
    pub fn try_path(&self) -> Option<String> {
        match &*self.presence.borrow() {
            Presence::There(path) => Some(path.to_string()),
            Presence::Coming | Presence::Ended(_) => None,
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

/// The znode that is kept.
#[derive(Clone)]
struct Kept {
    client: Client,
    dir: String,
    name: String,
    id: Option<ProtectedId>,
    mode: CreateMode,
}

impl Kept {
    fn path(&self) -> String {
        join(&self.dir, &self.name)
    }

    /// Deletes the znode, one too whose create is not answered yet: it precedes this in
    /// the order of the session.
    async fn remove(&self) -> Result<(), Error> {
        let numbered = without_number(self.mode) == self.mode;
        let name = if numbered { Some(self.name.clone()) } else { self.find().await? };
        let Some(name) = name else { return Ok(()) };
        let path = join(&self.dir, &name);
        match exists_now(&self.client, &path).await? {
            Some(stat) if self.may_own(&stat) => {
                delete_created(&self.client, &path, Some(stat.czxid.0)).await.map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Removes it as soon as the servers let this, unless the session ends before.
    fn remove_later(self) {
        let Self { client, dir, name, id, mode } = self;
        let work = move |client| {
            let kept = Self { client, dir: dir.clone(), name: name.clone(), id, mode };
            async move { kept.remove().await }
        };
        clean_up_later(&client, &Handle::current(), work);
    }

    /// Whether a znode can be this one: not if it goes with another session.
    fn may_own(&self, stat: &Stat) -> bool {
        !matches!(self.mode, CreateMode::Ephemeral | CreateMode::EphemeralSequential)
            || stat.ephemeral_owner == self.client.session().id
    }

    /// The name of a protected znode whose create was not answered.
    async fn find(&self) -> Result<Option<String>, Error> {
        let Some(id) = self.id else { return Ok(None) };
        let names = children_now(&self.client, &self.dir).await?;
        Ok(names.into_iter().find(|name| id.owns(name)))
    }
}

/// The task that keeps the znode there.
struct Keeper {
    kept: Kept,
    wanted: watch::Receiver<Bytes>,
    presence: watch::Sender<Presence>,
    /// Whether the znode was created or taken over here, or may have been, and may still be there.
    may_be_there: bool,
}

impl Keeper {
    async fn run(mut self, dropped: oneshot::Receiver<()>) -> Result<(), Error> {
        let error = tokio::select! {
            error = self.keep() => Some(error),
            _ = dropped => None,
        };
        let kind = error.as_ref().map_or(ErrorKind::Closed, |error| error.kind().clone());
        self.presence.send_replace(Presence::Ended(kind));
        if let Some(error) = error {
            // What was refused here may belong to somebody else; what is kept no more has to go.
            if self.may_be_there && !error.ends_session() {
                self.kept.remove_later();
            }
            return Err(error);
        }
        let removed = self.kept.remove().await;
        if removed.as_ref().is_err_and(|error| !error.ends_session()) {
            // The caller of `close` gets the error at once, and the removal goes on.
            self.kept.remove_later();
        }
        removed
    }

    async fn keep(&mut self) -> Error {
        loop {
            if let Err(error) = self.keep_once().await {
                return error;
            }
        }
    }

    /// Makes the znode what it should be, and waits until it is not any more.
    async fn keep_once(&mut self) -> Result<(), Error> {
        let (path, mut has_data) = self.create().await?;
        loop {
            let (data, watch) =
                match retry_transient(&self.kept.client, || self.kept.client.get_watched(&path))
                    .await
                {
                    Ok((data, stat, watch)) if self.kept.may_own(&stat) => (data, watch),
                    Ok(_) => return Ok(()),
                    Err(error) if is_not_found(&error) && planted!("deleted-node-stays-away") => {
                        return pending().await;
                    }
                    Err(error) if is_not_found(&error) => return Ok(()),
                    Err(error) => return Err(error),
                };
            // Once: two who keep one znode with different data would answer each other for ever.
            if !std::mem::replace(&mut has_data, true) {
                let wanted = self.wanted.borrow_and_update().clone();
                if data != wanted {
                    match retry_transient(&self.kept.client, || {
                        self.kept.client.set_data(&path, &wanted, Version::Any)
                    })
                    .await
                    {
                        Err(error) if is_not_found(&error) => return Ok(()),
                        other => drop(other?),
                    }
                }
            }
            tokio::select! {
                changed = fired(watch) => drop(changed?),
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        // The handle is gone with its sender: the task is about to notice.
                        pending::<()>().await;
                    }
                    has_data = false;
                }
            }
        }
    }

    /// Creates the znode unless it is there, and notes its path. Answers with it whether it has the
    /// data, as one that was just created does.
    async fn create(&mut self) -> Result<(Arc<str>, bool), Error> {
        self.may_be_there = false;
        let mut tries = 0;
        loop {
            let path = self.kept.path();
            let data = self.wanted.borrow_and_update().clone();
            let mut has_data = false;
            let created = match self.kept.client.create(&path, &data, self.kept.mode).await {
                Ok((created, _)) => {
                    has_data = true;
                    created
                }
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {
                    if !self.wait_foreign(&path).await? {
                        continue;
                    }
                    path
                }
                Err(error) if is_not_found(&error) => {
                    ensure_containers(&self.kept.client, &self.kept.dir).await?;
                    continue;
                }
                Err(error) if error.is_transient() => {
                    self.may_be_there |= error.may_have_happened();
                    back_off(&self.kept.client, &error, &mut tries).await;
                    match self.kept.find().await? {
                        Some(name) => join(&self.kept.dir, &name),
                        None => continue,
                    }
                }
                Err(error) => {
                    self.may_be_there |= error.may_have_happened();
                    return Err(error);
                }
            };
            self.may_be_there = true;
            if let Some((_, name)) = split(&created) {
                name.clone_into(&mut self.kept.name);
                self.kept.mode = without_number(self.kept.mode);
            }
            let created: Arc<str> = created.into();
            self.presence.send_replace(Presence::There(Arc::clone(&created)));
            return Ok((created, has_data));
        }
    }

    /// Answers true if the znode at the path can be this one, and otherwise waits until it is
    /// another one, or changes.
    async fn wait_foreign(&self, path: &str) -> Result<bool, Error> {
        let (stat, watch) =
            retry_transient(&self.kept.client, || self.kept.client.exists_watched(path)).await?;
        match stat {
            Some(stat) if self.kept.may_own(&stat) => Ok(true),
            Some(_) => {
                self.presence.send_replace(Presence::Coming);
                fired(watch).await.map(|_| false)
            }
            None => Ok(false),
        }
    }
}

/// A znode that is kept has no time to live.
fn refuse_ttl(mode: CreateMode) -> Result<(), Error> {
    if mode.is_ttl() {
        let why = "a znode with a time to live cannot be kept in existence";
        return Err(ErrorKind::Protocol(why.to_owned()).into());
    }
    Ok(())
}

/// Refuses a persistent znode: it does not show which session created it.
fn refuse_persistent(mode: CreateMode) -> Result<(), Error> {
    if !matches!(mode, CreateMode::Ephemeral | CreateMode::EphemeralSequential) {
        let why = "a persistent znode has no session, so it cannot be adopted: \
                   use `PersistentNode::start` with its full path";
        return Err(ErrorKind::Protocol(why.to_owned()).into());
    }
    Ok(())
}

/// Whether a name can be that of a znode that is kept for this one, in this mode.
fn is_kept(name: &str, base: &str, id: Option<ProtectedId>, mode: CreateMode) -> bool {
    let protected = id.and_then(|id| name.strip_prefix(id.curator(base).as_str()));
    // Ten digits: fewer or more belong to another name that begins as this one does.
    let is_number = |rest: &str| {
        rest.strip_prefix('-').unwrap_or(rest).len() == 10 && Sequence::parse(rest).is_some()
    };
    match protected {
        Some(rest) if mode == CreateMode::EphemeralSequential => is_number(rest),
        Some(rest) => rest.is_empty(),
        None => name == base && mode == CreateMode::Ephemeral,
    }
}

/// The mode in which a znode comes back under the number that it had.
const fn without_number(mode: CreateMode) -> CreateMode {
    match mode {
        CreateMode::EphemeralSequential => CreateMode::Ephemeral,
        CreateMode::PersistentSequential => CreateMode::Persistent,
        CreateMode::Persistent
        | CreateMode::Ephemeral
        | CreateMode::Container
        | CreateMode::PersistentWithTtl
        | CreateMode::PersistentSequentialWithTtl => mode,
    }
}
