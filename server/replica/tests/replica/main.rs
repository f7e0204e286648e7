//! The replica through its one door: scripts of inputs, and what must come out.
//!
//! A script is a text in which every line is an input and the indented lines below it are the
//! outputs. `ZOOLET_REWRITE=1 cargo test -p zoolet-replica --test replica` writes the outputs anew;
//! read the diff.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests may fail"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the scripts are files, and the environment says whether to rewrite them"
)]

mod audit;
mod levels;
mod limits;
mod parse;
mod races;
mod script;
mod silences;
mod starts;
mod steps;
mod world;

use std::path::Path;

/// Runs every case of a file; a case begins with a line that starts with `#`.
fn check(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replica/scripts").join(name);
    let expected = std::fs::read_to_string(&file).expect("the script is there");
    let actual = script::run(&expected);
    if std::env::var_os("ZOOLET_REWRITE").is_some() {
        std::fs::write(&file, actual).expect("the script can be written");
        return;
    }
    let mut title = "";
    for (number, (expected, actual)) in expected.lines().zip(actual.lines()).enumerate() {
        if expected.starts_with('#') {
            title = expected;
        }
        assert_eq!(expected, actual, "{name}:{}, {title}", number + 1);
    }
    assert_eq!(expected, actual, "{name}: one of them ends early");
}

macro_rules! scripts {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            check(concat!(stringify!($name), ".txt"));
        }
    )*};
}

scripts!(
    order,
    watches,
    set_watches,
    sessions,
    expiry,
    identities,
    lost,
    snapshot,
    leading,
    read_only,
    reconfig
);
