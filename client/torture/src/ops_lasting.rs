//! Recipes that are kept over a whole run, from session to session: a mirror, a znode, a
//! membership.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast::{self, error::TryRecvError};
use tokio::time::{Instant, sleep};
use zoolet_client::recipes::{Cache, CacheChange, CachedNode, GroupMember, PersistentNode};
use zoolet_client::{Client, CreateMode, Error, ErrorCode, ErrorKind, SessionState, Version};

use crate::context::Phase;
use crate::recipe::Recipe;
use crate::worker::Worker;

/// How many znodes a mirror has.
const MIRRORED: u64 = 5;
/// How long what is kept stays as it is, in ms: there are locks beside it.
const CHANGE_MS_MAX: u64 = 100;
/// How often it is looked whether a recipe has come to what it promises.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a mirror may be behind a tree that no longer changes.
const BEHIND_MAX: Duration = Duration::from_secs(10);
/// How long a turn waits for a znode to be there.
const THERE_MAX: Duration = Duration::from_millis(300);

/// What is kept.
enum Kept {
    Mirror(Mirror),
    Node(PersistentNode),
    Member(GroupMember),
}

impl Worker {
    /// Keeps the recipe until the run is over, with one session after the other. In the last turn
    /// it waits until it is what it promises to be.
    pub(crate) async fn keep(mut self) {
        let mut phase = self.context.phase.clone();
        let _ = phase.wait_for(|phase| *phase >= Phase::Run).await;
        while *phase.borrow() < Phase::Over {
            let client = self.session.client().await;
            match self.keep_with(&client).await {
                Ok(()) => {}
                Err(error) => self.failed(&client, &error).await,
            }
        }
    }

    async fn keep_with(&mut self, client: &Client) -> Result<(), Error> {
        let mut kept = self.start(client)?;
        let mut phase = self.context.phase.clone();
        while *phase.borrow() < Phase::LastTurn {
            // The next change is another one.
            passing(self.change(client, &mut kept).await)?;
            self.think(false).await;
            sleep(self.random.millis(0, CHANGE_MS_MAX)).await;
        }
        while passing(self.is_whole(client, &mut kept).await)? != Some(true) {
            if *phase.borrow() == Phase::Over {
                return Ok(());
            }
            sleep(LOOK_AGAIN).await;
        }
        self.is_done().await;
        let mut state = client.state();
        let is_over = tokio::select! {
            over = phase.wait_for(|phase| *phase == Phase::Over) => over.is_ok(),
            // The others count on it to be kept.
            ended = state.wait_for(|state: &SessionState| state.is_terminal()) => ended.is_err(),
        };
        if is_over { self.give_up(client, kept).await } else { Ok(()) }
    }

    fn start(&self, client: &Client) -> Result<Kept, Error> {
        let (path, own) = (&self.lock.path, self.own_name());
        if self.lock.recipe == Recipe::Cache {
            return Ok(Kept::Mirror(Mirror::start(client, path)));
        }
        if self.lock.recipe == Recipe::GroupMember {
            return GroupMember::join(client, path, &own).map(Kept::Member);
        }
        let path = format!("{path}/{own}");
        let node = if self.control.number.is_multiple_of(2) {
            PersistentNode::start(client, &path, CreateMode::Ephemeral, b"")
        } else {
            PersistentNode::start_protected(client, &path, CreateMode::EphemeralSequential, b"")
        };
        node.map(Kept::Node)
    }

    /// The name of this contender's znode, or the part of it that no other has.
    fn own_name(&self) -> String {
        format!("of-{}-", self.control.number)
    }

    async fn change(&mut self, client: &Client, kept: &mut Kept) -> Result<(), Error> {
        let data = self.unique();
        let path = self.lock.path.clone();
        match kept {
            Kept::Mirror(mirror) => {
                let znode = format!("{path}/{}", self.random.below(MIRRORED));
                let changed = self.write_below(client, &znode, data.as_bytes()).await;
                if let Err(what) = mirror.look() {
                    let who = self.control.number;
                    self.context.recorder.broke(format!("contender {who} at {path}: {what}"));
                }
                return changed;
            }
            Kept::Node(node) => {
                if self.random.chance(20)
                    && let Some(path) = node.try_path()
                {
                    client.delete(&path, Version::Any).await?;
                }
                node.set_data(data.as_bytes());
                node.path_timeout(THERE_MAX).await?;
            }
            Kept::Member(member) => {
                member.set_data(data.as_bytes());
                member.ready_timeout(THERE_MAX).await?;
            }
        }
        self.context.tally(&path, |tally| tally.given.push(data));
        Ok(())
    }

    /// Changes a znode below a mirror.
    async fn write_below(
        &mut self,
        client: &Client,
        znode: &str,
        data: &[u8],
    ) -> Result<(), Error> {
        match self.random.below(100) {
            0..20 => client.delete(znode, Version::Any).await?,
            20..50 => drop(client.create(znode, data, CreateMode::Persistent).await?),
            _ => drop(client.set_data(znode, data, Version::Any).await?),
        }
        let data = String::from_utf8_lossy(data).into_owned();
        self.context.tally(&self.lock.path, |tally| tally.given.push(data));
        Ok(())
    }

    /// Whether it is what it promises to be when nothing goes wrong for a while.
    async fn is_whole(&self, client: &Client, kept: &mut Kept) -> Result<bool, Error> {
        if client.state().borrow().is_terminal() {
            // Closed or expired: the contender needs another session.
            return Err(ErrorKind::SessionExpired.into());
        }
        let path = &self.lock.path;
        match kept {
            Kept::Mirror(mirror) => mirror.is_like(client, path).await,
            Kept::Node(node) => self.is_there(client, node).await,
            Kept::Member(member) => {
                let wanted: BTreeSet<String> =
                    (0..self.context.contenders).map(|number| format!("of-{number}-")).collect();
                let known: BTreeSet<String> = member.members().into_keys().collect();
                Ok(member.is_ready() && known == wanted)
            }
        }
    }

