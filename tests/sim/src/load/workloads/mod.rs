//! Work that means something: what it reads and writes shows whether a promise was kept.

mod bank;
mod mirror;
mod queue;
mod random;
mod register;
mod sequence;

pub use self::bank::{ACCOUNTS, BALANCE, BANK_ROOT};
pub use self::mirror::MIRROR_ROOT;
pub use self::queue::QUEUE_ROOT;
pub use self::register::REGISTER_ROOT;
pub use self::sequence::SEQUENCE_ROOT;

pub(super) use self::bank::bank;
pub(super) use self::mirror::mirror;
pub(super) use self::queue::queue;
pub(super) use self::random::random;
pub(super) use self::register::register;
pub(super) use self::sequence::sequence;
