//! Paths as text: validation and splitting (protocol §6.1). Nothing here looks at the tree.

use zoolet_jute::ErrorCode;

/// The znodes that no one can delete (protocol §2.2).
pub(super) const CONFIG: &str = "/zookeeper/config";
/// Quota znodes stand below it (protocol §12).
pub(super) const QUOTA: &str = "/zookeeper/quota";
const BUILT_IN: [&str; 4] = ["/", "/zookeeper", QUOTA, CONFIG];

/// Checks a path by the rules for what may be created. Apache looks at UTF-16 code units; a
/// character beyond U+FFFF is two surrogates there, and those are forbidden.
pub(super) fn validate(path: &str) -> Result<(), ErrorCode> {
    let Some(rest) = path.strip_prefix('/') else { return Err(ErrorCode::BadArguments) };
    if rest.is_empty() {
        return Ok(());
    }
    let is_bad = |segment: &str| matches!(segment, "" | "." | "..");
    if rest.split('/').any(is_bad) || rest.chars().any(is_forbidden) {
        return Err(ErrorCode::BadArguments);
    }
    Ok(())
}

const fn is_forbidden(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{fff0}'..='\u{ffff}'
        | '\u{10000}'..)
}

/// Splits at the last slash into the parent's path, which is empty for the root, and the name.
/// Only what the first look of create and delete refuses is an error: no slash, or a NUL.
pub(super) fn split(path: &str) -> Result<(&str, &str), ErrorCode> {
    let (parent, name) = path.rsplit_once('/').ok_or(ErrorCode::BadArguments)?;
    if path.contains('\0') { Err(ErrorCode::BadArguments) } else { Ok((parent, name)) }
}

/// Splits what is to be deleted; built-in znodes are refused.
pub(super) fn split_deletable(path: &str) -> Result<(&str, &str), ErrorCode> {
    if BUILT_IN.contains(&path) { Err(ErrorCode::BadArguments) } else { split(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_judged_as_protocol_6_1_says() {
        let good = ["/", "/a", "/a/b", "/...", "/.x", "/a b", "/\u{f900}", "/\u{a0}", "/zookeeper"];
        for path in good {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
        let bad = [
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/\0",
            "/a\u{1}",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{e000}",
            "/\u{f8ff}",
            "/\u{fff0}",
            "/\u{fffd}",
            "/\u{1f600}",
        ];
        for path in bad {
            assert_eq!(validate(path), Err(ErrorCode::BadArguments), "{path:?}");
        }
    }

    #[test]
    fn built_in_znodes_cannot_be_deleted_protocol_2_2() {
        for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "", "x", "/a\0"] {
            assert_eq!(split_deletable(path), Err(ErrorCode::BadArguments), "{path:?}");
        }
        assert_eq!(split_deletable("/a/b"), Ok(("/a", "b")));
        assert_eq!(split_deletable("/a"), Ok(("", "a")));
        assert_eq!(split_deletable("/a/"), Ok(("/a", "")));
    }
}
