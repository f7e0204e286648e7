//! The tree: looking at znodes, finding and changing them.

mod delete;
mod read;
mod search;
mod write;

pub(crate) use delete::{delete, subtree};
pub(crate) use read::{children, znode};
pub(crate) use search::search;
pub(crate) use write::{create, set_acl, set_data};
