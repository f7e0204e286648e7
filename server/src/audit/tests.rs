use std::path::Path;

use serde_json::{Value, json};
use zoolet_jute::{Acl, CreateMode, ErrorCode, Id, SessionId, Xid, Zxid, perms};
use zoolet_replica::{AuditOperation, AuditedChange};
use zoolet_storage::RealDisk;

use super::*;
use crate::clock::{Now, RealClock};

/// A clock that a test sets.
#[derive(Debug, Default)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Now {
        Now { mono_ms: self.0.load(Ordering::Relaxed), wall_ms: 0 }
    }
}

fn options(directory: &Path) -> AuditOptions {
    AuditOptions {
        file: directory.join("audit-7.log"),
        file_bytes_max: 1 << 20,
        files_retained: 2,
        server: 7,
        user: "zk".to_owned(),
    }
}

fn open(options: AuditOptions, disk: Arc<dyn Disk>) -> (AuditLog, Arc<AuditCounts>) {
    open_at(options, disk, Arc::new(RealClock::new()))
}

fn open_at(
    options: AuditOptions,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
) -> (AuditLog, Arc<AuditCounts>) {
    let counts = Arc::new(AuditCounts::default());
    let seams = (disk, clock);
    (AuditLog::open(options, seams, Arc::clone(&counts), Fatal::default()).unwrap(), counts)
}

fn change(operation: AuditOperation, path: &str) -> AuditedChange {
    AuditedChange { operation, path: Some(path.to_owned()), mode: None, acl: None }
}

fn event(changes: Vec<AuditedChange>) -> AuditEvent {
    let identities = Arc::from([Id::new("ip", "10.0.0.1"), Id::new("digest", "alice:hash")]);
    let (session, cxid, zxid) = (SessionId(0x1234), Xid(5), Some(Zxid(0x1_0000_0009)));
    AuditEvent { session, identities, cxid, zxid, changes, error: None }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_has_apaches_keys_and_no_hash_of_a_password() {
    let directory = tempfile::tempdir().unwrap();
    let (log, counts) = open(options(directory.path()), Arc::new(RealDisk));
    let created = change(AuditOperation::Create, "/a0000000001");
    let created = AuditedChange { mode: Some(CreateMode::PersistentSequential), ..created };
    log.started();
    log.record(1_700_000_000_123, event(vec![created]));
    let id = Id::new("digest", "bob:secret");
    let acl = Some(vec![Acl { perms: perms::READ | perms::ADMIN, id }]);
    let refused = AuditedChange { acl, ..change(AuditOperation::SetAcl, "/b") };
    let refused = AuditEvent { error: Some(ErrorCode::NoAuth), ..event(vec![refused]) };
    log.record(1_700_000_000_124, refused);
    let own = AuditEvent {
        identities: Arc::from([]),
        ..event(vec![change(AuditOperation::EphemeralDelete, "/e")])
    };
    log.record(1_700_000_000_125, own);
    log.stops();
    log.close();
    let lines = lines(&directory.path().join("audit-7.log"));
    assert_eq!(
        lines[1],
        json!({
            "time": "2023-11-14T22:13:20.123Z", "server": 7, "session": "0x1234",
            "user": "10.0.0.1,alice", "ip": "10.0.0.1", "operation": "create",
            "znode": "/a0000000001", "znode_type": "persistent_sequential", "result": "success",
            "zxid": "0x100000009", "cxid": 5, "identities": ["ip:10.0.0.1", "digest:alice"],
        })
    );
    assert_eq!(lines[2]["acl"], "digest:bob:ra");
    assert_eq!((&lines[2]["result"], &lines[2]["error"]), (&json!("failure"), &json!("NoAuth")));
    assert_eq!((&lines[3]["user"], &lines[3]["ip"]), (&json!("zk"), &Value::Null));
    let operations: Vec<_> = lines.iter().map(|line| line["operation"].as_str().unwrap()).collect();
    let ephemeral = "ephemeralZNodeDeletionOnSessionCloseOrExpire";
    assert_eq!(operations, ["serverStart", "create", "setAcl", ephemeral, "serverStop"]);
    assert_eq!(
        (lines[0]["user"].as_str(), lines[4]["result"].as_str()),
        (Some("zk"), Some("invoked"))
    );
    assert_eq!((counts.written(), counts.lost()), (5, 0));
}

/// A path, a user or an ACL that a client has made up can neither begin a line nor act on a terminal.
#[test]
fn what_clients_send_cannot_forge_lines() {
    let forged =
        "/a\n{\"operation\":\"delete\"}\r\u{1b}[2J\u{7f}\u{9b}1m\u{2028}\u{202e}\u{feff}\"\\ü😀";
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = open(options(directory.path()), Arc::new(RealDisk));
    let identities = Arc::from([Id::new("digest", format!("{forged}:hash"))]);
    log.record(0, AuditEvent { identities, ..event(vec![change(AuditOperation::Delete, forged)]) });
    log.close();
    let path = directory.path().join("audit-7.log");
    let text = std::fs::read_to_string(&path).unwrap();
    let stays = |it: char| it == '\n' || matches!(it, ' '..='~') || matches!(it, 'ü' | '😀');
    assert!(text.chars().all(stays), "{text:?}");
    let lines = lines(&path);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["znode"], forged);
}

