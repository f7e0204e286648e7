//! How numbers look in the console's JSON. Those of 64 bits are text: JavaScript has 53.

use std::fmt::Write;

use serde_json::{Value, json};
use zoolet_client::{Acl, SessionId, Stat, perms};

/// The letters of permissions, in the order in which `ZooKeeper` writes them.
const PERMISSIONS: [(char, i32); 5] = [
    ('c', perms::CREATE),
    ('d', perms::DELETE),
    ('r', perms::READ),
    ('w', perms::WRITE),
    ('a', perms::ADMIN),
];

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
            "perms": letters(entry.perms),
        })
    };
    acl.iter().map(entry).collect()
}

fn letters(permissions: i32) -> String {
    let held = PERMISSIONS.iter().filter(|(_, bit)| permissions & bit != 0);
    held.map(|(letter, _)| letter).collect()
}

/// Reads the letters of permissions; `None` for another one, or for none at all.
pub(crate) fn permissions(letters: &str) -> Option<i32> {
    let bit = |letter: char| PERMISSIONS.iter().find(|(of, _)| *of == letter).map(|(_, bit)| bit);
    let all = letters.chars().try_fold(0, |all, letter| Some(all | bit(letter)?))?;
    (all != 0).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_letters() {
        assert_eq!(letters(perms::ALL), "cdrwa");
        assert_eq!(permissions("cdrwa"), Some(perms::ALL));
        assert_eq!(permissions("r"), Some(perms::READ));
        assert_eq!((permissions(""), permissions("rx")), (None, None));
        assert_eq!(hex(&[0, 255]), "00ff");
    }
}
