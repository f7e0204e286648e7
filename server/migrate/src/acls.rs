//! The ACLs of a tree, each kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

use zoolet_jute::Acl;

/// An ACL of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclPlace(usize);

#[derive(Clone, Debug, Default)]
pub(crate) struct Acls {
    list: Vec<Arc<[Acl]>>,
    places: BTreeMap<Arc<[Acl]>, AclPlace>,
}

impl Acls {
    pub(crate) fn place(&mut self, acl: Vec<Acl>) -> AclPlace {
        let acl: Arc<[Acl]> = acl.into();
        let next = AclPlace(self.list.len());
        *self.places.entry(acl).or_insert_with_key(|acl| {
            self.list.push(Arc::clone(acl));
            next
        })
    }

    /// All of them, by their places.
    pub(crate) fn list(&self) -> &[Arc<[Acl]>] {
        &self.list
    }
}

impl AclPlace {
    pub(crate) fn of<T>(self, list: &[T]) -> Option<&T> {
        list.get(self.0)
    }
}
