//! The client port under bad, large and slow requests (protocol §1.3, §1.4, §14):
//! whatever one of them sends, the server lives, its memory stays bounded, and another session
//! keeps its ephemeral znode, its watch and its answers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test of real sockets in real time fails by panicking"
)]

mod bad_input;
mod descriptors;
mod expensive_requests;
mod fair_shares;
mod four_letter_words;
mod resource_limits;
mod slow_readers;
mod support;