    /// Whether the znode is there, once, with the session and the data that it is to have.
    async fn is_there(&self, client: &Client, node: &PersistentNode) -> Result<bool, Error> {
        let Some(znode) = node.try_path() else { return Ok(false) };
        client.sync(&self.lock.path).await?;
        if self.own_children(client).await? != 1 {
            return Ok(false);
        }
        let (data, stat) = client.get(&znode).await?;
        Ok(data == node.data() && stat.ephemeral_owner.0 == client.session().id.0)
    }

    async fn own_children(&self, client: &Client) -> Result<usize, Error> {
        let own = self.own_name();
        let names = match client.children(&self.lock.path).await {
            // A reaper was here.
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Vec::new(),
            children => children?.0,
        };
        Ok(names.iter().filter(|name| name.contains(&own)).count())
    }

    /// Ends it. All changes are over, and nothing of it may stay.
    async fn give_up(&self, client: &Client, kept: Kept) -> Result<(), Error> {
        let broke = |what: &str| {
            let (who, path) = (self.control.number, &self.lock.path);
            self.context.recorder.broke(format!("contender {who} at {path}: {what}"));
        };
        match kept {
            Kept::Mirror(mut mirror) => {
                let end = Instant::now() + BEHIND_MAX;
                while passing(mirror.is_like(client, &self.lock.path).await)? != Some(true) {
                    if Instant::now() > end {
                        broke("the mirror is not what the tree is");
                        break;
                    }
                    sleep(LOOK_AGAIN).await;
                }
                return Ok(());
            }
            Kept::Node(node) => node.close().await?,
            Kept::Member(member) => member.leave().await?,
        }
        let end = Instant::now() + BEHIND_MAX;
        let is_gone = async || {
            client.sync(&self.lock.path).await?;
            self.own_children(client).await.map(|count| count == 0)
        };
        loop {
            match passing(is_gone().await)? {
                Some(true) => return Ok(()),
                Some(false) => broke("its znode is there after its end"),
                None if Instant::now() > end => broke("it cannot be looked for"),
                None => {
                    sleep(LOOK_AGAIN).await;
                    continue;
                }
            }
            return Ok(());
        }
    }
}

/// `None` for what others have done to a znode meanwhile, and for a connection that was lost.
fn passing<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Err(error) if error.ends_session() => Err(error),
        Err(error) if error.code().is_some() || *error.kind() == ErrorKind::ConnectionLoss => {
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// A mirror, and a second one made of the changes that it tells.
struct Mirror {
    cache: Cache,
    changes: broadcast::Receiver<CacheChange>,
    /// By path: what was changed last. `None` when changes were missed.
    reported: Option<BTreeMap<String, CachedNode>>,
    /// By path: the newest transaction that the mirror has shown.
    newest: BTreeMap<String, i64>,
}

impl Mirror {
    fn start(client: &Client, path: &str) -> Self {
        let cache = Cache::start(client, path);
        // Its task has not begun: the thread has not come to it.
        let changes = cache.subscribe();
        Self { cache, changes, reported: Some(BTreeMap::new()), newest: BTreeMap::new() }
    }

    /// Looks for a znode that is older than it was before.
    fn look(&mut self) -> Result<(), String> {
        self.listen();
        for (path, node) in self.cache.snapshot() {
            let newest = self.newest.entry(path.clone()).or_insert(i64::MIN);
            if node.stat.mzxid.0 < *newest {
                return Err(format!("the mirror of {path} went back from {newest:#x} to {node:?}"));
            }
            *newest = node.stat.mzxid.0;
        }
        Ok(())
    }

    /// Applies the reported changes to the second mirror.
    fn listen(&mut self) {
        loop {
            let change = match self.changes.try_recv() {
                Ok(change) => change,
                Err(TryRecvError::Lagged(_)) => {
                    self.reported = None;
                    continue;
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            };
            let Some(reported) = &mut self.reported else { continue };
            match change {
                CacheChange::Created(path, node) | CacheChange::Changed(path, node) => {
                    reported.insert(path, node);
                }
                CacheChange::Deleted(path, _) => {
                    reported.remove(&path);
                }
            }
        }
    }

    /// Whether the mirror, and what it has reported, is what the tree is now.
    async fn is_like(&mut self, client: &Client, path: &str) -> Result<bool, Error> {
        client.sync(path).await?;
        let (names, _) = client.children(path).await?;
        let mut tree: BTreeMap<String, (Bytes, i64)> = BTreeMap::new();
        for znode in names.iter().map(|name| format!("{path}/{name}")) {
            let (data, stat) = client.get(&znode).await?;
            tree.insert(znode, (data, stat.mzxid.0));
        }
        self.listen();
        let below = |nodes: &BTreeMap<String, CachedNode>| {
            let below = nodes.iter().filter(|(znode, _)| *znode != path);
            below
                .map(|(znode, node)| (znode.clone(), (node.data.clone(), node.stat.mzxid.0)))
                .collect::<BTreeMap<_, _>>()
        };
        let reported_is_like =
            self.reported.as_ref().is_none_or(|reported| below(reported) == tree);
        Ok(self.cache.is_ready() && below(&self.cache.snapshot()) == tree && reported_is_like)
    }
}
