//! The harness of the suites.

pub mod apache;
pub mod foreign;
pub mod four_letter;
pub mod ports;
pub mod process;
pub mod tools;
