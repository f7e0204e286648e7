//! One's own ephemeral znode in a queue: created so that a lost reply does no harm, and gone when
//! its holder is dropped, wherever it stood at that moment.

#![allow(clippy::wildcard_enum_match_arm, reason = "any other result of a part was not asked for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tracing::debug;
use zoolet_jute::{Acl, CreateMode, ErrorCode, MultiResult, Stat};

use crate::{Client, Error, ErrorKind, Version};

use super::name::{KAZOO_LOCK_BASE, LOCK_BASE, ProtectedId, Sequence, join, split};
use super::remains::{Remains, find_fixed, find_names, remove};
use super::retry::{
    back_off, children_now, clean_up_later, delete_created, ensure_containers, is_not_found,
    retry_transient,
};

/// The names of the znodes of one place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeNaming {
    /// `_c_<uuid>-<base>N`, ephemeral and sequential.
    Protected(&'static str),
    /// `_c_<uuid>-lock-N` and `<hex>__lock__N+1`, in one transaction: both families queue behind.
    Bilingual,
    /// `_c_<uuid>-<base>N` with a number that the creator's other znode has already.
    Numbered(&'static str, Sequence),
    /// `<uuid>`, without a number.
    Plain,
}

/// What to create.
#[derive(Clone, Debug)]
pub(crate) struct QueueNodeSpec<'a> {
    pub(crate) dir: &'a str,
    pub(crate) naming: NodeNaming,
    pub(crate) data: &'a [u8],
    pub(crate) acl: &'a [Acl],
    /// Znodes that must exist when this one is created.
    pub(crate) held: &'a [String],
}

/// An ephemeral znode of this session, or two of them. It is deleted when the place is dropped.
#[derive(Debug)]
pub(crate) struct QueueNode {
    client: Client,
    runtime: Handle,
    dir: String,
    id: ProtectedId,
    /// The name, where it is not made from the id; then the data starts with the id.
    fixed: Option<String>,
    /// Empty until the create was answered.
    names: Vec<String>,
    czxid: i64,
    /// Whether there is anything to delete.
    armed: bool,
    /// Whether a create was sent: one that was not has left nothing.
    sent: Arc<AtomicBool>,
}

impl QueueNode {
    /// A place that is about to be taken.
    fn empty(client: &Client, dir: &str, fixed: Option<String>) -> Result<Self, Error> {
        Ok(Self {
            client: client.clone(),
            runtime: Handle::current(),
            dir: dir.to_owned(),
            id: ProtectedId::random()?,
            fixed,
            names: Vec::new(),
            czxid: 0,
            armed: true,
            sent: Arc::default(),
        })
    }

    /// A place with a name of its own that its owner is going to create. Dropped, it deletes the
    /// znode if there is one.
    pub(crate) fn planned(client: &Client, dir: &str, base: &str) -> Result<Self, Error> {
        let mut queue_node = Self::empty(client, dir, None)?;
        queue_node.names = vec![queue_node.id.curator(base)];
        Ok(queue_node)
    }

    /// A mark that is set when the create of the znode is sent.
    pub(crate) fn sent(&self) -> &Arc<AtomicBool> {
        &self.sent
    }

    /// Makes the drop delete nothing: the znode does not exist.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Creates an ephemeral znode of a fixed name; `None` when somebody else has it. Its data is a
    /// random id, by which a lost reply is made up for, a space, and the label.
    pub(crate) async fn try_create(
        client: &Client,
        path: &str,
        label: &[u8],
        acl: &[Acl],
    ) -> Result<Option<Self>, Error> {
        let Some((dir, name)) = split(path) else {
            return Err(ErrorKind::Protocol(format!("invalid path of a lock: {path:?}")).into());
        };
        let mut queue_node = Self::empty(client, dir, Some(name.to_owned()))?;
        let data = [queue_node.id.uuid().as_bytes(), b" ", label].concat();
        let (mut tries, mut in_doubt) = (0, false);
        loop {
            let acl = acl.to_vec();
            let create = client.create_with_acl(path, &data, acl, CreateMode::Ephemeral);
            match create.marking(&queue_node.sent).await {
                Ok(created) => {
                    queue_node.take(vec![created]);
                    return Ok(Some(queue_node));
                }
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => {
                    let found = if in_doubt { queue_node.find().await? } else { None };
                    queue_node.armed = found.is_some();
                    return Ok(found.map(|found| {
                        queue_node.take(found);
                        queue_node
                    }));
                }
                Err(error) if is_not_found(&error) => {
                    ensure_containers(client, dir).await?;
                }
                Err(error) if error.is_transient() => {
                    in_doubt |= error.may_have_happened();
                    back_off(client, &error, &mut tries).await;
                }
                Err(error) => {
                    queue_node.armed = in_doubt || error.may_have_happened();
                    return Err(error);
                }
            }
        }
    }

