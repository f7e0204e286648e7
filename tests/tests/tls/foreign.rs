//! Clients that others have written, over TLS, on servers that read an Apache `zoo.cfg`.

use std::process::{Command, Stdio};

use zoolet_tests::servers::Servers;
use zoolet_tests::tools::ToolError;
use zoolet_tests::{apache, foreign, kazoo, programs, tools};

use super::authority::Authority;
use super::with_client_stores;

fn servers(authority: &Authority) -> Servers {
    let servers = with_client_stores(Servers::zoolet().servers(3), authority);
    servers.property("client.portUnification", "true").start().unwrap()
}

#[test]
fn kazoo_connects_by_tls() {
    if !tools::require_foreign("kazoo over TLS", &["python3"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    authority.issue("client", &[], |_| {});
    let mut servers = servers(&authority);
    let mut program = Command::new(kazoo::python().unwrap());
    program
        .arg(tools::interop_dir("tls").join("kazoo_tls.py"))
        .env("TLS_CA", authority.path("ca.pem"))
        .env("TLS_CERT", authority.path("client.crt"))
        .env("TLS_KEY", authority.path("client.key"));
    foreign::run_program(&mut program, &mut servers).unwrap();
}

/// The whole suites of other clients, whose failovers connect by TLS again and again. No client has an
/// identity by certificate here: the suites compare ACLs with those of clients without TLS.
fn passes_its_suite(
    suite: &str,
    needs: &[&str],
    program: impl Fn(&Authority) -> Result<Command, ToolError>,
) {
    if !tools::require_foreign(suite, needs).unwrap() {
        return;
    }
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    authority.issue("client", &[], |_| {});
    other.issue("client", &[], |_| {});
    let mut stranger = match program(&other) {
        Ok(program) => program,
        Err(error) => return tools::skip_unless_required(suite, error).unwrap(),
    };
    let servers = with_client_stores(Servers::zoolet().servers(3), &authority)
        .property("client.portUnification", "true")
        .property("ssl.clientAuth", "none")
        // Programs wait until a container has gone.
        .property("znode.container.checkIntervalMs", "1000");
    let mut servers = servers.start().unwrap();
    // The port speaks plain text, too: this shows that the program does not.
    let refused = foreign::run_program(stranger.env("ZK_KIND", "zoolet"), &mut servers);
    assert!(refused.is_err(), "it trusts a server that its authority does not know");
    let mut program = program(&authority).unwrap();
    let report = foreign::run_program(program.env("ZK_KIND", "zoolet"), &mut servers).unwrap();
    assert_eq!(report.losses, 2, "the server in use, then the leader");
}

#[test]
fn go_passes_its_suite_by_tls() {
    passes_its_suite("go-zookeeper over TLS", &["go"], |authority| {
        let mut program = Command::new(programs::go()?);
        program
            .env("TLS_CA", authority.path("ca.pem"))
            .env("TLS_CERT", authority.path("client.crt"))
            .env("TLS_KEY", authority.path("client.key"));
        Ok(program)
    });
}

#[test]
fn the_c_client_passes_its_suite_by_tls() {
    let needs = ["gcc", "cmake", "make", "npm", "tar"];
    passes_its_suite("the C client over TLS", &needs, |authority| {
        let mut program = Command::new(programs::c_tls()?);
        let files = ["ca.pem", "client.crt", "client.key"].map(|file| authority.text(file));
        program.env("TLS_FILES", files.join(","));
        Ok(program)
    });
}

#[test]
fn curator_passes_its_suite_by_tls() {
    let needs = ["java", "mvn", "keytool", "openssl"];
    passes_its_suite("curator over TLS", &needs, |authority| {
        programs::curator("Main", &java_options(authority)?)
    });
}

/// What a JVM is started with, so that its clients use TLS. They have a key store that OpenSSL has
/// written in PKCS#12, and trust one of `keytool` in JKS.
fn java_options(authority: &Authority) -> Result<Vec<String>, ToolError> {
    tools::run(
        Command::new("openssl")
            .args(["pkcs12", "-export", "-passout", "pass:secret", "-name", "client"])
            .args(["-in", &authority.text("client.crt"), "-inkey", &authority.text("client.key")])
            .args(["-out", &authority.text("client.p12")]),
    )?;
    tools::run(
        Command::new("keytool")
            .args(["-importcert", "-noprompt", "-alias", "ca", "-storepass", "secret"])
            .args(["-file", &authority.text("ca.pem"), "-storetype", "JKS"])
            .args(["-keystore", &authority.text("trust.jks")]),
    )?;
    let socket = "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty";
    Ok(vec![
        "-Dzookeeper.client.secure=true".to_owned(),
        socket.to_owned(),
        format!("-Dzookeeper.ssl.keyStore.location={}", authority.text("client.p12")),
        "-Dzookeeper.ssl.keyStore.password=secret".to_owned(),
        format!("-Dzookeeper.ssl.trustStore.location={}", authority.text("trust.jks")),
        "-Dzookeeper.ssl.trustStore.password=secret".to_owned(),
    ])
}

#[test]
fn zkcli_connects_by_tls() {
    let needs = ["java", "mvn", "keytool", "openssl"];
    if !tools::require_foreign("zkCli over TLS", &needs).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    authority.issue("client", &[], |_| {});
    let servers = servers(&authority);
    let output = apache::java(&apache::classpath().unwrap())
        .args(java_options(&authority).unwrap())
        .args(["org.apache.zookeeper.ZooKeeperMain", "-server", &servers.connect_string()])
        .arg("whoami")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("x509: CN=client"), "{said}\n{errors}");
}
