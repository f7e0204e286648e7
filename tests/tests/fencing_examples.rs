//! The client's examples of fencing run, and refuse the holder who has lost the lock.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use zoolet_tests::servers::Servers;
use zoolet_tests::tools;

#[test]
fn the_fencing_examples_refuse_a_stale_write() {
    let servers = Servers::zoolet().servers(3).start().unwrap();
    for example in ["fence_sql_row", "fence_http_call", "fence_file"] {
        let run = tools::example(example).unwrap().arg(servers.connect_string()).output().unwrap();
        let output = String::from_utf8_lossy(&run.stdout).into_owned();
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{example}: {errors}");
        assert!(
            output.contains("was refused") && output.ends_with("fenced\n"),
            "{example}: {output}"
        );
    }
}
