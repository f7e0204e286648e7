//! What servers do not start with, and what they say.

use std::fs;

use zoolet_tests::servers::Servers;
use zoolet_tests::tools;

use super::{PROVIDER, with_users};

const KERBEROS: &str = "com.sun.security.auth.module.Krb5LoginModule";

#[test]
fn what_would_leave_clients_unasked_is_an_error_as_in_apache() {
    if !tools::require_foreign("SASL beside Apache", &["java", "mvn"]).unwrap() {
        return;
    }
    let enforced = ("enforce.auth.enabled", "true");
    for properties in [
        vec![enforced],
        vec![enforced, ("enforce.auth.schemes", "kerberos")],
        vec![enforced, ("enforce.auth.schemes", "")],
    ] {
        for servers in [Servers::zoolet(), Servers::apache()] {
            let servers = properties
                .iter()
                .fold(with_users(servers), |servers, (key, value)| servers.property(key, value));
            assert!(servers.start().is_err(), "{properties:?}");
        }
    }
}

#[test]
fn a_wrong_file_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jaas.conf");
    let digest = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let too_many =
        format!("Server {{\n {digest} required\n user_a=\"secret\"\n user_a=\"x\";\n}};");
    for (text, line, why) in [
        (format!("Server {{\n {KERBEROS} required;\n}};"), 2, "Kerberos ("),
        (too_many, 4, "user a is there twice"),
        ("Server {".to_owned(), 1, "expected a login module or `}`"),
    ] {
        fs::write(&file, text).unwrap();
        let shown = file.display().to_string();
        let servers = Servers::zoolet().property("java.security.auth.login.config", &shown);
        let said = servers.start().unwrap_err().to_string();
        assert!(said.contains(&format!("{shown}:{line}: {why}")), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    fs::remove_file(&file).unwrap();
    let shown = file.display().to_string();
    let servers = Servers::zoolet().property("java.security.auth.login.config", &shown);
    let said = servers.start().unwrap_err().to_string();
    assert!(said.contains(&format!("{shown}: the file cannot be read")), "{said}");
}

#[test]
fn logins_are_logged_without_passwords() {
    let servers = with_users(Servers::zoolet()).property("authProvider.1", PROVIDER);
    let servers = servers.start().unwrap();
    let texts =
        ["server.jaas: sasl: others may read the passwords", "clients can log in by SASL users=6"];
    servers.until_logged(0, &texts).unwrap();
    let log = servers.output(0).unwrap();
    assert!(!log.contains("admin-secret"), "{log}");
}
