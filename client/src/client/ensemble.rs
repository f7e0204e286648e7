//! What a client asks of the ensemble rather than of a znode.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a reply of any other kind, new ones too, is one that was not asked for"
)]

use bytes::Bytes;
use zoolet_jute::{AuthPacket, ClientInfo, NullablePathRequest, ReconfigRequest, Reply, Request};
use zoolet_jute::{Stat, Zxid};

use super::{path_watch, unexpected};
use crate::{Client, Error, OneshotWatcher};

/// Where the servers keep the ensemble's configuration. No chroot applies to it.
const CONFIG_PATH: &str = "/zookeeper/config";

/// A change of the ensemble; see [`Client::reconfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigChange<'a> {
    /// Some servers leave, then some join or are replaced.
    Some {
        /// Servers to add or replace, separated by commas, each in the form of the configuration
        /// file: `server.4=host:2888:3888:participant;2181`. Empty for none.
        joining: &'a str,
        /// The ids of servers to remove, separated by commas. Empty for none.
        leaving: &'a str,
    },
    /// The whole list of servers, separated by commas, in the form of the configuration file.
    All(&'a str),
}

impl Client {
    /// Waits until the server has applied everything that was committed before: the reads behind
    /// it see at least that. Answers how far the server is.
    pub async fn sync(&self, path: &str) -> Result<Zxid, Error> {
        let request = Request::Sync(NullablePathRequest { path: Some(path.to_owned()) });
        self.call(request).await.map(|(zxid, _)| zxid)
    }

    /// Adds an identity to this session's connections, future ones too. Credentials that the server
    /// refuses end the session.
    ///
    /// The scheme `digest` takes `user:password`.
    pub async fn add_auth(&self, scheme: &str, auth: &[u8]) -> Result<(), Error> {
        let request = Request::Auth(AuthPacket {
            auth_type: 0,
            scheme: Some(scheme.to_owned()),
            auth: Some(Bytes::copy_from_slice(auth)),
        });
        self.call(request).await.map(|_| ())
    }

    /// The identities by which the server knows this connection, in no order that means anything.
    pub async fn who_am_i(&self) -> Result<Vec<ClientInfo>, Error> {
        match self.call(Request::WhoAmI).await?.1 {
            Reply::WhoAmI(identities) => Ok(identities),
            other => Err(unexpected(&other)),
        }
    }

    /// The paths of this session's ephemeral znodes that begin with a text, `/` for all of them, in
    /// no order that means anything. The text is compared as such: `/a` finds `/ab`, too.
    pub async fn ephemerals(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let request = Request::GetEphemerals(NullablePathRequest { path: Some(prefix.to_owned()) });
        match self.call(request).await?.1 {
            Reply::Children(paths) => Ok(paths),
            other => Err(unexpected(&other)),
        }
    }

    /// The ensemble's configuration: its text, one server a line and the version last, and the Stat
    /// of `/zookeeper/config`.
    pub async fn config(&self) -> Result<(Bytes, Stat), Error> {
        match self.call(Request::GetData(path_watch(CONFIG_PATH, false))).await?.1 {
            Reply::Data(data, stat) => Ok((data.unwrap_or_default(), stat)),
            other => Err(unexpected(&other)),
        }
    }

    /// The same, with a watch that fires when the configuration changes.
    pub async fn config_watched(&self) -> Result<(Bytes, Stat, OneshotWatcher), Error> {
        self.get_watched(CONFIG_PATH).await
    }

    /// Changes the ensemble if its configuration has this version, −1 for any; answers the new
    /// configuration. It takes a right to write `/zookeeper/config`, which nobody has by default
    /// (protocol §15.4).
    pub async fn reconfig(
        &self,
        change: ConfigChange<'_>,
        version: i64,
    ) -> Result<(Bytes, Stat), Error> {
        let (joining, leaving, members) = match change {
            ConfigChange::Some { joining, leaving } => (given(joining), given(leaving), None),
            ConfigChange::All(members) => (None, None, Some(members.to_owned())),
        };
        let request = Request::Reconfig(ReconfigRequest {
            joining_servers: joining,
            leaving_servers: leaving,
            new_members: members,
            config_id: version,
        });
        match self.call(request).await?.1 {
            Reply::Data(data, stat) => Ok((data.unwrap_or_default(), stat)),
            other => Err(unexpected(&other)),
        }
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
