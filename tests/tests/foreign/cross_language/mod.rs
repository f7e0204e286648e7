//! Programs of several languages and libraries on the same locks.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test ends at the first thing that goes wrong, and prints what it has seen"
)]

mod curator;
mod lock_programs;
mod multi_language;
mod recipes;