/// A line had a path of a megabyte: small requests of a client wrote gigabytes.
#[test]
fn a_line_is_bounded_whatever_a_client_sends() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = open(options(directory.path()), Arc::new(RealDisk));
    let long = "x".repeat(1 << 20);
    let identities = (0..100).map(|it| Id::new("digest", format!("{it}{}:hash", &long[..600])));
    let acl = Some(vec![Acl { perms: perms::READ, id: Id::new("digest", long.clone()) }]);
    let changed = AuditedChange { acl, ..change(AuditOperation::SetAcl, &long) };
    log.record(0, AuditEvent { identities: identities.collect(), ..event(vec![changed]) });
    log.close();
    let path = directory.path().join("audit-7.log");
    assert!(std::fs::metadata(&path).unwrap().len() < 20_000);
    let line = &lines(&path)[0];
    assert_eq!(line["znode"], format!("{}…[1048576 bytes]", &long[..4096]));
    for (key, end) in [("user", "…[60289 bytes]"), ("acl", "…[1048585 bytes]")] {
        assert!(line[key].as_str().unwrap().ends_with(end), "{key}: {}", line[key]);
    }
    let identities = line["identities"].as_array().unwrap();
    assert_eq!((identities.len(), &identities[6]), (7, &json!("…[100 identities]")));
}

#[test]
fn a_full_file_is_put_aside_and_the_oldest_ones_go() {
    let directory = tempfile::tempdir().unwrap();
    let options = AuditOptions { file_bytes_max: 1000, ..options(directory.path()) };
    let (log, counts) = open(options, Arc::new(RealDisk));
    for number in 0..100 {
        log.record(0, event(vec![change(AuditOperation::SetData, &format!("/{number}"))]));
        // Lines that are queued together are written together.
        while counts.written() <= number {
            std::thread::yield_now();
        }
    }
    log.close();
    let mut all = Vec::new();
    for name in ["audit-7.log.2", "audit-7.log.1", "audit-7.log"] {
        let path = directory.path().join(name);
        assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
        all.extend(lines(&path).iter().map(|line| line["znode"].as_str().unwrap().to_owned()));
    }
    let first = 100 - all.len();
    assert!(first > 0);
    let expected: Vec<_> = (first..100).map(|number| format!("/{number}")).collect();
    assert_eq!(all, expected, "no line is missing, and they are in order");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn a_renamed_file_and_a_torn_line_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit-7.log");
    std::fs::write(&path, "{\"torn\":").unwrap();
    let (log, _) = open(options(directory.path()), Arc::new(RealDisk));
    log.record(0, event(vec![change(AuditOperation::Delete, "/old")]));
    log.reopen();
    log.close();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"torn\":\n{\"time\""), "{text}");

    let (log, _) = open(options(directory.path()), Arc::new(RealDisk));
    let away = directory.path().join("away");
    std::fs::rename(&path, &away).unwrap();
    log.record(0, event(vec![change(AuditOperation::Delete, "/away")]));
    log.reopen();
    log.record(0, event(vec![change(AuditOperation::Delete, "/new")]));
    log.close();
    assert!(std::fs::read_to_string(&away).unwrap().ends_with("\"digest:alice\"]}\n"));
    let lines = lines(&path);
    assert_eq!((lines.len(), &lines[0]["znode"]), (1, &json!("/new")));
}

