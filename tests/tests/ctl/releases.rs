//! Locks that are taken away from their holders with `locks --release`.

use std::fs;

use serde_json::json;
use zoolet_client::{CreateMode, Version};
use zoolet_tests::scenes::{Scene, soon};
use zoolet_tests::tools;

use crate::harness::{CtlScene, ended, said, start};
use crate::hold::number;
use crate::terminal::{GATE, on_terminal};

const UUID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4be";
const HEX: &str = "1b9d6bcdbbfd4b2d9b5dab8dfbbd4be";

pub(crate) async fn the_holder_loses_its_place_and_no_one_else(scene: &Scene) {
    let (holder, waiter) = (scene.client().await, scene.client().await);
    for name in [
        format!("_c_{UUID}0-lock-"),
        format!("{HEX}0__lock__"),
        format!("_c_{HEX}0-lock-"),
        "x-0100000000000000-".to_owned(),
        "x-72057594037927936-".to_owned(),
        "n_".to_owned(),
    ] {
        let path = scene.znode().await;
        let held = number(&holder, &format!("{path}/{name}")).await;
        let waits = number(&waiter, &format!("{path}/{name}")).await;
        scene.ctl(&["locks", "--release", &path]).badly(128, "add --yes");
        let released = scene.json(&["locks", "--release", &path, "--yes"]);
        assert_eq!((&released["path"], &released["held"]), (&json!(held), &json!(true)));
        assert_eq!(released["session"], holder.session().id.to_string(), "{released}");
        assert!(released["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{released}");
        assert!(holder.exists(&held).await.unwrap().is_none(), "{name}");
        assert!(waiter.exists(&waits).await.unwrap().is_some(), "{name}");
        let text = scene.ctl(&["locks", "--release", &path, "--yes"]).well();
        assert!(text.contains(&format!("{path}: deleted {waits} of session")), "{text}");
        assert!(text.contains("audit logs have it as a delete by session 0x"), "{text}");
        scene.ctl(&["locks", "--release", &path, "--yes"]).badly(1, "no lock found");
    }
}

pub(crate) async fn one_of_several_places_is_named(scene: &Scene) {
    let path = scene.znode().await;
    let (one, other) = (scene.client().await, scene.client().await);
    let read = |role: &str| format!("{path}/_c_{UUID}0-__{role}__");
    let first = number(&one, &read("READ")).await;
    let second = number(&other, &read("READ")).await;
    let writer = number(&other, &read("WRIT")).await;
    let release = ["locks", "--release", &path, "--yes"];
    let several = scene.ctl(&release);
    assert!(several.err.contains(&first) && several.err.contains(&second), "{several:?}");
    several.badly(3, "2 places are meant");
    let (own, others) = (one.session().id.to_string(), other.session().id.to_string());
    scene.ctl(&[&release[..], &["--session", &others]].concat()).badly(3, "2 places are meant");
    scene.ctl(&[&release[..], &["--session", "0x1"]].concat()).badly(1, "0x1 has no place");
    scene.ctl(&[&release[..], &["--session", "x"]].concat()).badly(128, "as it is shown");
    // One that waits may be meant as well.
    let name = writer.rsplit('/').next().unwrap();
    scene.ctl(&[&release[..], &["--znode", name]].concat()).well();
    assert!(one.exists(&writer).await.unwrap().is_none());
    scene.ctl(&[&release[..], &["--session", &own]].concat()).well();
    assert!(one.exists(&first).await.unwrap().is_none());
    assert!(one.exists(&second).await.unwrap().is_some());
}

/// The znode of a simple lock has the same name for every holder; kazoo's permit for every hold of one
/// program.
pub(crate) async fn a_name_that_comes_again_is_refused(scene: &Scene) {
    let path = scene.znode().await;
    let client = scene.client().await;
    let simple = format!("{path}/simple");
    client.create(&simple, b"", CreateMode::Ephemeral).await.unwrap();
    scene.ctl(&["locks", "--release", &simple, "--yes"]).badly(4, "the same name");
    client.create(&format!("{path}/{HEX}0"), b"", CreateMode::Ephemeral).await.unwrap();
    scene.ctl(&["locks", "--release", &path, "--yes"]).badly(4, "the same name");
    assert!(client.exists(&simple).await.unwrap().is_some());
}

/// Both znodes of a lock for Curator and kazoo go, and the command under it ends.
pub(crate) async fn a_command_ends_when_its_lock_is_released(scene: &Scene) {
    let path = scene.znode().await;
    let holder = scene.begin(&["lock", &path, "--", "sleep", "60"]);
    scene.until_count(&path, 2).await;
    let released = scene.json(&["locks", "--release", &path, "--yes"]);
    assert_eq!(released["held"], true, "{released}");
    assert_eq!(ended(holder).code, Some(125), "lost");
    assert_eq!(scene.until_count(&path, 0).await.len(), 0);
}

/// The holder that was shown is meant, and not the next one.
pub(crate) async fn a_person_is_asked_and_a_later_holder_is_left_alone(scene: &Scene) {
    if !tools::require_foreign("a question on a terminal", &["python3"]).unwrap() {
        return;
    }
    let path = scene.znode().await;
    let client = scene.client().await;
    let name = format!("{path}/_c_{UUID}0-lock-");
    let held = number(&client, &name).await;
    let ask = "delete its znode? [y/N] ";
    let release = ["locks", "--release", &path];
    let refused = said(&mut on_terminal(scene, &release, &[("held by session", ""), (ask, "\r")]));
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(client.exists(&held).await.unwrap().is_some());
    let agreed = said(&mut on_terminal(scene, &release, &[(ask, "y\r"), ("deleted", "")]));
    assert_eq!(agreed.code, Some(0), "{agreed:?}");
    assert!(client.exists(&held).await.unwrap().is_none());

    // While the question is there, the holder gives the lock up, and another one takes it.
    let held = number(&client, &name).await;
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    let steps = [(ask, GATE), ("", "y\r"), ("gone by itself", "")];
    let asking = start(on_terminal(scene, &release, &steps).env(GATE, &gate));
    soon("the question", async || gate.exists()).await;
    client.delete(&held, Version::Any).await.unwrap();
    let next = number(&client, &name).await;
    fs::remove_file(&gate).unwrap();
    assert_eq!(ended(asking).code, Some(1));
    assert!(client.exists(&next).await.unwrap().is_some());
}
