//! Each operation's checks and effects, by section of the protocol.

use CreateMode::{
    Container, Ephemeral, EphemeralSequential, Persistent, PersistentSequential, PersistentWithTtl,
};
use ErrorCode::{
    BadArguments, BadVersion, NoChildrenForEphemerals, NoNode, NodeExists, NotEmpty,
    ReconfigDisabled, RuntimeInconsistency, SessionExpired, SessionMoved, Unimplemented,
};

use super::*;
use crate::{Boot, Term};

#[test]
fn a_fresh_state_has_the_built_in_znodes_protocol_6_2() {
    let state = State::new();
    assert_eq!(state.node_count(), 4);
    for path in ["/", "", "/zookeeper", "/zookeeper/quota"] {
        assert_eq!(state.acl(path).as_deref(), Some(&*Acl::open()), "{path}");
        assert_eq!(state.data(path), Some(Bytes::new()), "{path}");
    }
    assert_eq!(
        state.acl("/zookeeper/config").as_deref(),
        Some(&*crate::state::access::read_only())
    );
    assert_eq!(state.stat("/").map(|stat| (stat.cversion, stat.num_children)), Some((-1, 1)));
    assert_eq!(state.stat("/zookeeper").map(|stat| stat.cversion), Some(-2));
    assert_eq!(state.stat("/zookeeper/config").map(|stat| stat.aversion), Some(-1));
    assert_eq!(state.digest(), state.digest_recomputed());
}

#[test]
fn create_checks_in_the_order_of_protocol_2_1() {
    let mut bench = Bench::new();
    bench.create("/e", Ephemeral).expect("new");
    let cases: [(&str, i32, Option<Vec<Acl>>, ErrorCode); 14] = [
        ("bad", 7, None, BadArguments),
        ("bad", 5, None, Unimplemented),
        ("bad", 0, None, BadArguments),
        ("/a\0", 0, None, BadArguments),
        ("/no/x", 0, None, ErrorCode::InvalidAcl),
        ("/no/x", 0, Some(vec![]), ErrorCode::InvalidAcl),
        ("/no/x", 0, Some(Acl::open()), NoNode),
        ("/a//b", 0, Some(Acl::open()), NoNode),
        ("//b", 0, Some(Acl::open()), BadArguments),
        ("/a/", 0, Some(Acl::open()), NoNode),
        ("/zookeeper/", 0, Some(Acl::open()), BadArguments),
        ("/", 0, Some(Acl::open()), NodeExists),
        ("/e", 0, Some(Acl::open()), NodeExists),
        ("/e/x", 1, Some(Acl::open()), NoChildrenForEphemerals),
    ];
    for (path, flags, acl, expected) in cases {
        let body = CreateRequest { path: path.into(), data: None, acl, flags };
        assert_eq!(bench.write(Request::Create(body)), Err(expected), "{path:?} {flags}");
    }
}

#[test]
fn the_op_decides_over_container_and_ttl_protocol_2_1_and_11_2() {
    let mut bench = Bench::new();
    let plain = create_body("/c", b"", Persistent);
    bench.write(Request::CreateContainer(plain)).expect("a container");
    bench.create("/p", Container).expect("a plain znode");
    assert_eq!(bench.state.tree.reapable(znode::ZnodeId::ROOT).count(), 1);

    let ttl = |mode, ttl_ms| Request::CreateTtl(ttl_body("/t", mode, ttl_ms));
    assert_eq!(bench.write(ttl(PersistentWithTtl, 5)), Err(Unimplemented));
    bench.policy.extended_types = true;
    for ttl_ms in [0, -1, i64::MIN, 1 << 40] {
        assert_eq!(bench.write(ttl(PersistentWithTtl, ttl_ms)), Err(BadArguments), "{ttl_ms}");
    }
    // Apache's applier crashes on these two (protocol §19).
    assert_eq!(bench.write(ttl(Persistent, -1)), Err(BadArguments));
    assert_eq!(bench.write(ttl(Ephemeral, -1)), Err(BadArguments));
    let flags_5 = create_body("/t", b"", PersistentWithTtl);
    assert_eq!(bench.write(Request::Create(flags_5)), Err(BadArguments));
    let Ok(Reply::PathStat(path, stat)) = bench.write(ttl(PersistentWithTtl, (1 << 40) - 1)) else {
        panic!("a TTL create answers path and Stat");
    };
    assert_eq!((path.as_str(), stat.ephemeral_owner), ("/t", SessionId::NONE));
    assert_eq!(Some(stat), bench.state.stat("/t"));
}

