//! The shell, with a script instead of a person.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;

use zoolet_tests::scenes::{Scene, soon};
use zoolet_tests::zooletctl;
use zoolet_torture::proxy::Proxy;

use crate::harness::{CtlScene, ended, start};

pub(crate) async fn a_script_is_carried_out_line_by_line(scene: &Scene) {
    let top = scene.znode().await;
    let script = format!(
        "# a comment\n\n\
         create {top}/a 'two words'\n\
         get {top}/a\n\
         set -v 0 {top}/a \"say \\\"x\\\"\"\n\
         redo 2\n\
         create -e -s {top}/a/e- x\n\
         getEphemerals {top}\n\
         ls {top} --json\n\
         addauth digest user:secret\n\
         whoami\n\
         getAllChildrenNumber {top}\n\
         sync {top}\n\
         printwatches\n\
         version\n\
         history\n\
         help create\n\
         ls --help\n\
         locks {top}\n\
         quit\n\
         create {top}/after-quit\n"
    );
    let out = scene.script(&script).well();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], format!("Created {top}/a"));
    assert_eq!(lines[1], "two words");
    assert_eq!(lines[2], "say \"x\"", "the get again");
    assert_eq!(lines[3], format!("Created {top}/a/e-0000000000"));
    assert_eq!(lines[4], format!("{top}/a/e-0000000000"));
    assert!(lines[5].starts_with("{\"children\":[\"a\"]"), "{}", lines[5]);
    let identities = &lines[6..8];
    assert!(identities.contains(&"digest: user"), "{identities:?}");
    assert_eq!(lines[8], "2");
    assert!(lines[9].starts_with("Sync is OK"));
    assert_eq!(lines[10], "printwatches is on");
    assert!(lines[11].starts_with("zooletctl "));
    assert_eq!(lines[12], format!("1 - create {top}/a 'two words'"));
    assert_eq!(lines[15], format!("4 - get {top}/a"));
    assert!(!out.contains("secret"), "a password is not remembered");
    assert!(out.contains("Usage: create "), "{out}");
    assert!(out.contains("Usage: ls "), "{out}");
    assert!(out.contains("\nno locks; --all shows"), "{out}");
    scene.ctl(&["stat", &format!("{top}/after-quit")]).badly(1, "does not exist");
}

pub(crate) async fn watches_fire_in_the_shell(scene: &Scene) {
    let top = scene.znode().await;
    let script = format!(
        "get -w {top}\nset {top} x\nset {top} y\n\
         stat -w {top}/a\ncreate {top}/a\n\
         ls -w {top}\nremovewatches -c {top}\ncreate {top}/b\nremovewatches -c {top}\n\
         addWatch -m PERSISTENT {top}\nset {top} z\nset {top} z\nremovewatches -p {top}\nset {top} z\n\
         printwatches off\nget -w {top}\nset {top} z\nprintwatches\n"
    );
    let said = scene.script(&script);
    let events: Vec<&str> = said.out.lines().filter(|line| line.contains("WatchedEvent")).collect();
    let expected = [
        format!("WatchedEvent type:NodeDataChanged path:{top} "),
        format!("WatchedEvent type:NodeCreated path:{top}/a "),
        format!("WatchedEvent type:NodeDataChanged path:{top} "),
        format!("WatchedEvent type:NodeDataChanged path:{top} "),
    ];
    assert_eq!(events.len(), expected.len(), "{said:?}");
    for (event, expected) in events.iter().zip(&expected) {
        assert!(event.starts_with(expected), "{event}: {expected}");
    }
    assert_eq!(said.code, Some(1), "the second removewatches finds nothing");
    assert_eq!(said.err.matches("no such watch").count(), 1, "{said:?}");
    assert!(said.out.ends_with("printwatches is off\n"), "{said:?}");
}

pub(crate) async fn a_watch_is_forgotten_while_no_server_can_be_reached(scene: &Scene) {
    let path = scene.znode().await;
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let mut command = zooletctl::command().unwrap();
    command.env("ZOOLETCTL_SERVERS", proxy.connect_string());
    command.args(["--timeout", "4s", "--session-timeout", "20s"]).stdin(Stdio::piped());
    let mut child = start(&mut command);
    let (mut lines, err) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
    writeln!(lines, "addWatch {path}\ncreate {path}/before").unwrap();
    scene.until_count(&path, 1).await;

    proxy.cut();
    writeln!(lines, "removewatches {path}\nremovewatches -l {path}").unwrap();
    let output = thread::spawn(move || {
        let lines = BufReader::new(err).lines().map(Result::unwrap);
        lines.take_while(|line| !line.contains("removed here alone")).collect::<Vec<_>>()
    });
    soon("the watch is forgotten", async || output.is_finished()).await;
    let output = output.join().unwrap();
    assert_eq!(output.iter().filter(|line| line.starts_with("Error: ")).count(), 1, "{output:?}");

    proxy.heal();
    writeln!(lines, "create {path}/after").unwrap();
    scene.until_count(&path, 2).await;
    writeln!(lines, "ls {path}").unwrap();
    drop(lines);
    let out = ended(child).out;
    let events: Vec<&str> = out.lines().filter(|line| line.contains("WatchedEvent")).collect();
    assert!(events.len() == 1 && events[0].contains(&format!("path:{path}/before ")), "{out}");
    assert!(out.ends_with("after\nbefore\n"), "{out}");
}

pub(crate) async fn sessions_are_closed_and_opened(scene: &Scene) {
    let top = scene.znode().await;
    let servers = &scene.servers;
    let script = format!(
        "create -e {top}/e\nclose\nget {top}\nconnect\nls {top}\nconnect {servers}\nls {top}\n\
         connect 127.0.0.1:1\nls {top}\n"
    );
    let mut command = scene.command(&["--timeout", "2s"]);
    let mut child = start(command.stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let said = ended(child);
    assert_eq!(said.out, format!("Created {top}/e\n"), "the session took it along");
    let errors: Vec<&str> = said.err.lines().filter(|line| line.starts_with("Error: ")).collect();
    assert_eq!(errors.len(), 3, "{said:?}");
    assert!(errors[0].contains("not connected") && errors[1].contains("127.0.0.1:1"), "{said:?}");
    assert_eq!(said.code, Some(2));
}

pub(crate) async fn bad_lines_do_not_stop_a_script(scene: &Scene) {
    let top = scene.znode().await;
    let script = format!(
        "frobnicate\nget\nget 'open\nset {top} -v\nredo 99\nredo 0\nget relative\nls --nope /\n\
         lock /a -- true\nhelp nothing\ncreate {top}/done\n"
    );
    let said = scene.script(&script);
    assert_eq!(said.out, format!("Created {top}/done\n"));
    assert_eq!(said.code, Some(128), "that of the first line");
    for why in ["frobnicate", "PATH", "not closed", "no line 99", "no line 0", "relative", "--nope"]
    {
        assert!(said.err.contains(why), "{why}: {}", said.err);
    }
    assert_eq!(said.err.matches("Error: ").count(), 10, "{}", said.err);
    let mut command = scene.command(&[]);
    let mut child = start(command.stdin(Stdio::piped()));
    let bytes = [b"get \xff\0\n", format!("ls {top}").as_bytes()].concat();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let said = ended(child);
    assert_eq!((said.code, said.out.as_str()), (Some(3), "done\n"), "{said:?}");
}
