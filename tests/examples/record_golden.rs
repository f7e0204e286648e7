//! Records the golden vectors of `jute/tests/golden` anew: real clients on a real Apache
//! `ZooKeeper`, through the recording doors of `wire_recorder.rs`. `make golden`, or with the names of
//! single clients: `cargo run -p zoolet-tests --example record_golden -- java go`.

#![allow(clippy::print_stdout, reason = "a program for the command line")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use zoolet_tests::apache;
use zoolet_tests::servers::Servers;
use zoolet_tests::wire_recorder::WireRecorder;
use zoolet_tests::{foreign, kazoo, programs, tools};

const CLIENTS: [(&str, usize); 4] = [("java", 1), ("kazoo", 1), ("c", 3), ("go", 3)];

fn main() -> Result<(), Box<dyn Error>> {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    for (client, servers) in CLIENTS {
        if chosen.is_empty() || chosen.iter().any(|name| name == client) {
            record(client, servers)?;
        }
    }
    Ok(())
}

fn record(client: &str, servers: usize) -> Result<(), Box<dyn Error>> {
    let (title, mut command) = program(client)?;
    let builder = Servers::apache().servers(servers);
    let builder = builder.jvm_option("-Dznode.container.checkIntervalMs=1000");
    let mut recorder = WireRecorder::open(builder.start()?)?;
    let report = foreign::run_program(command.env("ZK_KIND", "apache"), &mut recorder)?;
    let text = recorder.golden(&format!("{title} and Apache ZooKeeper 3.9.5"));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jute/tests/golden");
    let file = golden.join(format!("{client}.hex"));
    fs::write(&file, &text)?;
    println!("{client}: {} checks, {} bytes in {}", report.checks, text.len(), file.display());
    Ok(())
}

/// What the client is, and how its program is started.
fn program(client: &str) -> Result<(&'static str, Command), Box<dyn Error>> {
    let golden = tools::interop_dir("golden");
    match client {
        "java" => {
            let mut command = apache::java(&apache::classpath()?);
            command.arg(golden.join("Golden.java"));
            Ok(("The Java client 3.9.5", command))
        }
        "kazoo" => {
            let mut command = Command::new(kazoo::python()?);
            command.arg(golden.join("golden.py"));
            Ok(("kazoo 2.11.0", command))
        }
        "c" => Ok(("The C client of libzookeeper-mt 3.8.0", Command::new(programs::c()?))),
        _ => Ok(("go-zookeeper 1.0.4", Command::new(programs::go()?))),
    }
}
