//! The history (docs/history.md): what has happened to znodes, sessions and locks, as each server
//! tells it by HTTP and `zooletctl history` shows it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test of real sockets in real time fails by panicking"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use zoolet_client::recipes::Mutex;
use zoolet_client::{Client, CreateMode, Version};
use zoolet_jute::{CreateRequest, Request, Xid};
use zoolet_tests::raw::RawConnection;
use zoolet_tests::servers::{SUPER_DIGEST, Servers};
use zoolet_tests::with_http::{SOON, Three, WithHttp};
use zoolet_tests::{http, wait, zooletctl};

/// The header of the superuser.
const SUPER: &str = "Authorization: digest super:test\r\n";

/// What a server says of what has happened. It serves before its history is open, and says so.
fn ask(server: SocketAddr, query: &str) -> Value {
    let look = || {
        let answer = http::get(server, &format!("/commands/history?{query}")).unwrap();
        let is_open = answer.status != 503 || !answer.body.contains("is being opened");
        is_open.then_some(answer)
    };
    let answer = wait::until(SOON, look).expect("the history is opened");
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer.json()
}

/// A list of it, once there are as many entries.
fn list(server: SocketAddr, query: &str, name: &str, count: usize) -> Vec<Value> {
    let look = || {
        let found = ask(server, query)[name].as_array().unwrap().clone();
        (found.len() >= count).then_some(found)
    };
    wait::until(SOON, look).unwrap_or_else(|| panic!("{count} wanted: {:#}", ask(server, query)))
}

async fn connect(with_http: &WithHttp) -> Client {
    Client::connect(&with_http.servers.connect_string()).await.unwrap()
}

/// The fields of an entry.
fn fields<const N: usize>(entry: &Value, names: [&str; N]) -> [Value; N] {
    names.map(|name| entry[name].clone())
}

