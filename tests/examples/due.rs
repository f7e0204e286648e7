//! Which of the longer tiers the gate runs for the newest commit: `due GROUP…` prints the names of the
//! groups that are due, one in a line. A group is a list of names with commas between them. Each day
//! has one group, in turn (`zoolet_tests::rotation`, docs/testing.md).

#![allow(clippy::print_stdout, reason = "the names are the result")]

use std::env;
use std::error::Error;
use std::path::Path;

use zoolet_tests::rotation::groups_due;

fn main() -> Result<(), Box<dyn Error>> {
    let groups: Vec<String> = env::args().skip(1).collect();
    if groups.is_empty() {
        return Err("expected groups of tiers, as in: due packages kazoo,fuzz".into());
    }
    for due in groups_due(Path::new(env!("CARGO_MANIFEST_DIR")), groups.len())? {
        for name in groups.get(due).into_iter().flat_map(|names| names.split(',')) {
            println!("{name}");
        }
    }
    Ok(())
}
