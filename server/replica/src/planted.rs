//! `planted!("name")`: whether a bug is planted that a suite must find (`docs/testing.md`).
//!
//! Without the feature `planted` it is `false`, and nothing of the bug or its name is compiled.

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!("the feature `planted` is for tests: it must not be in an optimized build");

#[cfg(feature = "planted")]
macro_rules! planted {
    ($bug:literal) => {
        zoolet_planted::is($bug)
    };
}

#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($bug:literal) => {
        false
    };
}
