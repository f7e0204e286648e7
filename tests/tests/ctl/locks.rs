//! What `locks` shows, and what a bench measures.

use serde_json::{Value, json};
use zoolet_client::{Client, CreateMode, Stat, Version};
use zoolet_tests::scenes::Scene;

use crate::harness::{CtlScene, code_of, ended, signal};
use crate::hold::number;

const UUID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4be";
const HEX: &str = "1b9d6bcdbbfd4b2d9b5dab8dfbbd4be";

/// Names as each family writes them, the last digit of the id left out; the family and the role
/// that are shown; and the number, where the client chooses it.
fn families() -> Vec<(String, &'static str, &'static str)> {
    vec![
        (format!("_c_{UUID}0-lock-"), "curator", "mutex"),
        (format!("_c_{UUID}0-latch-"), "curator", "mutex"),
        (format!("_c_{HEX}0-lock-"), "go", "mutex"),
        (format!("{HEX}0__lock__"), "kazoo", "mutex"),
        ("x-72057594037927936-".to_owned(), "java-recipes", "mutex"),
        ("x-0100000000000000-".to_owned(), "c-recipes", "mutex"),
        ("n_".to_owned(), "java-recipes", "election"),
    ]
}

pub(crate) async fn every_family_is_shown(scene: &Scene) {
    let top = scene.znode().await;
    let (holder, waiter) = (scene.client().await, scene.client().await);
    let mut expected = Vec::new();
    for (at, (name, family, kind)) in families().into_iter().enumerate() {
        let path = format!("{top}/lock-{at}");
        holder.create(&path, b"", CreateMode::Persistent).await.unwrap();
        let first = number(&holder, &format!("{path}/{name}")).await;
        let second = number(&waiter, &format!("{path}/{}", name.replace('0', "a"))).await;
        // Another id, of the same form: a session in the name stays as it is.
        let second = if name.starts_with("x-") {
            waiter.delete(&second, Version::Any).await.unwrap();
            number(&waiter, &format!("{path}/{name}")).await
        } else {
            second
        };
        holder.set_data(&first, b"me", Version::Any).await.unwrap();
        let kind = if name.contains("latch") { "election" } else { kind };
        expected.push((path, family, kind, first, second));
    }
    let group = format!("{top}/group");
    holder.create(&group, b"", CreateMode::Persistent).await.unwrap();
    for name in ["leader", "group/member-0000000007"] {
        let path = format!("{top}/{name}");
        holder.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    }
    let shown = scene.json(&["locks", &top]);
    assert_eq!(shown.as_array().unwrap().len(), expected.len(), "{shown}");
    let stat = async |path: &str| -> Stat { holder.exists(path).await.unwrap().unwrap() };
    for (lock, (path, family, kind, first, second)) in
        shown.as_array().unwrap().iter().zip(&expected)
    {
        assert_eq!((&lock["path"], &lock["kind"]), (&json!(path), &json!(kind)), "{lock}");
        assert_eq!(lock["warnings"], json!([]), "{lock}");
        for (who, client, znode) in [("holders", &holder, first), ("queue", &waiter, second)] {
            let members = lock[who].as_array().unwrap();
            assert_eq!(members.len(), 1, "{lock}");
            check(&members[0], client, znode, &stat(znode).await);
            assert_eq!(members[0]["family"], *family, "{lock}");
        }
        assert_eq!(lock["holders"][0]["data"], "me");
    }
    let text = scene.ctl(&["locks", &format!("{top}/lock-0")]).well();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("{top}/lock-0  mutex, 1 held, 1 waiting"), "{text}");
    assert!(lines[2].contains("held mutex") && lines[2].contains("127.0.0.1:"), "{text}");
    assert!(lines[3].contains("1. mutex") && lines[3].contains(" curator "), "{text}");

    let all = scene.json(&["locks", "--all", &top]);
    assert_eq!(all.as_array().unwrap().len(), expected.len() + 1, "{all}");
    assert_eq!(all[0]["holders"][0]["family"], "unknown", "{all}");
    // Who names the path itself takes it for a lock.
    assert_eq!(scene.json(&["locks", &group])[0]["path"], json!(group));
    let text = scene.ctl(&["locks", &group]).well();
    assert!(text.contains("! its clients are unknown"), "{text}");
    let simple = scene.json(&["locks", &format!("{top}/leader")]);
    assert_eq!(simple[0]["kind"], "simple", "{simple}");
    let none = scene.znode().await;
    assert_eq!(
        scene.ctl(&["locks", &none]).well(),
        "no locks; --all shows those of unknown clients too\n"
    );
    scene.ctl(&["locks", "/nothing"]).badly(1, "does not exist");
}

