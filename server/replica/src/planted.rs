//! `planted!("name")`: whether a bug is planted that a suite must find (`docs/testing.md`).
//!
//! Without `--cfg zoolet_planted` it is `false`, and nothing of the bug or its name is compiled. It is
//! no feature, because the published package must not have one: the switch is a file outside of it.

#[cfg(all(zoolet_planted, not(debug_assertions)))]
compile_error!("`zoolet_planted` is for tests: it must not be in an optimized build");

#[cfg(zoolet_planted)]
#[allow(clippy::disallowed_methods, reason = "it is compiled for tests of the suites alone")]
#[path = "../../../tests/planted/switch.rs"]
mod switch;

#[cfg(zoolet_planted)]
pub(crate) use switch::is;

#[cfg(zoolet_planted)]
macro_rules! planted {
    ($bug:literal) => {
        crate::planted::is($bug)
    };
}

#[cfg(not(zoolet_planted))]
macro_rules! planted {
    ($bug:literal) => {
        false
    };
}