#[test]
fn the_stat_follows_the_table_of_protocol_4() {
    let mut bench = Bench::new();
    bench.create("/n", Persistent).expect("new");
    let created = bench.zxid();
    bench.now_ms = 2000;
    let stat = bench.set("/n", b"abc", 0).expect("version 0");
    let written = bench.zxid();
    bench.now_ms = 3000;
    bench.set_acl("/n", Acl::open()).expect("the same ACL counts as well");
    bench.create("/n/a", Ephemeral).expect("new");
    bench.create("/n/b", Persistent).expect("new");
    bench.delete("/n/a", 0).expect("there");
    let expected = Stat {
        czxid: created,
        mzxid: written,
        ctime: 1000,
        mtime: 2000,
        version: 1,
        cversion: 3,
        aversion: 1,
        ephemeral_owner: SessionId::NONE,
        data_length: 3,
        num_children: 1,
        pzxid: bench.zxid(),
    };
    assert_eq!(bench.stat("/n"), expected);
    assert_eq!((stat.version, stat.pzxid, stat.cversion), (1, created, 0));
    bench.create("/n/e", EphemeralSequential).expect("new");
    assert_eq!(bench.stat("/n/e0000000002").ephemeral_owner, SESSION);
    bench.delete("/n/b", -1).expect("there");
    bench.delete("/n/e0000000002", -1).expect("there");
    assert_eq!(bench.stat("/n").cversion, 6);
    bench.delete("/n", -1).expect("empty");
    bench.create("/n", Persistent).expect("anew");
    assert_eq!((bench.stat("/n").cversion, bench.stat("/n").version), (0, 0));
}

#[test]
fn versions_step_over_minus_one_protocol_4() {
    let mut bench = Bench::new();
    bench.create("/n", Persistent).expect("new");
    let id = bench.state.tree.find("/n").expect("there");
    bench.state.tree.change(id, |node| node.version = -2);
    assert_eq!(bench.set("/n", b"", -2).map(|stat| stat.version), Ok(0));
    bench.state.tree.change(id, |node| node.version = i32::MAX);
    assert_eq!(bench.set("/n", b"", i32::MAX).map(|stat| stat.version), Ok(i32::MIN));
}

#[test]
fn sequence_numbers_count_every_create_and_no_failed_one_protocol_5() {
    let mut bench = Bench::new();
    bench.create("/p", Persistent).expect("new");
    let sequential = |bench: &mut Bench, path: &str| bench.create(path, PersistentSequential);
    assert_eq!(sequential(&mut bench, "/p/n-"), Ok("/p/n-0000000000".into()));
    bench.create("/p/plain", Persistent).expect("new");
    bench.delete("/p/plain", -1).expect("there");
    assert_eq!(bench.create("/p/n-0000000000", Persistent), Err(NodeExists));
    assert_eq!(sequential(&mut bench, "/p/"), Ok("/p/0000000002".into()));
    let one = |path: &str, mode| MultiOp::Create(create_body(path, b"", mode));
    let failing = vec![one("/p/", PersistentSequential), one("/no/x", Persistent)];
    assert_eq!(bench.multi(failing)[1], MultiResult::Error(Some(NoNode)));
    let two = vec![one("/p/", PersistentSequential), one("/p/", PersistentSequential)];
    let path = |path: &str| MultiResult::Create { path: path.into() };
    assert_eq!(bench.multi(two), [path("/p/0000000003"), path("/p/0000000004")]);
}

