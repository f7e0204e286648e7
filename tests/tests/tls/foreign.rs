//! Clients that others have written, over TLS, on servers that read an Apache `zoo.cfg`.

use std::process::{Command, Stdio};

use zoolet_tests::servers::Servers;
use zoolet_tests::{apache, foreign, kazoo, tools};

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

/// zkCli has a key store that `keytool` has written, and trusts one in PKCS#12.
#[test]
fn zkcli_connects_by_tls() {
    let needs = ["java", "mvn", "keytool", "openssl"];
    if !tools::require_foreign("zkCli over TLS", &needs).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    authority.issue("client", &[], |_| {});
    let servers = servers(&authority);
    tools::run(
        Command::new("openssl")
            .args(["pkcs12", "-export", "-passout", "pass:secret", "-name", "client"])
            .args(["-in", &authority.text("client.crt"), "-inkey", &authority.text("client.key")])
            .args(["-out", &authority.text("client.p12")]),
    )
    .unwrap();
    tools::run(
        Command::new("keytool")
            .args(["-importcert", "-noprompt", "-alias", "ca", "-storepass", "secret"])
            .args(["-file", &authority.text("ca.pem"), "-storetype", "JKS"])
            .args(["-keystore", &authority.text("trust.jks")]),
    )
    .unwrap();
    let output = apache::java(&apache::classpath().unwrap())
        .args(["-cp", apache::classpath().unwrap().to_str().unwrap()])
        .arg("-Dzookeeper.client.secure=true")
        .arg("-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty")
        .arg(format!("-Dzookeeper.ssl.keyStore.location={}", authority.text("client.p12")))
        .arg("-Dzookeeper.ssl.keyStore.password=secret")
        .arg(format!("-Dzookeeper.ssl.trustStore.location={}", authority.text("trust.jks")))
        .arg("-Dzookeeper.ssl.trustStore.password=secret")
        .args(["org.apache.zookeeper.ZooKeeperMain", "-server", &servers.connect_string()])
        .arg("whoami")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("x509: CN=client"), "{said}\n{errors}");
}
