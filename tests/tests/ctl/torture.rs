//! `torture` as a command: what it writes, how it ends, and what is left when it is interrupted.

use std::fs;

use serde_json::Value;

use crate::harness::{Scene, ended, signal, soon};

pub(crate) async fn a_torture_tells_what_it_has_found(scene: &Scene) {
    let directory = tempfile::tempdir().unwrap();
    let (report, svg) =
        (directory.path().join("report.json"), directory.path().join("holders.svg"));
    // Two are never stopped for longer than their session, so that no stale write need be refused.
    let words = ["torture", "--recipe", "mutex", "--clients", "2", "--secs", "4s", "--seed", "7"];
    let files = ["--report", report.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let said = scene.ctl(&[&words[..], &files].concat());
    assert!(said.code == Some(0) && said.err.starts_with("seed 7"), "{said:?}");
    assert!(!said.out.is_empty());
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!((&report["seed"], &report["passed"]), (&Value::from(7), &Value::from(true)));
    assert!(report["grants"]["mutex"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["violations"], Value::Array(Vec::new()));
    let picture = fs::read_to_string(svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
    assert_eq!(roots(scene).await, [""; 0]);
    scene.ctl(&["torture", "--recipe", "frob"]).badly(128, "frob");
    scene.ctl(&["torture", "--clients", "1"]).badly(128, "two contenders");
    scene.ctl(&["torture", "--up-dir", "/nowhere"]).badly(6, "up.json");
}

pub(crate) async fn an_interrupted_torture_leaves_nothing(scene: &Scene) {
    let words = ["torture", "--recipe", "mutex,counter", "--clients", "2", "--secs", "10m"];
    let client = scene.client().await;
    for name in ["INT", "TERM", "HUP"] {
        let run = scene.begin(&words);
        soon("a lock in use", async || {
            let Some(root) = roots(scene).await.pop() else { return false };
            client.children(&format!("/{root}/mutex/0")).await.is_ok()
        })
        .await;
        signal(&run, name);
        assert_eq!(ended(run).code, Some(5), "{name}");
        assert_eq!(roots(scene).await, [""; 0], "{name}");
    }
}

/// The znodes of runs.
async fn roots(scene: &Scene) -> Vec<String> {
    let client = scene.client().await;
    client.sync("/").await.unwrap();
    let (mut names, _) = client.children("/").await.unwrap();
    names.retain(|name| name.starts_with("torture-"));
    names
}
