//! How numbers look in the console's JSON. Those of 64 bits are text: JavaScript has 53.

use std::fmt::Write;

use serde_json::{Value, json};
use zoolet_client::{Acl, SessionId, Stat};
use zoolet_survey::permissions;

/// Returns bytes as digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a String takes everything");
        out
    })
}

/// Returns the numbers of a znode.
pub(crate) fn stat(stat: &Stat) -> Value {
    let owner = stat.ephemeral_owner;
    json!({
        "czxid": stat.czxid.to_string(),
        "mzxid": stat.mzxid.to_string(),
        "pzxid": stat.pzxid.to_string(),
        "ctimeMs": stat.ctime,
        "mtimeMs": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeralOwner": (owner != SessionId::NONE).then(|| owner.to_string()),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
    })
}

/// Returns an ACL, each entry as scheme, id and letters.
pub(crate) fn acl(acl: &[Acl]) -> Value {
    let entry = |entry: &Acl| {
        json!({
            "scheme": entry.id.scheme.as_deref().unwrap_or_default(),
            "id": entry.id.id.as_deref().unwrap_or_default(),
            "perms": permissions::letters(entry.perms),
        })
    };
    acl.iter().map(entry).collect()
}

/// Reads the letters of permissions; `None` for another one, or for none at all.
pub(crate) fn permissions(letters: &str) -> Option<i32> {
    permissions::parse(letters).filter(|all| *all != 0)
}

#[cfg(test)]
mod tests {
    use zoolet_client::perms;

    use super::*;

    #[test]
    fn an_acl_gives_some_permission() {
        assert_eq!(permissions("r"), Some(perms::READ));
        assert_eq!((permissions(""), permissions("rx")), (None, None));
        assert_eq!(hex(&[0, 255]), "00ff");
    }
}