/// Every server applies all commands, so each knows the same, wherever the client was.
#[tokio::test(flavor = "multi_thread")]
async fn every_server_knows_who_has_done_what() {
    let with_history = Three::start();
    let client = Client::connect(&with_history.connect_string).await.unwrap();
    client.create("/a", b"1", CreateMode::Persistent).await.unwrap();
    client.set_data("/a", b"2", Version::Any).await.unwrap();
    client.set_data("/a", b"3", Version::Any).await.unwrap();
    client.delete("/a", Version::Any).await.unwrap();
    client.create("/a", b"", CreateMode::Ephemeral).await.unwrap();
    let session = client.session().id.to_string();
    client.close().await.unwrap();
    let expected = [
        json!(["created", "0x0", null, null, null]),
        json!(["data_changed", null, 0, 1, null]),
        json!(["data_changed", null, 1, 2, null]),
        json!(["deleted", "0x0", 2, null, "released"]),
        json!(["created", session, null, null, null]),
        json!(["deleted", session, 0, null, "session_closed"]),
    ];
    let mut first = None;
    for server in with_history.http.iter().copied() {
        let entries = list(server, "path=/a", "history", expected.len());
        let seen = entries.iter().map(|entry| {
            json!(fields(entry, ["kind", "owner", "old_version", "version", "reason"]))
        });
        assert_eq!(seen.collect::<Vec<_>>(), expected, "server {server}");
        for entry in &entries {
            let who = fields(entry, ["session", "address", "path"]);
            assert_eq!(who, [json!(session), json!("127.0.0.1"), json!("/a")], "{entry}");
            assert!(entry["time_ms"].as_i64().unwrap() > 1_700_000_000_000, "{entry}");
        }
        let known: Vec<_> =
            entries.iter().map(|entry| fields(entry, ["zxid", "cxid", "server", "kind"])).collect();
        assert_eq!(*first.get_or_insert_with(|| known.clone()), known, "server {server}");
        let of_session = list(server, &format!("session={session}"), "history", 8);
        let kinds: Vec<_> = of_session.iter().map(|entry| entry["kind"].clone()).collect();
        assert_eq!(kinds.first(), Some(&json!("session_opened")), "server {server}");
        assert_eq!(kinds.last(), Some(&json!("session_closed")), "server {server}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holders_of_a_lock_are_named_and_how_each_turn_has_ended() {
    let with_history = WithHttp::start(Servers::zoolet());
    let (one, two) = (connect(&with_history).await, connect(&with_history).await);
    let (first, second) = (Mutex::new(&one, "/lock"), Mutex::new(&two, "/lock"));
    first.acquire().await.unwrap().release().await.unwrap();
    let held = second.acquire().await.unwrap();
    // Another client may delete a holder's znode, if the ACL permits it.
    let path = format!("/lock/{}", one.children("/lock").await.unwrap().0[0]);
    one.delete(&path, Version::Any).await.unwrap();
    drop(held);
    // One that is killed: its session expires.
    let mut raw =
        RawConnection::open(with_history.servers.client_address(0).unwrap(), 1000).unwrap();
    let place = "/lock/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-";
    let create = CreateRequest {
        path: place.to_owned(),
        data: None,
        acl: Some(zoolet_jute::Acl::open()),
        flags: 3,
    };
    raw.call(Xid(1), &Request::Create(create)).unwrap();
    drop(raw);
    let ended = |turn: &Value| turn["reason"].is_string();
    let look = || {
        let turns = list(with_history.http, "lock=/lock", "turns", 3);
        turns.iter().all(ended).then_some(turns)
    };
    let turns = wait::until(SOON, look).unwrap();
    let reasons: Vec<_> = turns.iter().map(|turn| turn["reason"].clone()).collect();
    assert_eq!(reasons, ["released", "deleted_by_other", "session_expired"], "{turns:#?}");
    assert_eq!(turns[1]["deleted_by"], json!(one.session().id.to_string()));
    assert_eq!(turns[1]["session"], json!(two.session().id.to_string()));
    for turn in &turns {
        let times = fields(turn, ["queued_at_ms", "held_at_ms", "ended_at_ms"]);
        let times: Vec<_> = times.iter().map(|time| time.as_i64().unwrap()).collect();
        assert!(times.is_sorted(), "{turn}");
    }
}

/// A place behind one from before the history seemed to hold the lock.
#[tokio::test(flavor = "multi_thread")]
async fn who_holds_since_before_the_history_is_named() {
    // What the log applies again at a start is recorded: there is to be a snapshot behind the places.
    let off = Servers::zoolet().property("historyEnabled", "false").property("snapCount", "2");
    let mut with_history = WithHttp::start(off);
    let (one, two) = (connect(&with_history).await, connect(&with_history).await);
    one.create("/lock", b"", CreateMode::Persistent).await.unwrap();
    let place = |number: u8| format!("/lock/_c_{number:08x}-d9cb-469f-a165-70867728950e-lock-");
    let mode = CreateMode::EphemeralSequential;
    // The second by name is the first in the queue.
    let holder = one.create(&place(9), b"", mode).await.unwrap().0;
    let waiter = two.create(&place(5), b"", mode).await.unwrap().0;
    let (_, until) = two.get(&waiter).await.unwrap();
    let mut has_snapshot = false;
    for _ in 0..200 {
        two.set_data("/lock", b"", Version::Any).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let newest = http::get(with_history.http, "/commands/last_snapshot").unwrap().json();
        let zxid = newest["zxid"].as_str().unwrap_or_default();
        let zxid = i64::from_str_radix(zxid.trim_start_matches("0x"), 16).unwrap_or(0);
        has_snapshot = zxid > until.czxid.0;
        if has_snapshot {
            break;
        }
    }
    assert!(has_snapshot, "behind the places");
    with_history.servers.kill(0).unwrap();
    let path = with_history.servers.server_dir(0).join("zoo.cfg");
    let mut file = fs::File::options().append(true).open(path).unwrap();
    writeln!(file, "historyEnabled=true").unwrap();
    with_history.servers.restart(0).unwrap();
    let three = connect(&with_history).await;
    let last = three.create(&place(7), b"", mode).await.unwrap().0;
    let turns = list(with_history.http, "lock=/lock", "turns", 3);
    let seen: Vec<_> = turns
        .iter()
        .map(|turn| json!(fields(turn, ["path", "session", "held", "held_at_ms"])))
        .collect();
    let [one, two, three] = [one, two, three].map(|client| client.session().id.to_string());
    let expected = [
        json!([holder, one, true, null]),
        json!([waiter, two, false, null]),
        json!([last, three, false, null]),
    ];
    assert_eq!(seen, expected, "{turns:#?}");
}

/// What the log applies again after a kill is not there twice, and nothing is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_goes_on_with_its_history() {
    let mut with_history = WithHttp::start(Servers::zoolet());
    let mut count = 0;
    for round in 0..4 {
        let client = connect(&with_history).await;
        for number in 0..300 {
            let path = format!("/r{round}-{number}");
            client.create(&path, b"", CreateMode::Persistent).await.unwrap();
            count += 1;
        }
        with_history.servers.kill(0).unwrap();
        with_history.servers.restart(0).unwrap();
    }
    let look = || {
        let found = http::get(with_history.http, "/commands/history?below=/&limit=10000").unwrap();
        let found = found.json();
        let entries = found["history"].as_array()?.clone();
        let created = entries
            .iter()
            .filter(|entry| entry["path"].as_str().is_some_and(|path| path.starts_with("/r")));
        (created.count() >= count).then_some(entries)
    };
    let entries = wait::until(SOON, look).expect("all creates are known");
    let paths: Vec<_> = entries.iter().filter_map(|entry| entry["path"].as_str()).collect();
    let mut unique = paths.iter().filter(|path| path.starts_with("/r")).collect::<Vec<_>>();
    assert_eq!(unique.len(), count);
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), count, "each is there once");
    let gaps = entries.iter().filter(|entry| entry["kind"] == "gap").count();
    assert_eq!(gaps, 0, "{entries:#?}");
}