#[test]
fn a_used_up_counter_refuses_and_never_gives_a_number_twice_protocol_5() {
    let mut bench = Bench::new();
    bench.create("/p", Persistent).expect("new");
    let id = bench.state.tree.find("/p").expect("there");
    bench.state.tree.change(id, |node| node.created = i32::MAX as u32);
    assert_eq!(bench.create("/p/", PersistentSequential), Ok("/p/2147483647".into()));
    bench.delete("/p/2147483647", -1).expect("there");
    assert_eq!(bench.create("/p/", PersistentSequential), Err(BadArguments));
    assert_eq!(bench.create("/p/plain", Persistent), Ok("/p/plain".into()));
    bench.state.tree.change(id, |node| node.created = u32::MAX);
    bench.create("/p/more", Persistent).expect("a name of its own");
    assert_eq!(bench.create("/p/", PersistentSequential), Err(BadArguments));
}

#[test]
fn delete_checks_in_the_order_of_protocol_2_2() {
    let mut bench = Bench::new();
    bench.create("/a", Persistent).expect("new");
    bench.create("/a/b", Persistent).expect("new");
    let cases = [
        ("/", -1, BadArguments),
        ("/zookeeper/config", -1, BadArguments),
        ("a", -1, BadArguments),
        ("/no/x", -1, NoNode),
        ("/no", 5, NoNode),
        ("//a", -1, NoNode),
        ("/a/", -1, NoNode),
        ("/a", 1, BadVersion),
        ("/a", -2, BadVersion),
        ("/a", 0, NotEmpty),
    ];
    for (path, version, expected) in cases {
        assert_eq!(bench.delete(path, version), Err(expected), "{path}");
    }
    bench.delete("/a/b", 0).expect("there");
    let acl: Arc<[Acl]> = Acl::open().into();
    let deleted = Change::Deleted {
        path: "/a/b".into(),
        acl: acl.clone(),
        parent_acl: acl,
        owner: SessionId::NONE,
        version: 0,
    };
    assert_eq!(bench.changes, [deleted]);
    bench.delete("/a", -1).expect("empty");
    assert_eq!(bench.state.node_count(), 4);
}

#[test]
fn set_data_and_set_acl_check_in_the_order_of_protocol_2_4_and_2_5() {
    let mut bench = Bench::new();
    bench.create("/a", Persistent).expect("new");
    assert_eq!(bench.set("/a/", b"", 9), Err(BadArguments));
    assert_eq!(bench.set("", b"", 9), Err(BadArguments));
    assert_eq!(bench.set("/no", b"", 9), Err(NoNode));
    assert_eq!(bench.set("/a", b"", 9), Err(BadVersion));
    assert_eq!(bench.set("/a", b"", -2), Err(BadVersion));
    assert_eq!(bench.set("/", b"root", -1).map(|stat| stat.data_length), Ok(4));
    assert!(matches!(&bench.changes[..], [Change::DataChanged { path, .. }] if path == "/"));
    assert_eq!(bench.set_acl("/no", vec![]), Err(ErrorCode::InvalidAcl));
    assert_eq!(bench.set_acl("/no", Acl::open()), Err(NoNode));
    bench.set_acl("/a", Acl::open()).expect("there");
    assert!(matches!(&bench.changes[..], [Change::AclChanged { version: 1, .. }]));
    let stale = SetAclRequest { path: "/a".into(), acl: Some(Acl::open()), version: 0 };
    assert_eq!(bench.write(Request::SetAcl(stale)), Err(BadVersion));
}

#[test]
fn null_data_stays_null_protocol_1_2() {
    let mut bench = Bench::new();
    let body = CreateRequest { data: None, ..create_body("/null", b"", Persistent) };
    bench.write(Request::Create2(body)).expect("new");
    let Ok(Reply::Data(data, stat)) = bench.read(&Request::GetData(get("/null"))) else {
        panic!("no data");
    };
    assert_eq!((data, stat.data_length), (None, 0));
}

