//! The history of a server: what has happened to znodes, sessions and locks (`docs/history.md`).
//!
//! A server hands over what it applies, and never waits for the history: a thread puts the events
//! into blocks and the blocks into sled. When the queue is full, events are lost, and a gap in the
//! history says so. Nothing that a client was promised depends on it.
//!
//! There is no index of paths. A block has some hundred events and a small filter of what is in it,
//! so that a query looks at all filters and reads few blocks: an index would cost a search in a tree
//! for each event, more than all the rest.

mod batch;
mod block;
mod counts;
mod entries;
mod entry;
mod filter;
mod handover;
mod lock;
mod panics;
mod query;
mod store;
mod tail;
mod varint;
mod writer;

pub use counts::HistoryCounts;
pub use entry::{Entry, EntryKind, Gap, GapReason};
pub use lock::{Turn, TurnEnd, turns};
pub use query::{Found, Query, QueryError, Subject};
pub use writer::{History, HistoryOptions};
