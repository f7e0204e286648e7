//! The history of a server: what has happened to znodes, sessions and locks (`docs/history.md`).
//! [`super::Reports::history`] looks into it.

pub use zoolet_history::{
    Entry, EntryKind, Found, Gap, GapReason, Query, QueryError, Subject, Turn, TurnEnd, turns,
};
pub use zoolet_jute::{Id as Identity, SessionId, Zxid};
pub use zoolet_replica::state::LockPlace;
pub use zoolet_replica::{HistoryCause, HistoryChange, HistoryEvent};