#[test]
fn reads_find_only_what_is_there_protocol_2_3() {
    let mut bench = Bench::new();
    bench.create("/a", Persistent).expect("new");
    bench.create("/a/b", Persistent).expect("new");
    for path in ["/a/", "//a", "a", "/a//b", "/A", "/a/b/", "///", "/no"] {
        assert_eq!(bench.read(&Request::GetData(get(path))), Err(NoNode), "{path:?}");
        assert_eq!(bench.state.stat(path), None, "{path:?}");
    }
    assert_eq!(bench.read(&Request::Exists(get("/a\0"))), Err(BadArguments));
    assert_eq!(bench.read(&Request::GetData(get("/a\0"))), Err(NoNode));
    assert_eq!(bench.read(&Request::Exists(get(""))), Ok(Reply::Stat(bench.stat("/"))));
    let children = Reply::Children(vec!["a".into(), "zookeeper".into()]);
    assert_eq!(bench.read(&Request::GetChildren(get("/"))), Ok(children));
    assert_eq!(bench.read(&Request::GetAllChildrenNumber(at("/"))), Ok(Reply::Count(5)));
    assert_eq!(bench.read(&Request::GetAllChildrenNumber(at("/a"))), Ok(Reply::Count(1)));
    assert_eq!(bench.read(&Request::GetAllChildrenNumber(at("/x"))), Err(NoNode));
}

#[test]
fn a_multi_is_all_or_nothing_protocol_10() {
    let mut bench = Bench::new();
    bench.create("/kept", Persistent).expect("new");
    let before = bench.state.tree.digest();
    let create = |path: &str| MultiOp::Create2(create_body(path, b"x", Persistent));
    let secret = vec![Acl { perms: 31, id: Id::new("digest", "a:b") }];
    let private = CreateRequest { acl: Some(secret), ..create_body("/p", b"", Ephemeral) };
    let failing = vec![
        create("/a"),
        MultiOp::SetData(set_body("/a", b"yy", 0)),
        create("/a/b"),
        MultiOp::Delete(versioned("/a/b", -1)),
        MultiOp::Delete(versioned("/kept", -1)),
        create("/kept"),
        MultiOp::CreateContainer(create_body("/c", b"", Persistent)),
        MultiOp::Create(private),
        MultiOp::Delete(versioned("/p", -1)),
        MultiOp::Delete(versioned("/a", 0)),
        create("/never"),
    ];
    let results = bench.multi(failing);
    let ahead = MultiResult::Error(None);
    assert_eq!(results[..9], vec![ahead; 9][..]);
    assert_eq!(results[9], MultiResult::Error(Some(BadVersion)));
    assert_eq!(results[10], MultiResult::Error(Some(RuntimeInconsistency)));
    assert_eq!(bench.changes, []);
    assert_eq!(bench.state.tree.digest(), before, "a multi that failed has changed the tree");
    assert_eq!(bench.state.node_count(), 5);
    assert_eq!(bench.state.tree.reapable(znode::ZnodeId::ROOT).count(), 0);
    assert_eq!(bench.state.ephemerals(SESSION), Vec::<String>::new());

    let good = vec![
        create("/a"),
        create("/a/b"),
        MultiOp::SetData(set_body("/a", b"yy", 0)),
        MultiOp::Check(versioned("/a", 1)),
        MultiOp::Delete(versioned("/a/b", 0)),
    ];
    let results = bench.multi(good);
    let MultiResult::Create2 { stat, .. } = &results[0] else { panic!("{results:?}") };
    assert_eq!((stat.num_children, stat.data_length), (0, 1), "as of that moment");
    assert_eq!(results[3..], [MultiResult::Check, MultiResult::Delete]);
    assert_eq!((bench.stat("/a").czxid, bench.stat("/a").pzxid), (bench.zxid(), bench.zxid()));
    assert_eq!(bench.changes.len(), 4);
    assert_eq!(bench.multi(vec![]), []);
}