    /// Takes a place at the end of the queue. Returns the children too when they came with the
    /// same round trip: they were read behind the create.
    pub(crate) async fn enter(
        client: &Client,
        spec: &QueueNodeSpec<'_>,
    ) -> Result<(Self, Option<Vec<String>>), Error> {
        let mut queue_node = Self::empty(client, spec.dir, None)?;
        let (mut tries, mut in_doubt) = (0, false);
        loop {
            // Calls are carried out in the order in which they are made: the list behind the create.
            let listed = async { client.children(spec.dir).await };
            let (created, listed) = tokio::join!(biased; queue_node.create(spec), listed);
            match created {
                Ok(created) => {
                    queue_node.take(created);
                    return Ok((queue_node, listed.ok().map(|(names, _)| names)));
                }
                Err(error) if is_not_found(&error) => {
                    ensure_containers(client, spec.dir).await?;
                }
                Err(error) if error.is_transient() => {
                    in_doubt |= error.may_have_happened();
                    back_off(client, &error, &mut tries).await;
                    if !in_doubt {
                        continue;
                    }
                    debug!(dir = spec.dir, %error, "looking for a znode whose create was lost");
                    let found = queue_node.find().await?;
                    if let Some(found) = found.filter(|_| !planted!("lost-create-is-forgotten")) {
                        queue_node.take(found);
                        return Ok((queue_node, None));
                    }
                }
                Err(error) => {
                    queue_node.armed = in_doubt || error.may_have_happened();
                    return Err(error);
                }
            }
        }
    }

    /// Leaves the queue and enters it at its end, in one transaction: a list has the one znode or the
    /// other. Its owner disarms this one when that is done.
    pub(crate) async fn enter_again(
        &self,
        base: &str,
        spec: &QueueNodeSpec<'_>,
    ) -> Result<(Self, Option<Vec<String>>), Error> {
        let client = &self.client;
        let mut queue_node = Self::empty(client, spec.dir, None)?;
        let (old, new) =
            (join(&self.dir, self.name()), join(spec.dir, &queue_node.id.curator(base)));
        let mode = CreateMode::EphemeralSequential;
        let (mut tries, mut in_doubt) = (0, false);
        loop {
            let transaction = client.transaction().delete(&old, Version::Any);
            let transaction = transaction.create(&new, spec.data, spec.acl.to_vec(), mode);
            let error = match transaction.commit().marking(&queue_node.sent).await {
                Ok((_, mut results)) => {
                    if let Some(MultiResult::Create2 { path, stat }) = results.pop() {
                        queue_node.take(vec![(path, stat)]);
                    }
                    return Ok((queue_node, None));
                }
                Err(error) => error,
            };
            if error.is_transient() {
                in_doubt |= error.may_have_happened();
                back_off(client, &error, &mut tries).await;
            } else if !is_not_found(&error) {
                queue_node.armed = in_doubt || error.may_have_happened();
                return Err(error);
            }
            if in_doubt && let Some(found) = queue_node.find().await? {
                queue_node.take(found);
                return Ok((queue_node, None));
            }
            if is_not_found(&error) {
                // Somebody has deleted the old one.
                queue_node.armed = false;
                return Self::enter(client, spec).await;
            }
        }
    }

    /// The places that this session has below a znode under names that `is_name` accepts, in no
    /// order: those of the client that had the session before. No other holder may have them.
    pub(crate) async fn adopt(
        client: &Client,
        dir: &str,
        is_name: impl Fn(&str) -> bool,
    ) -> Result<Vec<Self>, Error> {
        let mut places: Vec<Self> = Vec::new();
        for name in children_now(client, dir).await? {
            let Some(id) = ProtectedId::of(&name).filter(|_| is_name(&name)) else { continue };
            let path = join(dir, &name);
            let stat = retry_transient(client, || client.exists(&path)).await?;
            let session = client.session().id;
            let Some(stat) = stat.filter(|stat| stat.ephemeral_owner == session) else { continue };
            if let Some(queue_node) = places.iter_mut().find(|queue_node| queue_node.id == id) {
                queue_node.names.push(name);
                // Curator's form first, as they were created.
                queue_node.names.sort_by_key(|name| !name.starts_with("_c_"));
            } else {
                let mut queue_node = Self::empty(client, dir, None)?;
                (queue_node.id, queue_node.names, queue_node.czxid) =
                    (id, vec![name], stat.czxid.0);
                places.push(queue_node);
            }
        }
        Ok(places)
    }