/// A log rotation had moved the whole directory: the log was said to be opened again, and all later
/// lines went to the moved file, when the directory was there again, too.
#[test]
fn a_renamed_file_stays_in_use_until_its_name_can_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let (logs, moved) = (directory.path().join("logs"), directory.path().join("moved"));
    let clock = Arc::new(SetClock::default());
    // Each line would begin a file, in the directory that is missing.
    let options = AuditOptions { file_bytes_max: 1, ..options(&logs) };
    let (log, counts) = open_at(options, Arc::new(RealDisk), Arc::clone(&clock) as _);
    let mut number = 0;
    let mut write = |path: &str| {
        log.record(0, event(vec![change(AuditOperation::Delete, path)]));
        number += 1;
        while counts.written() < number {
            std::thread::yield_now();
        }
    };
    std::fs::rename(&logs, &moved).unwrap();
    log.reopen();
    write("/missing");
    std::fs::create_dir(&logs).unwrap();
    write("/too-early");
    clock.0.fetch_add(REOPEN_PAUSE_MS, Ordering::Relaxed);
    write("/there");
    write("/aside");
    log.close();
    let paths = |file: PathBuf| -> Vec<Value> {
        lines(&file).iter().map(|line| line["znode"].clone()).collect()
    };
    assert_eq!(paths(moved.join("audit-7.log")), ["/missing", "/too-early"]);
    assert_eq!(paths(logs.join("audit-7.log.1")), ["/there"]);
    assert_eq!(paths(logs.join("audit-7.log")), ["/aside"]);
    assert_eq!(counts.lost(), 0);
}

/// A directory that is gone stands for a disk that fails: the server goes on, and the log mentions the gap.
#[test]
fn what_a_failing_disk_loses_is_counted_and_mentioned() {
    let directory = tempfile::tempdir().unwrap();
    let logs = directory.path().join("logs");
    // Each line begins a file, which needs the directory.
    let options = AuditOptions { file_bytes_max: 1, ..options(&logs) };
    let (log, counts) = open(options, Arc::new(RealDisk));
    log.record(0, event(vec![change(AuditOperation::Delete, "/first")]));
    while counts.written() < 1 {
        std::thread::yield_now();
    }
    std::fs::remove_dir_all(&logs).unwrap();
    for _ in 0..3 {
        log.record(0, event(vec![change(AuditOperation::Delete, "/lost")]));
    }
    while counts.lost() < 3 {
        std::thread::yield_now();
    }
    std::fs::create_dir(&logs).unwrap();
    log.record(0, event(vec![change(AuditOperation::Delete, "/kept")]));
    log.close();
    let lines = lines(&logs.join("audit-7.log"));
    assert_eq!((&lines[0]["operation"], &lines[0]["lost"]), (&json!("auditLog"), &json!(3)));
    assert_eq!(lines[1]["znode"], "/kept");
    assert_eq!((counts.written(), counts.lost()), (2, 3));
}

#[test]
fn what_the_queue_cannot_hold_is_lost_and_not_waited_for() {
    let queue = Queue {
        bytes: AtomicUsize::new(0),
        unmentioned: AtomicU64::new(0),
        counts: Arc::new(AuditCounts::default()),
    };
    // Nothing takes the messages.
    let (messages, _received) = channel();
    let thread = Arc::new(Mutex::new(None));
    let log =
        AuditLog { messages, queue: Arc::new(queue), thread, clock: Arc::new(RealClock::new()) };
    let path = "/".repeat(1 << 20);
    for _ in 0..40 {
        log.record(0, event(vec![change(AuditOperation::Delete, &path)]));
    }
    let counts = &log.queue.counts;
    assert!((8..=9).contains(&counts.lost()), "{} of 40 MiB", counts.lost());
    assert!(log.queue.bytes.load(Ordering::Relaxed) <= QUEUED_BYTES_MAX);
}
