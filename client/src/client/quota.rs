//! Quotas: limits on how much there is below a znode, kept in znodes of their own (protocol §12).

use std::fmt;
use std::str::FromStr;

use zoolet_jute::{Acl, CreateMode, ErrorCode};

use crate::{Client, Error, ErrorKind, Version};

/// Where the servers look for quotas.
const QUOTA_PATH: &str = "/zookeeper/quota";

/// The name of the znode with the limits, which clients write.
const LIMITS: &str = "zookeeper_limits";

/// The name of the znode with the usage, which servers write.
const STATS: &str = "zookeeper_stats";

const PERSISTENT: CreateMode = CreateMode::Persistent;

/// Limits on a subtree, or how much of them is used. A soft limit that is passed is logged by the
/// server; a hard one refuses the write with [`ErrorCode::QuotaExceeded`], where quotas are
/// enforced, and the soft one of its kind does not count then.
///
/// Exhaustive: programs construct it, and servers know these four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Znodes, the top one included.
    pub count: Option<u64>,
    /// Bytes of data.
    pub bytes: Option<u64>,
    /// Znodes, as a hard limit.
    pub count_hard: Option<u64>,
    /// Bytes of data, as a hard limit.
    pub bytes_hard: Option<u64>,
}

impl fmt::Display for Quota {
    /// As the znodes hold it. Older servers can read what precedes the stray `=`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |limit: Option<u64>| limit.and_then(|limit| i64::try_from(limit).ok());
        let written = |limit| number(limit).unwrap_or(-1);
        write!(f, "count={},bytes={}", written(self.count), written(self.bytes))?;
        let mut before = "=;";
        for (name, limit) in
            [("byteHardLimit", self.bytes_hard), ("countHardLimit", self.count_hard)]
        {
            if let Some(limit) = number(limit) {
                write!(f, "{before}{name}={limit}")?;
                before = ";";
            }
        }
        Ok(())
    }
}

impl FromStr for Quota {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::from(ErrorKind::Protocol(format!("invalid quota {text:?}")));
        let mut quota = Self::default();
        for part in text.split([',', ';']).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let value = match value.trim_end_matches('=') {
                "" | "-1" => None,
                number => Some(number.parse().map_err(|_| wrong())?),
            };
            match name {
                "count" => quota.count = value,
                "bytes" => quota.bytes = value,
                "countHardLimit" => quota.count_hard = value,
                "byteHardLimit" => quota.bytes_hard = value,
                // Servers ignore what they do not know.
                _ => {}
            }
        }
        Ok(quota)
    }
}

impl Client {
    /// The quota of a znode and how much of it is used; `None` if it has none of its own.
    pub async fn quota(&self, path: &str) -> Result<Option<(Quota, Quota)>, Error> {
        let (client, place) = self.quota_place(path);
        let limits = match client.get(&format!("{place}/{LIMITS}")).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(None),
            answer => parse(&answer?.0)?,
        };
        let (used, _) = client.get(&format!("{place}/{STATS}")).await?;
        Ok(Some((limits, parse(&used)?)))
    }

    /// Gives a znode a quota in place of the one that it may have. Of several above one another
    /// servers look at the deepest alone. The root cannot have one.
    pub async fn set_quota(&self, path: &str, quota: &Quota) -> Result<(), Error> {
        let (client, place) = self.quota_place(path);
        let limits = quota.to_string();
        let limits_path = format!("{place}/{LIMITS}");
        for (slash, _) in place.match_indices('/').skip(3) {
            client.create_unless_there(place.get(..slash).unwrap_or_default(), b"").await?;
        }
        client.create_unless_there(&place, b"").await?;
        // The znode with the limits begins the count; the server fills the other when it is made.
        match client.create_with_acl(&limits_path, limits.as_bytes(), Acl::open(), PERSISTENT).await
        {
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {
                client.set_data(&limits_path, limits.as_bytes(), Version::Any).await?;
            }
            created => drop(created?),
        }
        client.create_unless_there(&format!("{place}/{STATS}"), b"").await
    }

    /// Takes the quota of a znode away; returns whether it had one.
    pub async fn delete_quota(&self, path: &str) -> Result<bool, Error> {
        let (client, place) = self.quota_place(path);
        let both = client
            .transaction()
            .delete(&format!("{place}/{LIMITS}"), Version::Any)
            .delete(&format!("{place}/{STATS}"), Version::Any);
        match both.commit().await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(false),
            done => done?,
        };
        // The znodes above are of no use any more, unless they lead to other quotas.
        let mut above = place.as_str();
        while above.len() > QUOTA_PATH.len() {
            match client.delete(above, Version::Any).await.map_err(|error| (error.code(), error)) {
                Ok(()) | Err((Some(ErrorCode::NoNode), _)) => {}
                Err((Some(ErrorCode::NotEmpty), _)) => break,
                Err((_, error)) => return Err(error),
            }
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
        }
        Ok(true)
    }

    /// The znode above the two of a quota, and a handle without a chroot to reach it by.
    fn quota_place(&self, path: &str) -> (Self, String) {
        (self.unrooted(), format!("{QUOTA_PATH}{}", self.path(path)))
    }

    async fn create_unless_there(&self, path: &str, data: &[u8]) -> Result<(), Error> {
        match self.create_with_acl(path, data, Acl::open(), PERSISTENT).await {
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            created => created.map(|_| ()),
        }
    }
}

fn parse(data: &[u8]) -> Result<Quota, Error> {
    String::from_utf8_lossy(data).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_written_as_servers_read_them() {
        let soft = Quota { count: Some(5), ..Quota::default() };
        let hard = Quota { count_hard: Some(7), bytes_hard: Some(9), ..Quota::default() };
        for (quota, text) in [
            (soft, "count=5,bytes=-1"),
            (hard, "count=-1,bytes=-1=;byteHardLimit=9;countHardLimit=7"),
        ] {
            assert_eq!(quota.to_string(), text);
            assert_eq!(text.parse::<Quota>().unwrap(), quota);
        }
        assert_eq!("count=5".parse::<Quota>().unwrap(), soft);
        assert!("count=five,bytes=1".parse::<Quota>().unwrap_err().to_string().contains("quota"));
    }
}
