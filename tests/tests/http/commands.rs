//! `ZooKeeper`'s commands, beside those of Apache's `AdminServer`.

use serde_json::Value;
use zoolet_client::{Acl, Id, Version, perms};
use zoolet_tests::http;
use zoolet_tests::servers::{SUPER_DIGEST, Servers};
use zoolet_tests::tools;

use crate::support::*;

/// The commands whose answers are compared, but for `monitor`.
const COMMANDS: [&str; 23] = [
    "configuration",
    "conf",
    "connections",
    "dirs",
    "dump",
    "environment",
    "get_trace_mask",
    "hash",
    "initial_configuration",
    "is_read_only",
    "last_snapshot",
    "leader",
    "observers",
    "ruok",
    "server_stats",
    "srvr",
    "stats",
    "voting_view",
    "watch_summary",
    "watches",
    "watches_by_path",
    "zabstate",
    "nonsense",
];

/// The entries of Apache that a server without a JVM, or without these parts, does not have.
const LEFT_OUT: [&str; 11] = [
    "provider_null",
    "auth_failed_count",
    "non_mtlsremote_conn_count",
    "non_mtlslocal_conn_count",
    "java.class.path",
    "java.library.path",
    "java.compiler",
    "os.memory.free",
    "os.memory.max",
    "os.memory.total",
    "user.language",
];

