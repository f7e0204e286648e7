//! The graph of waits that `locks --graph` shows.

use serde_json::{Value, json};
use zoolet_client::recipes::{Mutex, ReadWriteLock};
use zoolet_client::{Client, CreateMode, Version};
use zoolet_tests::scenes::Scene;

use crate::harness::CtlScene;
use crate::hold::number;

const UUID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4be";
const HEX: &str = "1b9d6bcdbbfd4b2d9b5dab8dfbbd4be";

/// The graph, as it is printed with this exit code.
fn graph(scene: &Scene, path: &str, code: i32) -> Value {
    let said = scene.ctl(&["--json", "locks", "--graph", path]);
    assert_eq!((said.code, said.err.as_str()), (Some(code), ""), "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

fn id(client: &Client) -> String {
    client.session().id.to_string()
}

/// Znodes as the clients of four languages write them: each holds one lock and waits for the next.
pub(crate) async fn a_cycle_through_every_family_is_a_deadlock(scene: &Scene) {
    let top = scene.znode().await;
    let names = [
        format!("_c_{UUID}0-lock-"),
        format!("{HEX}0__lock__"),
        format!("_c_{HEX}0-lock-"),
        "x-0100000000000000-".to_owned(),
    ];
    let mut clients = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let path = format!("{top}/{at}");
        let client = scene.client().await;
        client.create(&path, b"", CreateMode::Persistent).await.unwrap();
        number(&client, &format!("{path}/{name}")).await;
        clients.push(client);
    }
    // Another one of the same form. The last one closes the circle.
    let waits = async |at: usize| {
        let lock = (at + 1) % clients.len();
        let name = names[lock].replace('0', "a").replace("x-a1", "x-01");
        number(&clients[at], &format!("{top}/{lock}/{name}")).await
    };
    for at in 0..3 {
        waits(at).await;
    }
    let chain = graph(scene, &top, 0);
    assert_eq!(chain["waits"].as_array().unwrap().len(), 3, "{chain}");
    assert_eq!(chain["deadlocks"], json!([]), "{chain}");
    let first =
        chain["waits"].as_array().unwrap().iter().find(|it| it["session"] == id(&clients[0]));
    let first = first.unwrap();
    assert_eq!(first["lock"], format!("{top}/1"), "{chain}");
    assert_eq!(first["for"][0]["session"], id(&clients[1]), "{chain}");
    assert_eq!(first["for"][0]["holds"], true, "{chain}");
    assert!(first["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{chain}");

    let last = waits(3).await;
    let shown = graph(scene, &top, 7);
    let [cycle] = shown["deadlocks"].as_array().unwrap().as_slice() else { panic!("{shown}") };
    let turns = cycle.as_array().unwrap();
    assert_eq!(turns.len(), 4, "{shown}");
    for (at, turn) in turns.iter().enumerate() {
        assert_eq!(turn["session"], id(&clients[at]), "{shown}");
        assert_eq!(turn["holds"]["lock"], format!("{top}/{at}"), "{shown}");
        assert_eq!(turn["waits_for"]["lock"], format!("{top}/{}", (at + 1) % 4), "{shown}");
    }
    assert_eq!(turns[3]["waits_for"]["path"], last, "{shown}");

    let text = scene.ctl(&["locks", "--graph", &top]);
    assert_eq!((text.code, text.err.as_str()), (Some(7), ""), "{text:?}");
    assert!(text.out.contains("deadlock of 4 sessions"), "{text:?}");
    let turn = format!("holds {top}/3, waits for {top}/0");
    assert!(text.out.contains(&id(&clients[3])) && text.out.contains(&turn), "{text:?}");
    let dot = scene.ctl(&["locks", "--graph", "--dot", &top]);
    assert_eq!(dot.code, Some(7), "{dot:?}");
    assert!(dot.out.starts_with("digraph locks {\n") && dot.out.ends_with("}\n"), "{dot:?}");
    assert_eq!(dot.out.matches("color=red").count(), 4, "{dot:?}");

    // Who gives up resolves it.
    clients[3].delete(&last, Version::Any).await.unwrap();
    assert_eq!(graph(scene, &top, 0)["deadlocks"], json!([]));
}

/// Two tasks that hold with the client's own recipes what the other one waits for.
pub(crate) async fn recipes_that_wait_for_each_other_are_a_deadlock(scene: &Scene) {
    let top = scene.znode().await;
    let (mutex, shared) = (format!("{top}/mutex"), format!("{top}/shared"));
    let (one, other) = (scene.client().await, scene.client().await);
    let held = Mutex::new(&one, &mutex).acquire().await.unwrap();
    let read = ReadWriteLock::new(&other, &shared).read().await.unwrap();
    let write = tokio::spawn({
        let one = one.clone();
        let shared = shared.clone();
        async move { ReadWriteLock::new(&one, &shared).write().await }
    });
    scene.until_count(&shared, 2).await;
    assert_eq!(graph(scene, &top, 0)["waits"].as_array().unwrap().len(), 1);
    let again = tokio::spawn({
        let other = other.clone();
        let mutex = mutex.clone();
        async move { Mutex::new(&other, &mutex).acquire().await }
    });
    scene.until_count(&mutex, 2).await;
    let shown = graph(scene, &top, 7);
    let turns = &shown["deadlocks"][0];
    assert_eq!(
        (&turns[0]["session"], &turns[1]["session"]),
        (&json!(id(&one)), &json!(id(&other)))
    );
    // The holder of the mutex loses it, and the other one goes on.
    let released = scene.ctl(&["locks", "--release", &mutex, "--yes"]).well();
    assert!(released.contains(&id(&one)), "{released}");
    held.lost().await;
    let got = again.await.unwrap().unwrap();
    assert_eq!(graph(scene, &top, 0)["deadlocks"], json!([]));
    got.release().await.unwrap();
    read.release().await.unwrap();
    write.await.unwrap().unwrap().release().await.unwrap();
    let none = scene.ctl(&["locks", "--graph", &top]).well();
    assert_eq!(none, "no one waits\n");
}

pub(crate) async fn who_waits_for_itself_is_named_and_names_are_escaped(scene: &Scene) {
    let top = scene.znode().await;
    let client = scene.client().await;
    let path = format!("{top}/a\u{202e}b\"");
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    for role in ["READ", "WRIT"] {
        number(&client, &format!("{path}/_c_{UUID}0-__{role}__")).await;
    }
    let shown = graph(scene, &top, 0);
    assert_eq!(shown["wait_for_themselves"][0]["session"], id(&client), "{shown}");
    assert_eq!(shown["wait_for_themselves"][0]["lock"], path, "{shown}");
    let text = scene.ctl(&["locks", "--graph", &top]).well();
    assert!(text.contains("! ") && text.contains("a\\u{202e}b"), "{text}");
    assert!(!text.contains('\u{202e}'), "{text}");
    let dot = scene.ctl(&["locks", "--graph", "--dot", &top]).well();
    assert!(dot.contains(r#"a\\u{202e}b\""#), "{dot}");
    scene.ctl(&["--json", "locks", "--graph", "--dot"]).badly(128, "--dot and --json");
    scene.ctl(&["locks", "--dot"]).badly(128, "--graph");
    scene.ctl(&["locks", "--graph", "/nothing"]).badly(1, "does not exist");
}
