//! Clients that others have written: the same program on both kinds of servers.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use zoolet_tests::builder::{Kind, ServersBuilder};
use zoolet_tests::servers::Servers;
use zoolet_tests::{apache, kazoo, tools, wait};

use super::with_users;

/// How long a line of a log may be on its way.
const SOON: Duration = Duration::from_secs(20);

/// Runs a program, and returns the lines that it prints.
fn run(command: &mut Command, servers: &Servers) -> Vec<String> {
    let output =
        command.env("ZK_CONNECT", servers.connect_string()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().last(), Some("end"), "{said}\n{errors}");
    said.lines().map(str::to_owned).collect()
}

fn start(servers: ServersBuilder, count: usize) -> Servers {
    let logger = "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.audit.Slf4jAuditLogger=info";
    let servers = with_users(servers.servers(count)).property("audit.enable", "true");
    servers.jvm_option(logger).start().unwrap()
}

/// The users that the audit log names for the creation of a znode.
fn creators(servers: &Servers, path: &str) -> Vec<String> {
    let users = match servers.kind() {
        Kind::Apache => wait::until(SOON, || {
            let log = servers.output(0).unwrap();
            let entry = log.lines().find(|line| {
                line.contains("operation=create\t") && line.contains(&format!("znode={path}\t"))
            });
            let (_, users) = entry?.split_once("user=")?;
            users.split('\t').next().map(str::to_owned)
        }),
        Kind::Zoolet => wait::until(SOON, || {
            let log = fs::read_to_string(servers.server_dir(0).join("data/audit-1.log")).ok()?;
            let mut entries = log.lines().filter_map(|line| {
                serde_json::from_str::<serde_json::Value>(line).ok().filter(|line| {
                    line["operation"] == "create"
                        && line["znode"] == path
                        && line["result"] == "success"
                })
            });
            entries.next()?["user"].as_str().map(str::to_owned)
        }),
    };
    let users = users.unwrap_or_else(|| panic!("the creation of {path} is not in the audit log"));
    let mut users: Vec<String> = users.split(',').map(str::to_owned).collect();
    users.sort_unstable();
    users
}

#[test]
fn kazoo_logs_in_as_on_apache() {
    if !tools::require_foreign("kazoo with SASL", &["python3", "java", "mvn"]).unwrap() {
        return;
    }
    let python = kazoo::python_with_sasl().unwrap();
    let run_on = |servers: ServersBuilder| {
        let servers = start(servers, 3);
        let program = tools::interop_dir("sasl").join("kazoo_sasl.py");
        let said = run(Command::new(&python).arg(program).env("PYTHONUTF8", "1"), &servers);
        (said, creators(&servers, "/bob"))
    };
    let (said, users) = run_on(Servers::zoolet());
    assert_eq!((said.clone(), users.clone()), run_on(Servers::apache()));
    assert_eq!(users, ["127.0.0.1", "bob"]);
    for line in [
        "login of bob: ok",
        "login of bob with wrong: refused",
        "login of mallory with wrong: refused",
        "None reads on 2: NoAuthError",
        "eve reads on 2: NoAuthError",
        "admin reads on 2: ok",
        "bob reads in it: ok",
        "None reads in it: NoAuthError",
    ] {
        assert!(said.iter().any(|said| said == line), "{line} is not in {said:#?}");
    }
}

#[test]
fn the_java_client_logs_in_as_on_apache() {
    if !tools::require_foreign("Java with SASL", &["java", "mvn"]).unwrap() {
        return;
    }
    let classpath = apache::classpath().unwrap();
    let run_on = |servers: ServersBuilder| {
        let servers = start(servers, 1);
        let directory = tools::interop_dir("sasl");
        let jaas = directory.join("client.jaas").display().to_string();
        let mut program = apache::java(&classpath);
        program
            .arg(format!("-Djava.security.auth.login.config={jaas}"))
            // In its FIPS mode, which is the default, the client has no DIGEST-MD5.
            .arg("-Dzookeeper.fips-mode=false")
            .arg(directory.join("Logins.java"));
        (run(&mut program, &servers), creators(&servers, "/java"))
    };
    let (said, users) = run_on(Servers::zoolet());
    assert_eq!((said.clone(), users.clone()), run_on(Servers::apache()));
    assert_eq!(users, ["127.0.0.1", "bob"]);
    for line in [
        "login of Wrong: AuthFailed",
        "login of Unknown: AuthFailed",
        "login of Bob: SaslAuthenticated",
        "null reads: NOAUTH",
        "Eve reads: NOAUTH",
        "Super reads: ok",
    ] {
        assert!(said.iter().any(|said| said == line), "{line} is not in {said:#?}");
    }
}
