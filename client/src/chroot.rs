//! A part of the tree that a client takes for the whole.

use std::sync::Arc;

/// The znode that a client calls `/`. Empty for the real root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chroot(Option<Arc<str>>);

impl Chroot {
    /// Checks the path of a chroot; `/` is the root itself.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        if path == "/" {
            return Some(Self(None));
        }
        let names = path.strip_prefix('/')?;
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        names.split('/').all(is_name).then(|| Self(Some(path.into())))
    }

    /// A chroot below this one.
    pub(crate) fn below(&self, path: &str) -> Option<Self> {
        let inner = Self::parse(path)?;
        match inner.0 {
            None => Some(self.clone()),
            Some(path) => Some(Self(Some(self.to_server(&path).into()))),
        }
    }

    /// The path as a client calls it.
    pub(crate) fn path(&self) -> &str {
        self.0.as_deref().unwrap_or("/")
    }

    /// The path that servers know. An invalid one is left to them to refuse.
    pub(crate) fn to_server(&self, path: &str) -> String {
        match &self.0 {
            Some(root) if path == "/" => root.to_string(),
            Some(root) if path.starts_with('/') => format!("{root}{path}"),
            Some(_) | None => path.to_owned(),
        }
    }

    /// The path that the client knows; `None` for one outside.
    pub(crate) fn to_client(&self, path: String) -> Option<String> {
        let Some(root) = &self.0 else { return Some(path) };
        match path.strip_prefix(root.as_ref())? {
            "" => Some("/".to_owned()),
            inner if inner.starts_with('/') => Some(inner.to_owned()),
            _ => None,
        }
    }

    /// The path that the client knows. Servers answer with none outside of what was asked about.
    pub(crate) fn to_client_or_as_it_is(&self, path: String) -> String {
        self.to_client(path.clone()).unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_in_and_comes_out_again() {
        let chroot = Chroot::parse("/app").unwrap();
        for (client, server) in [("/", "/app"), ("/a", "/app/a"), ("/a/b", "/app/a/b")] {
            assert_eq!(chroot.to_server(client), server);
            assert_eq!(chroot.to_client(server.to_owned()).as_deref(), Some(client));
        }
        assert_eq!(chroot.to_client("/apple".into()), None);
        assert_eq!(chroot.to_client("/b".into()), None);
    }

    #[test]
    fn an_invalid_path_does_not_leave_the_chroot() {
        let chroot = Chroot::parse("/app").unwrap();
        assert_eq!(chroot.to_server("le"), "le", "servers refuse it");
        assert_eq!(chroot.to_server(""), "");
    }

    #[test]
    fn the_root_changes_nothing() {
        let root = Chroot::parse("/").unwrap();
        assert_eq!((root.to_server("/a"), root.path()), ("/a".into(), "/"));
        assert_eq!(root.to_client("/a".into()).as_deref(), Some("/a"));
    }

    #[test]
    fn a_chroot_is_resolved_below_another() {
        let outer = Chroot::parse("/a").unwrap();
        assert_eq!(outer.below("/b/c").unwrap().path(), "/a/b/c");
        assert_eq!(outer.below("/").unwrap(), outer);
    }

    #[test]
    fn a_bad_chroot_is_refused() {
        for bad in ["", "a", "/a/", "//", "/a//b", "/..", "/a/./b", "/a\0"] {
            assert_eq!(Chroot::parse(bad), None, "{bad:?}");
        }
    }
}
