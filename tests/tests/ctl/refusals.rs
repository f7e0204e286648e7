//! What a server does not give, and what `zooletctl` says then.

use std::fs;

use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::{SUPER_DIGEST, Servers};

use crate::harness::{command, said};
use crate::json;

/// The identity of `SUPER_DIGEST`.
const SUPER: &str = "digest:super:test";

/// The name of the error stood alone, and no word of what would help.
#[test]
fn a_login_by_sasl_that_is_demanded_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let jaas = directory.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    fs::write(&jaas, format!("Server {{ {module} required user_bob=\"builder\"; }};")).unwrap();
    let servers = Servers::zoolet()
        .property("java.security.auth.login.config", jaas.to_str().unwrap())
        .property("enforce.auth.enabled", "true")
        .property("enforce.auth.schemes", "sasl,digest")
        .start()
        .unwrap();
    let ls = |words: &[&str]| said(&mut command(&servers.connect_string(), words));
    let refused = ls(&["ls", "/"]);
    assert!(refused.err.contains("/: the server demands a login by SASL"), "{refused:?}");
    refused.badly(1, "zooletctl has no SASL");
    // The hint helps.
    let mut bob = command(&servers.connect_string(), &["ls", "/"]);
    bob.env("ZOOLETCTL_AUTH", "digest:bob:builder");
    assert_eq!(said(&mut bob).well(), "zookeeper\n");
}

#[test]
fn a_backup_is_saved_checked_and_not_restored_here() {
    let lease = PortLease::take(2).unwrap();
    let (http, free) = (lease.ports()[0], lease.ports()[1]);
    let servers = Servers::zoolet()
        .super_digest(SUPER_DIGEST)
        .property("admin.enableServer", "true")
        .property("admin.serverAddress", "127.0.0.1")
        .property("admin.serverPort", &http.to_string())
        .start()
        .unwrap();
    let (client, directory) = (servers.connect_string(), tempfile::tempdir().unwrap());
    let file = directory.path().join("a.snap");
    let text = file.to_str().unwrap();
    let save = |from: &str| {
        let mut save = command(&client, &["snapshot", "save", from, text]);
        said(save.env("ZOOLETCTL_AUTH", SUPER))
    };

    let refused = save(&client);
    assert!(refused.err.contains(&format!("{client} is not an HTTP port: ")), "{refused:?}");
    refused.badly(2, "`admin.serverPort` in zoo.cfg");
    let nowhere = format!("127.0.0.1:{free}");
    save(&nowhere).badly(2, &format!("{nowhere}: connection refused: no program listens there"));
    save("no-such-host.invalid:80").badly(2, "no-such-host.invalid:80: unknown host: ");
    assert!(!file.exists());

    let from = format!("127.0.0.1:{http}");
    for words in
        [&["--json", "snapshot", "save", &from, text][..], &["--json", "snapshot", "status", text]]
    {
        json::check(&said(command(&client, words).env("ZOOLETCTL_AUTH", SUPER)).json());
    }
    let restored = said(&mut command(&client, &["snapshot", "restore", text]));
    assert!(restored.out.contains("checksum      ok\n"), "{restored:?}");
    assert!(restored.err.contains("nothing was restored: "), "{restored:?}");
    restored.badly(2, &format!("`zoolet restore --from {text} --config "));

    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x41;
    fs::write(&file, bytes).unwrap();
    for words in [["snapshot", "status", text], ["snapshot", "restore", text]] {
        let damaged = said(&mut command(&client, &words));
        assert_eq!(damaged.err.matches("damaged").count(), 1, "{damaged:?}");
        assert!(damaged.out.is_empty(), "{damaged:?}");
        damaged.badly(1, &format!("Error: {text} is damaged at byte "));
    }
}