/// What differs in the shapes of two answers: names and types, not values.
fn differences(place: &str, apache: &Value, zoolet: &Value, found: &mut Vec<String>) {
    match (apache, zoolet) {
        (Value::Object(apache), Value::Object(zoolet)) if has_data_for_names(place) => {
            let first = |object: &serde_json::Map<String, Value>| object.values().next().cloned();
            if let Some(expected) = first(apache) {
                let got = first(zoolet).unwrap_or_default();
                differences(&format!("{place}.*"), &expected, &got, found);
            }
        }
        (Value::Object(apache), Value::Object(zoolet)) => {
            for (name, expected) in apache {
                if LEFT_OUT.contains(&name.as_str()) {
                    continue;
                }
                let got = zoolet.get(name).unwrap_or(&Value::Null);
                differences(&format!("{place}.{name}"), expected, got, found);
            }
            let more = zoolet.keys().filter(|name| !apache.contains_key(*name));
            found.extend(more.map(|name| format!("{place}.{name} is not Apache's")));
        }
        (Value::Array(apache), Value::Array(zoolet)) => {
            if let Some(expected) = apache.first() {
                let got = zoolet.first().unwrap_or(&Value::Null);
                differences(&format!("{place}[]"), expected, got, found);
            }
        }
        (Value::Number(_), Value::Number(_))
        | (Value::String(_), Value::String(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => {}
        // Apache has none if the member list is in a file of its own.
        (Value::Null, Value::String(_)) if place.ends_with(".initial_configuration") => {}
        _ => found.push(format!("{place}: {apache} there, {zoolet} here")),
    }
}

/// Whether the names in an object are sessions, times, paths or servers.
fn has_data_for_names(place: &str) -> bool {
    let parts = ["_to_session_ids", "_to_ephemeral_paths", "_to_watched_paths", "current_config"];
    parts.iter().any(|part| place.ends_with(part))
}

fn assert_alike(apache: impl Fn(&str) -> Value, zoolet: impl Fn(&str) -> Value) {
    let mut found = Vec::new();
    for name in COMMANDS {
        differences(name, &apache(name), &zoolet(name), &mut found);
    }
    // What zoolet adds to monitor is its own; the rest is known there, with the same type.
    let (there, here) = (apache("monitor"), zoolet("monitor"));
    for (name, value) in here.as_object().unwrap() {
        let own = [
            "raft_",
            "state_",
            "limit_",
            "leader_step_downs",
            "max_lock_hold",
            "tls_connection_count",
        ];
        let is_own = own.iter().any(|own| name.starts_with(own));
        let expected = &there[name];
        let is_alike =
            (expected.is_null(), expected.is_number()) == (value.is_null(), value.is_number());
        if !is_own && !is_alike {
            found.push(format!("monitor.{name}: {expected} there, {value} here"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_have_the_names_and_types_of_apache() {
    if !tools::require_foreign("http", &["java", "mvn"]).unwrap() {
        return;
    }
    let (apache, zoolet) = (WithHttp::start(Servers::apache()), WithHttp::start(Servers::zoolet()));
    let _clients = (
        Witness::connect(&apache.servers.connect_string()).await,
        Witness::connect(&zoolet.servers.connect_string()).await,
    );
    assert_alike(|name| apache.command(name), |name| zoolet.command(name));
    let lists =
        [&apache, &zoolet].map(|servers| http::get(servers.http, "/commands").unwrap().body);
    let missing = [">restore<"];
    let lines = lists[0].lines().filter(|line| !missing.iter().any(|it| line.contains(it)));
    let expected: Vec<&str> = lines.filter(|line| line.starts_with("<a ")).collect();
    // Zoolet's own.
    let own = [">expire_session<", ">history<"];
    let lines = lists[1].lines().filter(|line| !own.iter().any(|name| line.contains(name)));
    let found: Vec<&str> = lines.filter(|line| line.starts_with("<a ")).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_an_ensemble_have_the_names_and_types_of_apache() {
    if !tools::require_foreign("http", &["java", "mvn"]).unwrap() {
        return;
    }
    // All want the same port; one gets it, and the others go on without.
    let apache = WithHttp::start(Servers::apache().servers(3));
    let zoolet = Three::start();
    let is_leader = |answer: Value| answer["is_leader"] == true;
    let leads = is_leader(apache.command("leader"));
    let same_part =
        |address: &&std::net::SocketAddr| is_leader(command(**address, "leader")) == leads;
    let address = *zoolet.http.iter().find(same_part).unwrap();
    // Connections and watches are those of the server with the HTTP port.
    let own = |answer: Value| format!("127.0.0.1:{}", answer["client_port"]);
    let own = [apache.command("configuration"), command(address, "configuration")].map(own);
    let _clients = (Witness::connect(&own[0]).await, Witness::connect(&own[1]).await);
    assert_alike(|name| apache.command(name), |name| command(address, name));
    assert!(zoolet.up.stop().unwrap().success());
}

/// The commands that change something.
const CHANGING: [&str; 5] =
    ["stat_reset", "srst", "crst", "observer_connection_stat_reset", "stmk?traceMask=5"];

/// Returns the status and the error of a command that is asked for with a header `Authorization`.
fn authorized(server: &WithHttp, command: &str, header: &str) -> (u16, String) {
    let line =
        if header.is_empty() { String::new() } else { format!("Authorization: {header}\r\n") };
    let answer = http::get_with(server.http, &format!("/commands/{command}"), &line).unwrap();
    (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
}

/// The ACL of a new root gives everyone every permission, so any digest, any address and a
/// wrong password of the superuser once changed the server's figures.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_changes_nothing_on_a_root_that_is_open_to_everyone() {
    let server = WithHttp::start(Servers::zoolet().super_digest(SUPER_DIGEST));
    let _witness = Witness::connect(&server.servers.connect_string()).await;
    for command in CHANGING {
        for header in ["digest mallory:anything", "ip", "digest super:wrong"] {
            let (status, error) = authorized(&server, command, header);
            assert_eq!(status, 403, "{command}, {header}: {error}");
            assert!(
                error.starts_with("Not authorized: ") && error.contains("superuser"),
                "{error}"
            );
        }
        let (status, error) = authorized(&server, command, "world anyone");
        assert_eq!((status, error.as_str()), (401, "Not authenticated"), "{command}");
        let (status, error) = authorized(&server, command, "digest super:test");
        assert_eq!((status, error.as_str()), (200, ""), "{command}");
    }
}

/// As for Apache's snapshot and restore, but for what the root's ACL gives to everyone.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_something_needs_every_permission_on_the_root() {
    let server = WithHttp::start(Servers::zoolet().super_digest(SUPER_DIGEST));
    let witness = Witness::connect(&server.servers.connect_string()).await;
    let client = &witness.client;
    client.add_auth("digest", b"alice:secret").await.unwrap();
    let auth = |perms| Acl { perms, id: Id::new("auth", "") };
    let get = |command: &str, header: &str| {
        let (status, error) = authorized(&server, command, header);
        // What follows says who is.
        let said = error.split(": ").next().unwrap_or_default().to_owned();
        (status, said)
    };
    client.set_acl("/", vec![auth(perms::ALL)], Version::Any).await.unwrap();
    for command in CHANGING {
        for (header, status, error) in [
            ("", 401, "Auth info is missing for the command"),
            ("digest", 401, "Not authenticated"),
            ("digest a b c", 401, "Not authenticated"),
            ("nonsense alice:secret", 401, "Not authenticated"),
            ("Basic YWxpY2U6c2VjcmV0", 401, "Not authenticated"),
            ("digest alice:wrong", 403, "Not authorized"),
            ("ip", 403, "Not authorized"),
            ("digest alice:secret", 200, ""),
            ("digest super:test", 200, ""),
        ] {
            let expected = (status, error.to_owned());
            assert_eq!(get(command, header), expected, "{command}, {header}");
        }
    }
    assert_eq!(get("stmk?traceMask=x", "digest alice:secret").0, 200);
    assert_eq!(server.command("get_trace_mask")["tracemask"], 5);
    client.set_acl("/", vec![auth(perms::ALL & !perms::DELETE)], Version::Any).await.unwrap();
    assert_eq!(get("srst", "digest alice:secret").0, 403, "one permission is missing");
    for command in ["restore", "shed_connections"] {
        let (status, error) = authorized(&server, command, "digest super:test");
        assert!(status == 501 && error.starts_with("not available: "), "{command}: {error}");
    }
}

/// The digest of the superuser is a secret.
#[test]
fn the_configuration_is_shown_without_the_superusers_digest() {
    let server = WithHttp::start(Servers::zoolet().super_digest(SUPER_DIGEST));
    let shown = server.command("initial_configuration").to_string();
    assert!(shown.contains("super_digest") && !shown.contains(SUPER_DIGEST), "{shown}");
}
