//! Many seeds: each is a process of its own, so that a run is repeatable whatever ran before it, and
//! one that hangs or dies takes none with it.

mod child;
mod ledger;
mod minimize;
mod night;

pub use self::child::{Child, Ended, arguments, limit_processor_time};
pub use self::minimize::{Size, minimize};
pub use self::night::{Night, night};
