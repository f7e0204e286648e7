//! What a client asks of the ensemble rather than of a znode.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a reply of any other kind, new ones too, is one that was not asked for"
)]

use bytes::Bytes;
use zoolet_jute::{
    AuthPacket, ClientInfo, NullablePathRequest, ReconfigRequest, Reply, Request, Stat, Zxid,
};

use super::Call;
use super::bodies::data;
use crate::{Client, Error, OneshotWatcher, Version};

/// Where the servers keep the ensemble's configuration. No chroot applies to it.
const CONFIG_PATH: &str = "/zookeeper/config";

/// A change of the ensemble; see [`Client::reconfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// it see at least that. Returns how far the server is.
    pub fn sync(&self, path: &str) -> Call<Zxid> {
        let request = Request::Sync(NullablePathRequest { path: Some(self.path(path)) });
        self.ask(request, None, |answer| answer.map(|(zxid, _)| zxid))
    }

    /// Adds an identity to this session's connections, future ones too. Credentials that the server
    /// refuses end the session. A connection that breaks does not fail this call: the next one gets
    /// the identity as well.
    ///
    /// The scheme `digest` takes `user:password`.
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Call<()> {
        let request = Request::Auth(AuthPacket {
            auth_type: 0,
            scheme: Some(scheme.to_owned()),
            auth: Some(Bytes::copy_from_slice(auth)),
        });
        self.ask_for(request, |_| Ok(()))
    }

    /// The identities by which the server knows this connection, in no order that means anything.
    pub fn who_am_i(&self) -> Call<Vec<ClientInfo>> {
        self.ask_for(Request::WhoAmI, |reply| match reply {
            Reply::WhoAmI(identities) => Ok(identities),
            other => Err(Error::unexpected(&other)),
        })
    }

    /// The paths of this session's ephemeral znodes that begin with a text, `/` for all of them, in
    /// no order that means anything. The text is compared as such: `/a` finds `/ab`, too.
    pub fn ephemerals(&self, prefix: &str) -> Call<Vec<String>> {
        let request = Request::GetEphemerals(NullablePathRequest { path: Some(self.path(prefix)) });
        let chroot = self.root().clone();
        self.ask_for(request, move |reply| match reply {
            Reply::Children(paths) => {
                Ok(paths.into_iter().filter_map(|path| chroot.to_client(path)).collect())
            }
            other => Err(Error::unexpected(&other)),
        })
    }

    /// The ensemble's configuration: its text, one server a line and the version last, and the Stat
    /// of `/zookeeper/config`.
    pub fn config(&self) -> Call<(Bytes, Stat)> {
        self.unrooted().get(CONFIG_PATH)
    }

    /// The same, with a watch that fires when the configuration changes.
    pub fn config_watched(&self) -> Call<(Bytes, Stat, OneshotWatcher)> {
        self.unrooted().get_watched(CONFIG_PATH)
    }

    /// Changes the ensemble if its configuration has this version, the last line of
    /// [`config`](Self::config); returns the new configuration. It takes a right to write
    /// `/zookeeper/config`, which no client has by default (protocol §15.4).
    pub fn reconfig(&self, change: ConfigChange<'_>, version: Version<i64>) -> Call<(Bytes, Stat)> {
        let (joining, leaving, members) = match change {
            ConfigChange::Some { joining, leaving } => (given(joining), given(leaving), None),
            ConfigChange::All(members) => (None, None, Some(members.to_owned())),
        };
        let body = |config_id| ReconfigRequest {
            joining_servers: joining,
            leaving_servers: leaving,
            new_members: members,
            config_id,
        };
        self.ask_at(version, |version| Request::Reconfig(body(version)), data)
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
