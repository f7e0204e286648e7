//! Belonging to a group, and knowing who else does.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::CreateMode;

use crate::{Client, Error};

use super::cache::Cache;
use super::local_address::local_address;
use super::name::join;
use super::persistent_node::PersistentNode;
use super::retry::within;

/// A member of a group, beside Curator's `GroupMember` on the same path: an ephemeral znode with
/// the member's id as its name, and a mirror of all of them.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::GroupMember;
///
/// let member = GroupMember::join_with_data(&client, "/workers", "worker-1", b"10.0.0.1:80")?;
/// member.ready().await?;
/// assert_eq!(member.members()["worker-1"].as_ref(), b"10.0.0.1:80");
/// member.leave().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "dropping a member leaves the group"]
pub struct GroupMember {
    node: PersistentNode,
    cache: Cache,
    path: String,
    id: String,
}

impl GroupMember {
    /// Joins the group at this path under this id, with this machine's address as data, as
    /// Curator does.
    pub fn join(client: &Client, path: &str, id: &str) -> Result<Self, Error> {
        Self::join_with_data(client, path, id, local_address().as_bytes())
    }

    /// Joins the group at this path under this id, with this data.
    pub fn join_with_data(
        client: &Client,
        path: &str,
        id: &str,
        data: &[u8],
    ) -> Result<Self, Error> {
        let node = PersistentNode::start(client, &join(path, id), CreateMode::Ephemeral, data)?;
        let cache = Cache::start(client, path);
        Ok(Self { node, cache, path: path.to_owned(), id: id.to_owned() })
    }

    /// Waits until the membership is registered and the others are known.
    pub async fn ready(&self) -> Result<(), Error> {
        self.node.path().await?;
        self.cache.ready().await
    }

    /// The same, for `limit` at most; returns whether that was enough.
    pub async fn ready_timeout(&self, limit: Duration) -> Result<bool, Error> {
        Ok(within(limit, self.ready()).await?.is_some())
    }

    /// Whether the membership is registered and the others are known.
    pub fn is_ready(&self) -> bool {
        self.node.try_path().is_some() && self.cache.is_ready()
    }

    /// The members' ids and data, one's own included, as the mirror knows them.
    pub fn members(&self) -> BTreeMap<String, Bytes> {
        let mut members = BTreeMap::from([(self.id.clone(), self.node.data())]);
        for name in self.cache.children(&self.path) {
            if let Some(node) = self.cache.get(&join(&self.path, &name)) {
                members.insert(name, node.data);
            }
        }
        members
    }

    /// The mirror of the group, for its changes.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Changes one's own data, in the background.
    pub fn set_data(&self, data: &[u8]) {
        self.node.set_data(data);
    }

    /// Leaves the group, and waits until the servers know it.
    pub async fn leave(self) -> Result<(), Error> {
        self.node.close().await
    }
}
