//! What an operator, or a client with `reconfig`, writes by hand: `cluster.toml`, `zoo.cfg`, lists
//! of members. The first byte says which; wrong text is an error that names the file, never a
//! panic.
#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zoolet_server::embed::config::{load, load_ensemble, to_cluster_toml};
use zoolet_server::internals::{change_members, parse_members};

thread_local! {
    static DIRECTORY: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    match choice % 3 {
        0 => with_file("cluster.toml", text, toml),
        1 => with_file("zoo.cfg", text, zoo),
        _ => members(text),
    }
});

fn with_file(name: &str, text: &[u8], read: fn(&Path)) {
    DIRECTORY.with_borrow_mut(|directory| {
        let directory = directory.get_or_insert_with(|| TempDir::new().expect("a directory"));
        let path = directory.path().join(name);
        fs::write(&path, text).expect("a small file");
        read(&path);
    });
}

fn toml(path: &Path) {
    for id in [None, Some(1)] {
        if let Err(error) = load(path, id) {
            assert!(error.to_string().contains("cluster.toml"), "{error}");
        }
    }
    let Ok((servers, _)) = load_ensemble(path) else { return };
    // What is written for it is read as the same.
    fs::write(path, to_cluster_toml(&servers)).expect("a small file");
    let (again, _) = load_ensemble(path).expect("its own text");
    assert_eq!(again, servers);
}

fn zoo(path: &Path) {
    for id in [None, Some(1)] {
        if let Err(error) = load(path, id) {
            assert!(!error.to_string().is_empty());
        }
    }
}

fn members(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut parts = text.splitn(3, '\u{1}');
    let Ok(members) = parse_members(parts.next().unwrap_or_default()) else { return };
    let lines = members.iter().map(|(id, member)| format!("server.{id}={member}\n"));
    assert_eq!(parse_members(&lines.collect::<String>()).as_ref(), Ok(&members));
    let _ = change_members(&members, parts.next(), parts.next());
}
