//! The harness of the suites.

pub mod apache;
pub mod bench;
pub mod builder;
pub mod chaos;
pub mod compare;
pub mod contenders;
pub mod faults;
pub mod foreign;
pub mod four_letter;
pub mod http;
pub mod kazoo;
pub mod mount;
pub mod nemesis;
pub mod oracle;
pub mod planted;
pub mod planted_seeds;
pub mod ports;
pub mod process;
pub mod programs;
pub mod raw;
pub mod rotation;
pub mod scenes;
pub mod servers;
pub mod slow_disk;
pub mod slow_link;
pub mod tools;
pub mod up;
pub mod wait;
pub mod wire_recorder;
pub mod with_http;
pub mod wrong_clock;
pub mod zk_cli;
pub mod zoolet;
pub mod zooletctl;

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;
