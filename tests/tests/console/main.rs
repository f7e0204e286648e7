//! The web console in headless Chromium: `interop/console` drives every page, looks at accessibility
//! with axe in both schemes of colors, and keeps pictures in `target/console-screenshots`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::{SUPER_DIGEST, Servers};
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::up::{self, Up};
use zoolet_tests::zoolet;

/// The superuser of `SUPER_DIGEST`.
const SUPERUSER: &str = "super:test";

/// What the suite needs.
const NEEDS: [&str; 3] = ["chromium", "node", "npm"];

/// Three servers behind `zoolet console`, of which one is killed.
#[test]
fn every_page_of_an_ensemble() {
    if !tools::require_foreign("console", &NEEDS).unwrap() {
        return;
    }
    let (_lease, first) = PortLease::take_in_a_row(6).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut command = up::on_ports(3, first).unwrap();
    command.args(["--http-port", &(first + 3).to_string(), "--data-dir"]);
    command.arg(directory.path()).stderr(Stdio::null());
    let _up = Up::spawn(&mut command, 3).unwrap();
    let addresses = |ports: std::ops::Range<u16>| {
        ports.map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
    };
    let (clients, http) = (addresses(first..first + 3), addresses(first + 3..first + 6));
    let console = Console::start(&["--connect", &clients, "--http", &http]);
    let mut browser = browser(&console.url, &clients, "ensemble").unwrap();
    browser.env("ZOOLET_CTL", zoolet::binary().unwrap()).env("DATA_DIR", directory.path());
    run(browser);
}

/// The console at the HTTP port of a server, with a superuser who ends a session.
#[test]
fn every_page_at_the_port_of_a_server() {
    if !tools::require_foreign("console_port", &NEEDS).unwrap() {
        return;
    }
    let lease = PortLease::take(1).unwrap();
    let port = lease.ports().first().copied().unwrap();
    let servers = Servers::zoolet()
        .super_digest(SUPER_DIGEST)
        .property("admin.serverAddress", "127.0.0.1")
        .property("admin.serverPort", &port.to_string())
        .property("admin.enableServer", "true")
        .property("admin.console.logins", "true");
    let servers = servers.start().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let mut browser = browser(&url, &servers.connect_string(), "server").unwrap();
    browser.env("SUPERUSER", SUPERUSER);
    run(browser);
}

/// What the client protocol and four-letter words alone show, of the other server.
#[test]
fn every_page_of_apache() {
    if !tools::require_foreign("console_apache", &[&NEEDS[..], &["java", "mvn"]].concat()).unwrap()
    {
        return;
    }
    let servers = Servers::apache().start().unwrap();
    let console = Console::start(&["--connect", &servers.connect_string()]);
    run(browser(&console.url, &servers.connect_string(), "apache").unwrap());
}

/// A running `zoolet console`, which ends with this.
struct Console {
    process: Child,
    url: String,
}

impl Console {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(zoolet::binary().unwrap());
        command.args(["console", "--listen", "127.0.0.1:0", "--until-stdin-ends"]).args(words);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("console: ").unwrap();
        let url = url.strip_suffix("/console/").unwrap().to_owned();
        Self { process, url }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Installs the locked packages once, beside a copy of the programs.
fn browser(url: &str, servers: &str, name: &str) -> Result<Command, ToolError> {
    let source = tools::interop_dir("console");
    let files = [
        "package.json",
        "package-lock.json",
        "changes.js",
        "elections.js",
        "guards.js",
        "harness.js",
        "main.js",
        "pages.js",
        "scene.js",
    ];
    let inputs: Vec<PathBuf> = files.iter().map(|file| source.join(file)).collect();
    let directory = tools::prepare_once("console-suite", &inputs, |directory| {
        let install = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
        tools::run(Command::new("npm").args(install).current_dir(directory))
    })?;
    let mut command = Command::new("node");
    command
        .arg(directory.join("main.js"))
        .env("CONSOLE_URL", url)
        .env("ZK_CONNECT", servers)
        .env("CHROMIUM", tools::find_program("chromium").unwrap_or_default())
        .env("SHOTS", tools::target_dir().join("console-screenshots").join(name));
    Ok(command)
}

fn run(mut command: Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("OK "), "{said}\n{errors}");
}
