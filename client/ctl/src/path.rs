//! What is checked of a path before a server is asked.

use crate::error::{CtlError, Exit};

pub(crate) use zoolet_survey::path::join;

/// Refuses a path that no server would take, with the reason.
pub(crate) fn check(path: &str) -> Result<(), CtlError> {
    let wrong = |why: &str| Err(CtlError::new(Exit::InvalidInput, format!("path {path:?} {why}")));
    let Some(names) = path.strip_prefix('/') else {
        return wrong("is relative: paths start with /");
    };
    if path == "/" {
        return Ok(());
    }
    for name in names.split('/') {
        match name {
            "" if names.ends_with('/') => return wrong("ends with /"),
            "" => return wrong("has an empty name"),
            "." | ".." => return wrong("has a relative name"),
            _ => {}
        }
    }
    if path.contains('\0') {
        return wrong("has a null character");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_paths_are_refused_by_name() {
        for (path, why) in [
            ("", "relative"),
            ("a/b", "relative"),
            ("/a/", "ends with"),
            ("//a", "empty name"),
            ("/a/../b", "relative name"),
            ("/a\0", "null"),
        ] {
            let error = check(path).unwrap_err();
            assert_eq!(error.exit, Exit::InvalidInput);
            assert!(error.message.contains(why), "{path}: {error}");
        }
        for good in ["/", "/a", "/a/b c", "/..."] {
            assert!(check(good).is_ok(), "{good}");
        }
    }
}
