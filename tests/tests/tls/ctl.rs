//! `zooletctl` by TLS: what it finds, and what it says of mistakes.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::Servers;
use zoolet_tests::zooletctl;

use super::authority::Authority;
use super::{start_secure, with_client_stores};

/// How long a command may take that does not wait for `--timeout`, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(15);

/// Runs a command with a `--timeout` that no test waits for.
fn ctl(words: &[&str]) -> Output {
    let mut command = zooletctl::command().unwrap();
    command.args(["--timeout", "60s"]).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `status` with `--json`, and returns the exit code, how many servers it has listed, and all
/// that it has printed.
fn status(words: &[&str]) -> (Option<i32>, usize, String) {
    let output = ctl(&[words, &["--json", "status"]].concat());
    let printed = text(&output.stdout) + &text(&output.stderr);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let rows = found["servers"].as_array().map_or(0, Vec::len);
    (output.status.code(), rows, printed)
}

/// A bare TCP connection looked at servers, and one that speaks TLS only was never healthy.
#[test]
fn a_server_that_speaks_tls_has_a_status() {
    let authority = Authority::new("authority");
    let (servers, port, _lease) = start_secure(&authority);
    let secure = format!("localhost:{port}");
    let (ca, client) = (authority.text("ca.pem"), authority.issue("client", &[], |_| {}));
    let client = client.display().to_string();
    let stores = ["--trust-store", &ca, "--key-store", &client];
    let by_tls = [&["-s", &secure], &stores[..]].concat();

    let listed = ctl(&[&by_tls[..], &["ls", "/"]].concat());
    assert!(listed.status.success(), "{listed:?}");
    // The configuration has the port for plain text, and it is the same server.
    let (code, rows, printed) = status(&by_tls);
    assert_eq!((code, rows), (Some(0), 1), "{printed}");
    let named = ctl(&[&by_tls[..], &["status", "--named"]].concat());
    assert!(named.status.success(), "{named:?}");
    assert!(text(&named.stdout).contains("\n1 of 1 server serves; "), "{named:?}");

    let plain = servers.connect_string();
    let (code, rows, printed) = status(&[&["-s", &plain], &stores[..]].concat());
    assert_eq!((code, rows), (Some(2), 1), "{printed}");
    assert!(printed.contains("speaks plain text, and TLS is asked for"), "{printed}");
}

#[test]
fn servers_with_one_port_for_both_are_found_by_tls() {
    let authority = Authority::new("authority");
    let servers = with_client_stores(Servers::zoolet().servers(3), &authority)
        .property("client.portUnification", "true")
        .property("ssl.clientAuth", "none")
        .start()
        .unwrap();
    let all = servers.connect_string();
    let one = all.split(',').next().unwrap();
    let found = status(&["-s", one, "--trust-store", &authority.text("ca.pem")]);
    assert_eq!((found.0, found.1), (Some(0), 3), "{}", found.2);
}

/// Mistakes were silent until `--timeout`, and then it was said to check whether the servers run.
#[test]
#[allow(clippy::disallowed_methods, reason = "how long a real process takes")]
fn a_mistake_in_tls_is_named_at_once() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let (servers, port, _lease) = start_secure(&authority);
    let free = PortLease::take(1).unwrap();
    let free_port = free.ports()[0];
    let (secure, by_other_name) = (format!("localhost:{port}"), format!("127.0.0.2:{port}"));
    let (plain, refused) = (servers.connect_string(), format!("localhost:{free_port}"));
    let (ca, other_ca) = (authority.text("ca.pem"), other.text("ca.pem"));
    let client = authority.issue("client", &[], |_| {}).display().to_string();
    let stranger = other.issue("stranger", &[], |_| {}).display().to_string();
    let with_key = |key: &str| vec!["--key-store".to_owned(), key.to_owned()];
    let (client, stranger) = (with_key(&client), with_key(&stranger));

    for (address, ca, key, reason, remedy) in [
        (&secure, Some(&other_ca), &client, "UnknownIssuer", "--trust-store"),
        (&by_other_name, Some(&ca), &client, "not valid for name", "--any-server-name"),
        (&secure, Some(&ca), &vec![], "CertificateRequired", "give --key-store"),
        (&secure, Some(&ca), &stranger, "the alert ", "the certificate of --key-store"),
        (&plain, Some(&ca), &client, "speaks plain text", "secureClientPort"),
        (&secure, None, &vec![], "expects TLS", "give --trust-store"),
    ] {
        let mut words = vec!["-s", address];
        words.extend(ca.iter().flat_map(|ca| ["--trust-store", ca.as_str()]));
        words.extend(key.iter().map(String::as_str));
        words.extend(["ls", "/"]);
        let began_at = Instant::now();
        let output = ctl(&words);
        let (took, said) = (began_at.elapsed(), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{reason}: {said}");
        assert!(said.contains(reason) && said.contains(remedy), "{reason}, {remedy}: {said}");
        assert!(took < AT_ONCE, "{reason}: {took:?}");
    }

    // A server that is not there may come, and the reason is printed meanwhile.
    let words = ["-s", &refused, "--trust-store", &ca, "--timeout", "5s", "ls", "/"];
    let said = text(&ctl(&words).stderr);
    let waiting = "waiting for a server: the server cannot be reached";
    assert!(said.contains(waiting) && said.contains(": connection refused"), "{said}");
    assert!(said.contains("--timeout waits longer"), "{said}");
}
