//! The program, as it is called: `make planted` runs it, too, with bugs in the servers.

use std::process::Command;

/// What a short run takes: one server, one client, no faults to speak of.
const SHORT: [&str; 3] = ["--servers=1", "--clients=1", "--secs=1"];

#[test]
fn seeds_that_keep_all_promises_do_not_stop_a_night() {
    let output = Command::new(env!("CARGO_BIN_EXE_zoolet-sim"))
        .args(["--night=600", "--from=1", "--seeds=2", "--twice=0", "--stop-at=P"])
        .args(SHORT)
        .output()
        .expect("the program is built");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("2 seeds from 1: "), "{text}");
    assert!(text.contains("no promise was broken"), "{text}");
}
