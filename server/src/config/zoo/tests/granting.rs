//! Values that grant access, read as Apache ZooKeeper reads them.

use super::keys::{IN_FORCE, read, with_line};

/// `skipACL=YES` opened every znode, and Apache ZooKeeper keeps ACLs in force with it. The meaning
/// of a value there is from its source: `zookeeper.skipACL` must equal `yes`, flags of `QuorumPeerConfig`
/// are `true` or `false` in any case or an error, and other flags are `Boolean.parseBoolean`.
#[test]
fn no_reading_grants_more_than_apaches_without_a_word() {
    // With each, Apache ZooKeeper does not grant it, or does not start.
    let skip_acl = ["skipACL=YES", "skipACL=Yes", "skipACL=true", "skipACL=yes\u{a0}", "skipACL="];
    for line in skip_acl {
        let error = read(&with_line(line)).unwrap_err();
        assert!(error.contains("expected yes or no, in lower case"), "{line}: {error}");
    }
    let flags = [
        "allowSaslFailedClients",
        "reconfigEnabled",
        "readonlymode.enabled",
        "DigestAuthenticationProvider.enabled",
        "client.portUnification",
        "portUnification",
        "admin.snapshot.enabled",
        "admin.enableServer",
        "extendedTypesEnabled",
        "ssl.clientHostnameVerification",
        "ssl.quorum.hostnameVerification",
    ];
    for flag in flags {
        for value in ["yes", "1", "on", "t", "true\u{a0}", ""] {
            let error = read(&with_line(&format!("{flag}={value}"))).unwrap_err();
            assert!(error.contains("expected true or false"), "{flag}={value}: {error}");
        }
    }
    for line in [
        "4lw.commands.whitelist=*\u{a0}",
        "4lw.commands.whitelist=ALL",
        "4lw.commands.whitelist=Stat",
        "ssl.clientAuth=",
        "ssl.clientAuth=no",
        "superUser=",
        "superUser.a=",
        "DigestAuthenticationProvider.superDigest=",
        "enforce.auth.enabled=true\nenforce.auth.schemes=digest,IP",
    ] {
        assert!(read(&with_line(line)).is_err(), "{line}");
    }
    // The same right, with a warning.
    for line in [
        "skipACL=yes",
        "superUser=x",
        "superUser.1=x",
        "reconfigEnabled=true",
        "DigestAuthenticationProvider.superDigest=super:x",
        "4lw.commands.whitelist=stat",
        "SASLAuthenticationProvider.superPassword=x",
        "X509AuthenticationProvider.superUser=CN=x",
        "allowSaslFailedClients=true",
        "portUnification=TRUE",
        "ssl.clientAuth=want",
        "ssl.quorum.clientAuth=none",
        "ssl.quorum.hostnameVerification=false",
        "readonlymode.enabled=true",
    ] {
        let (_, warnings) = read(&with_line(&format!("zookeeper.{line}"))).unwrap();
        assert!(warnings.iter().any(|warning| warning.contains(IN_FORCE)), "{line}: {warnings:?}");
        let (_, warnings) = read(&with_line(line)).unwrap();
        assert!(warnings.is_empty(), "{line}: {warnings:?}");
    }
    let (_, warnings) = read(&with_line("fips-mode=false")).unwrap();
    assert!(warnings[0].contains("ssl.quorum.clientHostnameVerification=true"), "{warnings:?}");
    let (_, warnings) = read(&with_line("superUser=J\u{f6}rg")).unwrap();
    assert!(warnings[0].contains("reads files as ISO-8859-1"), "{warnings:?}");
    let (_, warnings) = read(&with_line("superUser=J\\u00f6rg")).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    // Of two, Apache ZooKeeper reads the one without the prefix.
    for two in ["skipACL=no\nzookeeper.skipACL=yes", "zookeeper.skipACL=yes\nskipACL=no"] {
        let (config, warnings) = read(&with_line(two)).unwrap();
        assert!(!config.auth.acl_skipped && warnings.len() == 1, "{two:?}: {warnings:?}");
    }
}