#[test]
fn a_multi_read_fails_part_by_part_protocol_10_5() {
    let bench = Bench::new();
    let request = Request::MultiRead(Parts(vec![
        zoolet_jute::MultiReadOp::GetData(get("/no")),
        zoolet_jute::MultiReadOp::GetChildren(get("/zookeeper")),
    ]));
    let children = MultiResult::Children(vec!["config".into(), "quota".into()]);
    let expected = vec![MultiResult::Error(Some(NoNode)), children];
    assert_eq!(bench.read(&request), Ok(Reply::Multi(Parts(expected))));
}

#[test]
fn a_multi_read_is_refused_when_no_client_could_take_its_reply() {
    // A frame of 60 KB that asked for 3000 copies of a megabyte took three gigabytes, and a
    // longer one the server.
    let mut bench = Bench::new();
    bench.create("/big", Persistent).expect("new");
    bench.set("/big", &vec![b'x'; 1_000_000], -1).expect("written");
    let ask = |parts: usize| {
        let part = zoolet_jute::MultiReadOp::GetData(get("/big"));
        bench.read(&Request::MultiRead(Parts(vec![part; parts])))
    };
    let Ok(Reply::Multi(results)) = ask(33) else { panic!("33 MB are answered") };
    assert_eq!(results.0.len(), 33);
    assert_eq!(ask(34), Err(ErrorCode::MarshallingError));
}

#[test]
fn sessions_open_move_and_end_protocol_7() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(Op::CreateSession { timeout_ms: 1 }), Err(NodeExists));
    for path in ["/z", "/a", "/m"] {
        bench.create(path, Ephemeral).expect("new");
    }
    let elsewhere = Origin { server: ServerId(2), ..ORIGIN };
    bench.origin = elsewhere;
    assert_eq!(bench.create("/x", Persistent), Err(SessionMoved));
    assert_eq!(bench.run(Op::CloseSession), Err(SessionMoved));
    bench.run(Op::ResumeSession { timeout_ms: 4000 }).expect("there");
    let owner = Owner { server: ServerId(2), boot: Boot(7) };
    assert_eq!(bench.changes, [Change::SessionResumed { session: SESSION, owner }]);
    let session = Session { timeout_ms: 4000, generation: 1, owner, attachment: ProposalNumber(1) };
    assert_eq!(bench.state.session(SESSION), Some(&session));
    bench.create("/x", Persistent).expect("its own");
    assert_eq!(bench.run(Op::ExpireSession { generation: 0, term: Term(1) }), Err(BadVersion));
    assert_eq!(bench.run(Op::ExpireSession { generation: 1, term: Term(0) }), Err(BadVersion));
    bench.run(Op::ExpireSession { generation: 1, term: Term(1) }).expect("due");
    let paths: Vec<_> = bench.changes.iter().map(|change| format!("{change:?}")).collect();
    let deleted = |path: &str| format!("Deleted {{ path: {path:?}");
    for (change, path) in paths.iter().zip(["/a", "/m", "/z"]) {
        assert!(change.starts_with(&deleted(path)), "{change}, and {path} was not deleted");
    }
    assert_eq!(bench.changes.last(), Some(&Change::SessionClosed(SESSION)));
    assert_eq!(bench.stat("/").pzxid, bench.zxid());
    for op in [Op::CloseSession, Op::ResumeSession { timeout_ms: 1 }] {
        assert_eq!(bench.run(op), Err(SessionExpired));
    }
    assert_eq!(bench.create("/y", Persistent), Err(SessionExpired));
    assert_eq!(bench.state.session_count(), 0);
}