/// Whatever has become of its files, a server starts, and keeps a history again.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_keep_no_server_from_starting() {
    let mut with_history = WithHttp::start(Servers::zoolet());
    let client = connect(&with_history).await;
    for number in 0..2000 {
        client.create(&format!("/n{number}"), b"", CreateMode::Persistent).await.unwrap();
    }
    list(with_history.http, "path=/n1999", "history", 1);
    with_history.servers.kill(0).unwrap();
    let directory = find_history(&with_history.servers.server_dir(0)).expect("a history");
    for file in fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let mut bytes = fs::read(&path).unwrap();
            for (place, byte) in bytes.iter_mut().enumerate() {
                if place % 61 == 7 {
                    *byte ^= 0x5a;
                }
            }
            fs::write(&path, bytes).unwrap();
        }
    }
    with_history.servers.restart(0).unwrap();
    let client = connect(&with_history).await;
    client.create("/behind", b"", CreateMode::Persistent).await.unwrap();
    let entries = list(with_history.http, "path=/behind", "history", 1);
    assert_eq!(entries.iter().filter(|entry| entry["kind"] == "created").count(), 1);
    let aside = directory.with_file_name("history.damaged");
    assert!(aside.is_dir(), "{} is kept", aside.display());
}

fn find_history(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?;
    let paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    let found = paths.iter().find(|path| path.ends_with("history")).cloned();
    found.or_else(|| paths.iter().filter(|path| path.is_dir()).find_map(|path| find_history(path)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_history_says_so_and_data_is_for_administrators() {
    let off = WithHttp::start(Servers::zoolet().property("historyEnabled", "false"));
    let answer = http::get(off.http, "/commands/history?path=/a").unwrap();
    assert_eq!(answer.status, 404);
    assert!(answer.json()["error"].as_str().unwrap().contains("keeps no history"), "{answer:?}");
    drop(off);
    let servers = Servers::zoolet().property("historyDataBytesMax", "4").super_digest(SUPER_DIGEST);
    let with_data = WithHttp::start(servers);
    let client = connect(&with_data).await;
    client.create("/a", b"secret", CreateMode::Persistent).await.unwrap();
    let plain = list(with_data.http, "path=/a", "history", 1);
    assert_eq!(plain[0].get("data_base64"), None, "{plain:?}");
    let query = "/commands/history?path=/a&data=true";
    assert_eq!(http::get(with_data.http, query).unwrap().status, 401);
    let shown = http::get_with(with_data.http, query, SUPER).unwrap().json();
    assert_eq!(shown["history"][0]["data_base64"], json!("c2Vjcg=="));
    for bad in ["path=a", "limit=0", "session=x", "path=/a&lock=/a", "unknown=1"] {
        let answer = http::get(with_data.http, &format!("/commands/history?{bad}")).unwrap();
        assert_eq!(answer.status, 400, "{bad}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zooletctl_shows_a_history_and_follows_it() {
    let with_history = WithHttp::start(Servers::zoolet());
    let client = connect(&with_history).await;
    client.create("/a\u{202e}b", b"1", CreateMode::Persistent).await.unwrap();
    list(with_history.http, "below=/", "history", 1);
    let http = with_history.http.to_string();
    let ctl = |arguments: &[&str]| {
        let mut command = Command::new(zooletctl::binary().unwrap());
        command.args(["history", "--http", &http]).args(arguments);
        command
    };
    let shown = ctl(&["--below", "/", "--since", "7d"]).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    let session = client.session().id;
    let expected = format!("created /a\\u{{202e}}b  session {session} from 127.0.0.1 by server 1");
    assert!(text.contains(&expected), "{text}");
    let json = ctl(&["--json", "--session", &session.to_string()]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["history"][0]["kind"], "session_opened");
    let nothing = ctl(&["/nothing"]).output().unwrap();
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("nothing is known of it"));
    let wrong = ctl(&["relative"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(3), "{wrong:?}");

    let mut following = ctl(&["--follow", "/b"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    client.create("/b", b"", CreateMode::Persistent).await.unwrap();
    let line = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap()).await.unwrap();
    assert!(line.contains("created /b"), "{line}");
    following.kill().unwrap();
    following.wait().unwrap();
}

/// Under load nothing is lost, and the metrics say so.
#[tokio::test(flavor = "multi_thread")]
async fn under_load_every_write_is_known() {
    const WRITES: usize = 20_000;
    let with_history = Three::start();
    let client = Client::connect(&with_history.connect_string).await.unwrap();
    client.create("/load", b"", CreateMode::Persistent).await.unwrap();
    let writes: Vec<_> =
        (0..WRITES).map(|_| client.set_data("/load", b"x", Version::Any)).collect();
    for write in writes {
        write.await.unwrap();
    }
    for server in with_history.http.iter().copied() {
        let look = || {
            let found = ask(server, "path=/load&limit=1");
            (found["history"][0]["version"] == json!(WRITES)).then_some(())
        };
        wait::until(SOON, look).expect("the last write is known");
        let metrics = http::get(server, "/metrics").unwrap().body;
        assert!(metrics.contains("\nzoolet_history_lost 0"), "{metrics}");
        let (mut after, mut versions) = (0, Vec::new());
        loop {
            let query = format!("path=/load&limit=5000&after={after}");
            let found = ask(server, &query);
            let entries = found["history"].as_array().unwrap();
            versions.extend(entries.iter().filter_map(|entry| entry["version"].as_u64()));
            after = found["last"].as_u64().unwrap();
            if found["truncated"] == json!(false) {
                break;
            }
        }
        assert_eq!(versions, (1..=WRITES as u64).collect::<Vec<_>>(), "server {server}");
    }
}