    /// The same of a znode of a fixed name; `None` if it is not this session's.
    pub(crate) async fn adopt_fixed(client: &Client, path: &str) -> Result<Option<Self>, Error> {
        let Some((dir, name)) = split(path) else { return Ok(None) };
        retry_transient(client, || client.sync(path)).await?;
        let (data, stat) = match retry_transient(client, || client.get(path)).await {
            Ok(found) => found,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = std::str::from_utf8(data.get(..36).unwrap_or_default()).ok();
        let Some(id) = id.and_then(ProtectedId::of) else { return Ok(None) };
        if stat.ephemeral_owner != client.session().id {
            return Ok(None);
        }
        let mut queue_node = Self::empty(client, dir, Some(name.to_owned()))?;
        queue_node.id = id;
        queue_node.take(vec![(path.to_owned(), stat)]);
        Ok(Some(queue_node))
    }

    async fn create(&self, spec: &QueueNodeSpec<'_>) -> Result<Vec<(String, Stat)>, Error> {
        let acl = spec.acl.to_vec();
        let (name, mode) = match spec.naming {
            NodeNaming::Protected(base) => (self.id.curator(base), CreateMode::EphemeralSequential),
            NodeNaming::Numbered(base, number) => {
                (format!("{}{}", self.id.curator(base), number.suffix()), CreateMode::Ephemeral)
            }
            NodeNaming::Plain => (self.id.uuid(), CreateMode::Ephemeral),
            NodeNaming::Bilingual => {
                let names = [self.id.curator(LOCK_BASE), self.id.kazoo(KAZOO_LOCK_BASE)];
                return self.create_all(spec, &names, CreateMode::EphemeralSequential).await;
            }
        };
        if !spec.held.is_empty() {
            return self.create_all(spec, &[name], mode).await;
        }
        let path = join(spec.dir, &name);
        let create = self.client.create_with_acl(&path, spec.data, acl, mode);
        Ok(vec![create.marking(&self.sent).await?])
    }

    /// Creates several znodes, or one that others have to hold up, in one transaction.
    async fn create_all(
        &self,
        spec: &QueueNodeSpec<'_>,
        names: &[String],
        mode: CreateMode,
    ) -> Result<Vec<(String, Stat)>, Error> {
        let mut transaction = self.client.transaction().while_held(spec.held);
        for name in names {
            let path = join(spec.dir, name);
            transaction = transaction.create(&path, spec.data, spec.acl.to_vec(), mode);
        }
        let (_, results) = transaction.commit().marking(&self.sent).await?;
        let created = |result| match result {
            MultiResult::Create2 { path, stat } => Ok((path, stat)),
            other => {
                Err(ErrorKind::Protocol(format!("unexpected reply to a create: {other:?}")).into())
            }
        };
        results.into_iter().map(created).collect()
    }

    /// Notes the paths and Stats of the znodes.
    fn take(&mut self, created: Vec<(String, Stat)>) {
        self.czxid = created.first().map_or(0, |(_, stat)| stat.czxid.0);
        let name = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
        self.names = created.into_iter().map(|(path, _)| name(path)).collect();
    }

    /// Looks for znodes whose create was not answered, and makes sure that they are this session's.
    async fn find(&self) -> Result<Option<Vec<(String, Stat)>>, Error> {
        let session = self.client.session().id;
        if let Some(name) = &self.fixed {
            let path = join(&self.dir, name);
            let found = find_fixed(&self.client, &path, self.id).await?;
            let own = found.filter(|stat| stat.ephemeral_owner == session);
            return Ok(own.map(|stat| vec![(path, stat)]));
        }
        let names = find_names(&self.client, &self.dir, self.id).await?;
        let mut found = Vec::new();
        for name in names {
            let path = join(&self.dir, &name);
            match retry_transient(&self.client, || self.client.exists(&path)).await? {
                Some(stat) if stat.ephemeral_owner == session => {
                    found.push((path, stat));
                }
                Some(_) | None => {}
            }
        }
        Ok((!found.is_empty()).then_some(found))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Where the work runs that a dropped place leaves.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn dir(&self) -> &str {
        &self.dir
    }

    /// The name that stands first in the queue.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// The paths of the znodes; all of them exist while the place is held.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.names.iter().map(|name| join(&self.dir, name)).collect()
    }

    /// The transaction that created the znodes.
    pub(crate) fn czxid(&self) -> i64 {
        self.czxid
    }

    /// Leaves the queue. Returns whether the place was still there; a place that is gone without
    /// its holder's doing was lost before.
    pub(crate) async fn leave(mut self) -> Result<bool, Error> {
        let was_there = match (&self.fixed, self.names.first()) {
            (Some(_), Some(name)) => {
                let path = join(&self.dir, name);
                delete_created(&self.client, &path, Some(self.czxid)).await
            }
            _ => remove(&self.client, &self.dir, &self.names).await,
        };
        // The end of the session has deleted the znodes, or will.
        self.armed = matches!(&was_there, Err(error) if !error.ends_session());
        was_there
    }
}

impl Drop for QueueNode {
    fn drop(&mut self) {
        // A create that was never sent has left nothing.
        let is_unsent = self.czxid == 0 && !self.sent.load(Ordering::Relaxed);
        if !self.armed || is_unsent || planted!("dropped-guard-keeps-its-lock") {
            return;
        }
        let remains = Remains {
            dir: std::mem::take(&mut self.dir),
            id: self.id,
            fixed: self.fixed.take(),
            names: std::mem::take(&mut self.names),
            czxid: self.czxid,
        };
        clean_up_later(&self.client, &self.runtime, move |client| remains.clone().delete(client));
    }
}