fn check(member: &Value, client: &Client, znode: &str, stat: &Stat) {
    assert_eq!(member["path"], znode);
    assert_eq!(member["session"], client.session().id.to_string());
    assert!(member["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{member}");
    assert_eq!(member["since_ms"], stat.ctime);
    assert_eq!(member["token"], stat.czxid.0.to_string());
    assert!(member["for_ms"].as_u64().is_some());
}

pub(crate) async fn semaphores_are_shown(scene: &Scene) {
    let path = scene.znode().await;
    let permits = ["lock", &path, "--permits", "2", "--", "sleep", "60"];
    let mut holders = Vec::new();
    for count in 1..=2 {
        holders.push(scene.begin(&permits));
        scene.until_count(&format!("{path}/leases"), count).await;
        scene.until_count(&format!("{path}/locks"), 0).await;
    }
    holders.push(scene.begin(&permits));
    scene.until_count(&format!("{path}/leases"), 3).await;
    holders.push(scene.begin(&permits));
    scene.until_count(&format!("{path}/locks"), 2).await;
    let shown = scene.json(&["locks", &path]);
    let [lock] = shown.as_array().unwrap().as_slice() else { panic!("{shown}") };
    assert_eq!((&lock["path"], &lock["kind"]), (&json!(path), &json!("semaphore")));
    assert_eq!(lock["holders"].as_array().unwrap().len(), 2, "{shown}");
    assert_eq!(lock["queue"].as_array().unwrap().len(), 2, "{shown}");
    for mut holder in holders {
        signal(&holder, "TERM");
        holder.wait().unwrap();
    }

    // kazoo's: permits without numbers, their count in the data, the queue beside.
    let client = scene.client().await;
    client.set_data(&path, b"3", Version::Any).await.unwrap();
    scene.until_count(&format!("{path}/leases"), 0).await;
    let other = scene.znode().await;
    client.set_data(&other, b"3", Version::Any).await.unwrap();
    client.create(&format!("{other}/{HEX}0"), b"me", CreateMode::Ephemeral).await.unwrap();
    let queue = format!("{other}-__lock__");
    client.create(&queue, b"", CreateMode::Persistent).await.unwrap();
    number(&client, &format!("{queue}/{HEX}1__lock__")).await;
    let shown = scene.json(&["locks"]);
    let lock = shown.as_array().unwrap().iter().find(|lock| lock["path"] == other).unwrap();
    assert_eq!((&lock["kind"], &lock["permits"]), (&json!("semaphore"), &json!(3)), "{lock}");
    assert_eq!(lock["holders"][0]["family"], "kazoo");
    assert_eq!(lock["queue"][0]["family"], "kazoo");
}

pub(crate) async fn families_that_do_not_see_each_other_are_reported(scene: &Scene) {
    let path = scene.znode().await;
    let client = scene.client().await;
    number(&client, &format!("{path}/_c_{UUID}0-lock-")).await;
    number(&client, &format!("{path}/{HEX}1__lock__")).await;
    let go = number(&client, &format!("{path}/_c_{HEX}2-lock-")).await;
    let shown = scene.json(&["locks", &path]);
    assert_eq!(shown[0]["holders"].as_array().unwrap().len(), 2, "{shown}");
    assert_eq!(shown[0]["queue"][0]["path"], go, "{shown}");
    let text = scene.ctl(&["locks", &path]).well();
    assert!(text.contains("! several hold it"), "{text}");
    // A lock that both wait for is shown as one.
    let path = scene.znode().await;
    let mut holder = scene.begin(&["lock", &path, "--", "sleep", "60"]);
    scene.until_count(&path, 2).await;
    number(&client, &format!("{path}/{HEX}1__lock__")).await;
    number(&client, &format!("{path}/_c_{UUID}0-lock-")).await;
    let shown = scene.json(&["locks", &path]);
    assert_eq!(shown[0]["holders"][0]["family"], "bilingual", "{shown}");
    assert_eq!(shown[0]["holders"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown[0]["queue"].as_array().unwrap().len(), 2, "{shown}");
    signal(&holder, "TERM");
    holder.wait().unwrap();
}

pub(crate) async fn a_bench_gives_figures_and_leaves_nothing(scene: &Scene) {
    let top = scene.znode().await;
    let mixes = "get,set,mix:70,create,lock,handoff";
    let words = ["bench", "--duration", "300ms", "--connections", "2", "--depth", "2", "--keys"];
    let rest = ["10", "--mix", mixes, "--path", &top];
    let words = [&words[..], &rest].concat();
    let figures = scene.json(&[&words[..], &["--against", &scene.servers]].concat());
    let measured = figures["mixes"].as_array().unwrap();
    let names: Vec<&str> = measured.iter().map(|one| one["mix"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), mixes);
    for one in measured {
        let results = one["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        for result in results {
            assert_eq!(result["errors"], 0, "{result}");
            assert!(result["operations"].as_u64().unwrap() > 0, "{one}");
            assert!(result["ops_per_second"].as_f64().unwrap() > 0.0, "{one}");
            let latency = |name: &str| result["latency_ms"][name].as_f64().unwrap();
            assert!(latency("p50") <= latency("p99") && latency("p99") <= latency("max"), "{one}");
            let buckets = result["histogram"].as_array().unwrap();
            let counted: u64 = buckets.iter().map(|one| one["count"].as_u64().unwrap()).sum();
            assert_eq!(Some(counted), result["operations"].as_u64(), "{result}");
            assert!(
                result["server_cores"].as_f64().unwrap() >= 0.0,
                "the server is on this machine"
            );
        }
        assert!(one["ratio"]["ops_per_second"].as_f64().unwrap() > 0.0, "{one}");
    }
    assert_eq!(scene.until_count(&top, 0).await.len(), 0);
    let short = [&words[..], &["--duration", "100ms"]].concat();
    scene.ctl(&short).badly(128, "--duration");
    let text = scene.ctl(&["bench", "--mix", "get", "--duration", "100ms", "--path", &top]).well();
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        text.lines().last().unwrap().contains('█'),
        "the fullest bucket of a histogram: {text}"
    );
    scene.ctl(&["bench", "--mix", "frob"]).badly(128, "frob");
    scene.ctl(&["bench", "--path", "/nothing"]).badly(1, "does not exist");
    scene.until_count(&top, 0).await;
    for name in ["INT", "TERM", "HUP"] {
        let bench = scene.begin(&["bench", "--mix", "get", "--duration", "10m", "--path", &top]);
        scene.until_count(&top, 1).await;
        signal(&bench, name);
        assert_eq!(ended(bench).code, code_of(name), "{name}");
        scene.until_count(&top, 0).await;
    }
}
