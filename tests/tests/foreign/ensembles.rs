//! A client's program on an ensemble of three, of either kind.

use std::process::Command;

use zoolet_tests::foreign::{self, Ensemble};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};

/// How often containers are looked for, in ms: programs wait for their end.
const CONTAINERS_MS: &str = "1000";

/// Runs a program on Apache ZooKeeper, which proves the program, in the tier `apache`.
pub(crate) fn on_apache(
    suite: &str,
    needs: &[&str],
    program: impl FnOnce() -> Result<Command, ToolError>,
) {
    if tools::is_due_on_apache(suite, needs).unwrap()
        && let Some(program) = built(suite, program)
    {
        let interval = format!("-Dznode.container.checkIntervalMs={CONTAINERS_MS}");
        let mut servers = Servers::apache().servers(3).jvm_option(&interval).start().unwrap();
        run(program, &mut servers, "apache");
    }
}

/// Runs a program on zoolet, which proves zoolet.
pub(crate) fn on_zoolet(
    suite: &str,
    needs: &[&str],
    program: impl FnOnce() -> Result<Command, ToolError>,
) {
    if tools::require_foreign(suite, needs).unwrap()
        && let Some(program) = built(suite, program)
    {
        let zoolet = Servers::zoolet().servers(3);
        let zoolet = zoolet.property("znode.container.checkIntervalMs", CONTAINERS_MS);
        run(program, &mut zoolet.start().unwrap(), "zoolet");
    }
}

/// The program; `None` where something is missing and may be.
fn built(suite: &str, program: impl FnOnce() -> Result<Command, ToolError>) -> Option<Command> {
    match program() {
        Ok(program) => Some(program),
        Err(error) => {
            tools::skip_unless_required(suite, error).unwrap();
            None
        }
    }
}

/// Runs it, and tells it whose servers it meets.
fn run(mut program: Command, servers: &mut dyn Ensemble, kind: &str) {
    let report = foreign::run_program(program.env("ZK_KIND", kind), servers).unwrap();
    assert_eq!(report.losses, 2, "the server in use, then the leader");
}
