//! Paths as text (protocol §6).

use zoolet_jute::ErrorCode;

/// The znode of the ensemble's members.
pub const CONFIG: &str = "/zookeeper/config";

/// Quotas are below this znode.
pub const QUOTA: &str = "/zookeeper/quota";

const BUILT_IN: [&str; 4] = ["/", "/zookeeper", QUOTA, CONFIG];

/// Refuses what must not be created.
pub(super) fn validate(path: &str) -> Result<(), ErrorCode> {
    let is_forbidden = |c: char| {
        let number = u32::from(c);
        number < 0x20
            || (0x7f..=0x9f).contains(&number)
            || (0xd800..=0xf8ff).contains(&number)
            || number >= 0xfff0
    };
    let has_bad_segment = |rest: &str| {
        !rest.is_empty() && rest.split('/').any(|one| one.is_empty() || one == "." || one == "..")
    };
    match path.strip_prefix('/') {
        Some(rest) if !has_bad_segment(rest) && !path.chars().any(is_forbidden) => Ok(()),
        Some(_) | None => Err(ErrorCode::BadArguments),
    }
}

/// The text before the last slash, which is empty for the root, and the name behind it. Without a
/// slash, or with a NUL, it is refused: the first look of create and delete.
pub(super) fn split(path: &str) -> Result<(&str, &str), ErrorCode> {
    if path.contains('\0') {
        return Err(ErrorCode::BadArguments);
    }
    path.rsplit_once('/').ok_or(ErrorCode::BadArguments)
}

/// The same for what is to be deleted.
pub(super) fn split_deletable(path: &str) -> Result<(&str, &str), ErrorCode> {
    if BUILT_IN.contains(&path) { Err(ErrorCode::BadArguments) } else { split(path) }
}

/// The path of the znode above; `None` for the root.
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

/// The last part of a path.
pub fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