#[test]
fn ephemerals_are_listed_by_prefix_protocol_2_14() {
    let mut bench = Bench::new();
    for path in ["/ab", "/a", "/c"] {
        bench.create(path, Ephemeral).expect("new");
    }
    let list = |prefix: Option<&str>| {
        let path = prefix.map(str::to_owned);
        match bench.read(&Request::GetEphemerals(zoolet_jute::NullablePathRequest { path })) {
            Ok(Reply::Children(paths)) => paths,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(list(Some("/a")), ["/a", "/ab"]);
    for all in [None, Some(""), Some(" "), Some("/")] {
        assert_eq!(list(all), ["/a", "/ab", "/c"], "{all:?}");
    }
}

#[test]
fn a_look_for_what_is_due_goes_on_where_the_last_one_stopped() {
    let mut bench = Bench::new();
    bench.policy.extended_types = true;
    for at in 0..7 {
        let path = format!("/t{at}");
        let ttl_ms = if at == 3 { 9999 } else { 1 };
        bench.write(Request::CreateTtl(ttl_body(&path, PersistentWithTtl, ttl_ms))).expect("new");
    }
    let look = |found_max, looks_max| {
        let limits = ReapLimits { found_max, looks_max, never_used_ms: 0 };
        let (mut looks, mut from) = (Vec::new(), Some(ReapPlace::default()));
        while let Some(place) = from {
            let found = bench.state.reapable(5000, limits, place);
            looks.push(found.due);
            from = found.next;
        }
        looks
    };
    let all = [vec!["/t0", "/t1", "/t2", "/t4", "/t5", "/t6"]];
    assert_eq!(look(10, 10), all);
    assert_eq!(look(10, 7), all);
    assert_eq!(look(10, 3), [vec!["/t0", "/t1", "/t2"], vec!["/t4", "/t5"], vec!["/t6"]]);
    assert_eq!(look(4, 10), [vec!["/t0", "/t1", "/t2", "/t4"], vec!["/t5", "/t6"]]);
}

#[test]
fn containers_and_ttl_znodes_are_reaped_when_due_protocol_11() {
    let mut bench = Bench::new();
    bench.policy.extended_types = true;
    bench.write(Request::CreateContainer(create_body("/c", b"", Persistent))).expect("new");
    bench.write(Request::CreateTtl(ttl_body("/t", PersistentWithTtl, 100))).expect("new");
    let limits = ReapLimits { found_max: 10, looks_max: 10, never_used_ms: 0 };
    let due = |bench: &Bench, now_ms: i64, limits: ReapLimits| {
        let found = bench.state.reapable(now_ms, limits, ReapPlace::default());
        assert_eq!(found.next, None);
        found.due
    };
    assert_eq!(due(&bench, 1100, limits), Vec::<String>::new());
    assert_eq!(due(&bench, 1101, limits), ["/t"]);
    let never_used = ReapLimits { never_used_ms: 50, ..limits };
    assert_eq!(due(&bench, 1051, never_used), ["/c"]);
    bench.create("/c/x", Persistent).expect("new");
    bench.create("/t/x", Persistent).expect("new");
    assert_eq!(due(&bench, 9999, limits), Vec::<String>::new());
    let reap = |bench: &mut Bench, path: &str| bench.run(Op::DeleteContainer { path: path.into() });
    assert_eq!(reap(&mut bench, "/c"), Err(NotEmpty));
    bench.delete("/c/x", -1).expect("there");
    bench.delete("/t/x", -1).expect("there");
    assert_eq!(due(&bench, 1000, limits), ["/c"]);
    assert_eq!(reap(&mut bench, "/t"), Err(BadVersion), "written since the leader looked");
    bench.now_ms = 1101;
    assert_eq!(reap(&mut bench, "/t"), Ok(Reply::Empty));
    assert_eq!(reap(&mut bench, "/c"), Ok(Reply::Empty));
    assert_eq!(bench.changes.len(), 1);
    bench.create("/c", Persistent).expect("another kind");
    assert_eq!(reap(&mut bench, "/c"), Err(BadVersion));
    assert_eq!(reap(&mut bench, "/zookeeper"), Err(BadArguments));
    assert_eq!(reap(&mut bench, "/no"), Err(NoNode));
}

#[test]
fn the_config_keeps_version_minus_one_protocol_15_4() {
    let mut bench = Bench::new();
    let text = "server.1=h:2888:3888:participant;2181".to_owned();
    let set = |term, text: &str| Op::SetConfig { term, text: text.to_owned(), is_first: false };
    let older = set(Term(0), "server.1=older:1:2");
    assert_eq!(bench.run(older), Err(BadVersion));
    bench.run(set(Term(1), &text)).expect("there");
    let version = format!("{:x}", bench.zxid().0);
    assert_eq!(bench.text("/zookeeper/config"), format!("{text}\nversion={version}"));
    let stat = bench.stat("/zookeeper/config");
    assert_eq!((stat.version, stat.aversion, stat.mzxid), (-1, -1, bench.zxid()));
    assert_eq!((stat.czxid, stat.ctime), (Zxid(0), 0));
    assert_eq!(bench.set("/zookeeper/config", b"", -1), Err(ErrorCode::NoAuth));

    let reconfig = || {
        Request::Reconfig(zoolet_jute::ReconfigRequest {
            joining_servers: None,
            leaving_servers: None,
            new_members: None,
            config_id: -1,
        })
    };
    assert_eq!(bench.write(reconfig()), Err(ReconfigDisabled));
    bench.policy.reconfig = true;
    assert_eq!(bench.write(reconfig()), Err(Unimplemented));
    assert_eq!(bench.write(Request::Ping), Err(Unimplemented));
}

#[test]
fn zxids_rise_whatever_the_terms_are_protocol_13_1() {
    let next = |last: Zxid, term: u64| sequence::next_zxid(last, Term(term));
    assert_eq!(next(Zxid(0), 1), Zxid::new(1, 1));
    assert_eq!(next(Zxid::new(3, 9), 3), Zxid::new(3, 10));
    assert_eq!(next(Zxid::new(3, 9), 2), Zxid::new(3, 10));
    assert_eq!(next(Zxid::new(3, 9), 4), Zxid::new(4, 1));
    assert_eq!(next(Zxid::new(3, u32::MAX), 3), Zxid::new(4, 1));
    let last = next(Zxid::new(3, 9), u64::MAX);
    assert_eq!(last, Zxid::new(i32::MAX as u32, 1));
    assert!(next(last, u64::MAX) > last);
}

#[test]
fn the_fence_admits_each_batch_once_and_in_order() {
    let mut state = State::new();
    let at = |boot, stream| Origin { server: ServerId(1), boot, stream };
    assert!(state.admit(at(Boot(5), 0), ProposalNumber(1), 3));
    assert!(!state.admit(at(Boot(5), 0), ProposalNumber(1), 3), "the same again");
    assert!(!state.admit(at(Boot(5), 0), ProposalNumber(5), 1), "one is missing");
    assert!(state.admit(at(Boot(5), 0), ProposalNumber(4), 1));
    assert!(
        state.admit(at(Boot(5), 2), ProposalNumber(9), 2),
        "a later stream starts where it likes"
    );
    assert!(!state.admit(at(Boot(5), 0), ProposalNumber(5), 1), "an old stream is over");
    assert!(!state.admit(at(Boot(4), 9), ProposalNumber(11), 1), "an old start is over");
    assert!(state.admit(at(Boot(6), 0), ProposalNumber(1), 1));
    assert!(!state.admit(at(Boot(6), 0), ProposalNumber(2), 0), "nothing");
    assert!(!state.admit(at(Boot(6), 1), ProposalNumber(u64::MAX), 2), "no such numbers");
    assert!(state.admit(Origin { server: ServerId(2), ..at(Boot(1), 0) }, ProposalNumber(1), 1));
    assert_eq!(state.last_zxid(), Zxid(0));
}
