//! Logins by SASL with DIGEST-MD5: on zoolet and on Apache `ZooKeeper`, with the same files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod clients;
mod start;
mod wire;

use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::tools;

const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// Servers at which the users of `interop/sasl/server.jaas` can log in.
fn with_users(servers: ServersBuilder) -> ServersBuilder {
    let file = tools::interop_dir("sasl").join("server.jaas").display().to_string();
    servers
        .property("authProvider.1", PROVIDER)
        .property("superUser", "admin")
        // The line is for zoolet, which has no JVM; Apache does not read it.
        .property("java.security.auth.login.config", &file)
        .jvm_option(&format!("-Djava.security.auth.login.config={file}"))
}
