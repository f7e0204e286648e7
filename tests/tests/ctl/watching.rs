//! What `locks --watch` shows.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use zoolet_client::{ClientOptions, CreateMode, Version};
use zoolet_tests::scenes::{SOON, Scene};
use zoolet_tests::tools;
use zoolet_torture::proxy::Proxy;

use crate::harness::{CtlScene, command, said, signal, start};
use crate::hold::number;
use crate::terminal::on_terminal;

const UUID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4be";

/// The lines of a command that goes on, as they come.
struct Shown {
    child: Child,
    lines: Receiver<String>,
}

impl Shown {
    fn start(servers: &str, words: &[&str]) -> Self {
        let mut child = start(command(servers, words).stdin(Stdio::null()));
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line that is like this.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = String::new();
        while let Ok(line) = self.lines.recv_timeout(SOON) {
            let value: Value = serde_json::from_str(&line).unwrap();
            if is_so(&value) {
                return value;
            }
            last = line;
        }
        panic!("not shown: {what}; the last line is {last}")
    }
}

pub(crate) async fn locks_are_shown_again_and_again(scene: &Scene) {
    let top = scene.znode().await;
    let path = format!("{top}/lock");
    let (holder, waiter) = (scene.client().await, scene.client().await);
    holder.create(&path, b"", CreateMode::Persistent).await.unwrap();
    let name = format!("{path}/_c_{UUID}0-lock-");
    let held = number(&holder, &name).await;
    let watch = ["--json", "locks", "--watch", "--interval", "200ms", &top];
    let mut shown = Shown::start(&scene.servers, &watch);
    let one = shown.until("one that holds", |it| it["locks"][0]["holders"] == 1);
    let lock = &one["locks"][0];
    assert_eq!((&lock["path"], &lock["queue"]), (&json!(path), &json!(0)), "{one}");
    assert_eq!(lock["session"], holder.session().id.to_string(), "{one}");
    assert!(lock["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{one}");
    assert_eq!((&lock["expired"], &one["trouble"]), (&json!(0), &Value::Null), "{one}");
    // A waiter comes, and gets the lock.
    let waits = number(&waiter, &name).await;
    let two = shown.until("one that waits", |it| it["locks"][0]["queue"] == 1);
    assert!(two["locks"][0]["waited_for_ms"].as_u64().is_some(), "{two}");
    holder.delete(&held, Version::Any).await.unwrap();
    let own = waiter.session().id.to_string();
    let next = shown.until("the next holder", |it| it["locks"][0]["session"] == own);
    assert!(next["locks"][0]["held_for_ms"].as_u64().is_some(), "{next}");
    waiter.delete(&waits, Version::Any).await.unwrap();
    let free = shown.until("a free lock", |it| it["locks"][0]["holders"] == 0);
    assert!(free["locks"][0]["hand_overs_per_second"].as_f64().unwrap() > 0.0, "{free}");
    // One whose program dies loses its connection first, and its lock with its session.
    let options = ClientOptions::new().session_timeout(Duration::from_secs(4));
    let dies = options.connect(&scene.servers).await.unwrap();
    number(&dies, &name).await;
    shown.until("its lock", |it| it["locks"][0]["holders"] == 1);
    let _left = dies.detach().await;
    shown.until("an expiry", |it| it["locks"][0]["expired"] == 1);
    signal(&shown.child, "INT");
    assert_eq!(shown.child.wait().unwrap().code(), Some(0));

    let mut text = scene.command(&["locks", "--watch", "--interval", "100ms", &top]);
    let mut text = start(text.stdin(Stdio::null()));
    let mut first = String::new();
    let mut output = BufReader::new(text.stdout.take().unwrap());
    while !first.ends_with("\n\n") {
        output.read_line(&mut first).unwrap();
    }
    assert!(first.starts_with(&format!("locks below {top}, every 100ms, by queue\n")), "{first}");
    assert!(!first.contains('\x1b'), "no terminal: {first}");
    signal(&text, "TERM");
    assert_eq!(text.wait().unwrap().code(), Some(0));
    scene.ctl(&["locks", "--watch", "/nothing"]).badly(1, "does not exist");
    scene.script("locks --watch\n").badly(128, "a command line of its own");
    scene.ctl(&["locks", "--watch", "--interval", "1ms"]).badly(128, "100 ms");
}

/// A person sees the table, and after a key what was on the terminal before.
pub(crate) async fn a_person_watches_until_a_key_ends_it(scene: &Scene) {
    if !tools::require_foreign("a screen on a terminal", &["python3"]).unwrap() {
        return;
    }
    let top = scene.znode().await;
    let client = scene.client().await;
    number(&client, &format!("{top}/_c_{UUID}0-lock-")).await;
    let watch = ["locks", "--watch", "--interval", "200ms", &top];
    let (begin, end) = ("\x1b[?1049h", "\x1b[?1049l");
    let row = "mutex  0x";
    for (key, code) in [("q", 0), ("\x03", 0)] {
        let steps = [
            (begin, ""),
            ("by queue; s sorts, q ends", "s"),
            ("by wait", ""),
            (row, key),
            (end, ""),
        ];
        let said = said(&mut on_terminal(scene, &watch, &steps));
        assert_eq!(said.code, Some(code), "{key:?}: {said:?}");
    }
}

/// What was seen last stays, beside what went wrong, until a server answers again.
pub(crate) async fn a_lost_connection_is_shown_and_tried_again(scene: &Scene) {
    let top = scene.znode().await;
    let client = scene.client().await;
    number(&client, &format!("{top}/_c_{UUID}0-lock-")).await;
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let watch = ["--timeout", "2s", "--json", "locks", "--watch", "--interval", "200ms", &top];
    let mut shown = Shown::start(&proxy.connect_string(), &watch);
    let is_well = |it: &Value| it["trouble"].is_null() && it["locks"][0]["holders"] == 1;
    shown.until("a lock", is_well);
    proxy.cut();
    let lost = shown.until("trouble", |it| !it["trouble"].is_null());
    assert_eq!(lost["locks"][0]["holders"], 1, "{lost}");
    proxy.heal();
    shown.until("the lock again", is_well);
    signal(&shown.child, "TERM");
    assert_eq!(shown.child.wait().unwrap().code(), Some(0));
}
