//! Who may do what (protocol §9).

use super::*;
use ErrorCode::{InvalidAcl, NoAuth};
use bytes::BytesMut;
use zoolet_jute::{MultiReadOp, perms};

use crate::FeatureLevel;
use crate::cost::Meter;
use crate::state::access::{Verdicts, fix_up, judge};

const LEVEL: FeatureLevel = FeatureLevel::OF_RELEASE;

fn acl(perms: i32, scheme: &str, id: &str) -> Acl {
    Acl { perms, id: Id::new(scheme, id) }
}

#[test]
fn an_acl_permits_by_scheme_protocol_9_3() {
    let me = [Id::new("ip", "10.1.2.3"), Id::new("digest", "u:h")];
    let v6 = [Id::new("ip", "2001:db8::1")];
    let (bob, all) = ([Id::new("sasl", "bob")], [Id::new("sasl", "super")]);
    let cases: [(&str, &str, &[Id], bool); 21] = [
        ("world", "anyone", &[], true),
        ("world", "somebody", &me, false),
        ("digest", "u:h", &me, true),
        ("digest", "u:other", &me, false),
        ("sasl", "u:h", &me, false),
        ("sasl", "bob", &bob, true),
        ("sasl", "Bob", &bob, false),
        ("sasl", "bob", &all, true),
        ("digest", "u:h", &all, false),
        ("ip", "10.1.2.3", &me, true),
        ("ip", "10.1.2.4", &me, false),
        ("ip", "10.1.255.255/16", &me, true),
        ("ip", "10.2.0.0/16", &me, false),
        ("ip", "1.1.1.1/0", &me, true),
        ("ip", "10.1.2.3/33", &me, false),
        ("ip", "::/0", &me, false),
        ("ip", "2001:db8::/32", &v6, true),
        ("ip", "2001:db9::/32", &v6, false),
        ("ip", "::/0", &v6, true),
        ("ip", "2001:db8:0:0:0:0:0:1", &v6, true),
        ("ip", "0.0.0.0/0", &v6, false),
    ];
    for (scheme, id, identities, expected) in cases {
        let list = [acl(perms::READ, scheme, id)];
        let allowed = State::permits(&list, perms::READ, identities, false);
        assert_eq!(allowed, expected, "{scheme}:{id} {identities:?}");
        assert!(!State::permits(&list, perms::WRITE, identities, false));
        assert!(State::permits(&list, perms::WRITE, identities, true), "skipACL");
        assert!(State::permits(&list, perms::WRITE, &[Id::new("super", "")], false));
    }
    assert!(State::permits(&[], perms::ADMIN, &[], false), "an absent list");
    let any = perms::READ | perms::ADMIN;
    assert!(State::permits(&[acl(16, "world", "anyone")], any, &[], false), "one bit is enough");
}

#[test]
fn a_new_acl_is_fixed_up_or_refused_protocol_9_4() {
    let me = [
        Id::new("ip", "10.1.2.3"),
        Id::new("super", ""),
        Id::new("digest", "u:h"),
        Id::new("digest", "v:h"),
    ];
    let fix = |list: &[Acl]| fix_up(Some(list), &me, LEVEL);
    let good = [
        ("world", "anyone"),
        ("digest", "a:b"),
        ("digest", ":b"),
        ("digest", "a:b:"),
        ("ip", "1.2.3.4"),
        ("ip", "1.2.3.4/0"),
        ("ip", "::1/128"),
        ("x509", "CN=me,O=Example"),
    ];
    for (scheme, id) in good {
        let list = [acl(64, scheme, id)];
        assert_eq!(fix(&list), Ok(list.to_vec()), "{scheme}:{id}");
    }
    let bad = [
        ("world", ""),
        ("digest", "a"),
        ("digest", "a:"),
        ("digest", "a:b:c"),
        ("digest", ""),
        ("ip", "1.2.3"),
        ("ip", "1.2.3.4/33"),
        ("ip", "1.2.3.4/-1"),
        ("ip", "1.2.3.4/"),
        ("ip", "::1/129"),
        ("super", ""),
        ("x509", "me"),
        ("nosuch", "x"),
    ];
    for (scheme, id) in bad {
        assert_eq!(fix(&[acl(31, scheme, id)]), Err(InvalidAcl), "{scheme}:{id}");
    }
    for scheme in [None, Some("world".to_owned()), Some("digest".to_owned())] {
        assert_eq!(fix(&[Acl { perms: 1, id: Id { scheme, id: None } }]), Err(InvalidAcl));
    }
    let auth = Acl { perms: 3, id: Id { scheme: Some("auth".into()), id: None } };
    let expanded = vec![acl(3, "digest", "u:h"), acl(3, "digest", "v:h")];
    assert_eq!(fix(std::slice::from_ref(&auth)), Ok(expanded));
    assert_eq!(fix_up(Some(&[auth]), &me[..2], LEVEL), Err(InvalidAcl));
    assert_eq!(fix_up(None, &me, LEVEL), Err(InvalidAcl));
    let twice = [acl(1, "world", "anyone"), acl(1, "world", "anyone")];
    assert_eq!(fix(&twice), Ok(twice[..1].to_vec()));
}

#[test]
fn each_operation_asks_for_its_permission_protocol_9_2() {
    let requests: [(i32, Request); 8] = [
        (perms::READ, Request::GetData(get("/n"))),
        (perms::READ, Request::Exists(get("/n"))),
        (perms::READ, Request::GetChildren2(get("/n"))),
        (perms::READ, Request::GetAllChildrenNumber(at("/n"))),
        (perms::READ | perms::ADMIN, Request::GetAcl(at("/n"))),
        (perms::WRITE, Request::SetData(set_body("/n", b"", -1))),
        (perms::CREATE, Request::Create(create_body("/n/c", b"", CreateMode::Persistent))),
        (perms::DELETE, Request::Delete(versioned("/n/gone", -1))),
    ];
    for bit in [1, 2, 4, 8, 16] {
        for (wanted, request) in &requests {
            let mut bench = Bench::new();
            bench.create("/n", CreateMode::Persistent).expect("new");
            bench.set_acl("/n", vec![acl(bit, "world", "anyone")]).expect("there");
            let result = match request.op_code() {
                code if (code as i32) < 3 || code as i32 == 5 => bench.write(request.clone()),
                _ => bench.read(request),
            };
            let denied = result == Err(NoAuth);
            assert_eq!(denied, wanted & bit == 0, "{request:?} with {bit}: {result:?}");
        }
    }
}

#[test]
fn get_acl_masks_digests_for_clients_without_admin_protocol_2_5() {
    let mut bench = Bench::new();
    bench.create("/n", CreateMode::Persistent).expect("new");
    let list = vec![acl(31, "digest", "u:secret"), acl(1, "world", "anyone")];
    bench.set_acl("/n", list.clone()).expect("there");
    let shown = |bench: &Bench| match bench.read(&Request::GetAcl(at("/n"))) {
        Ok(Reply::Acl(list, _)) => list,
        other => panic!("{other:?}"),
    };
    assert_eq!(shown(&bench), [acl(31, "digest", "u:x"), acl(1, "world", "anyone")]);
    assert_eq!(bench.set_acl("/n", Acl::open()), Err(NoAuth));
    bench.identities.push(Id::new("digest", "u:secret"));
    assert_eq!(shown(&bench), list);
    let Ok(Reply::WhoAmI(who)) = bench.read(&Request::WhoAmI) else { panic!("no answer") };
    let who: Vec<_> = who.iter().map(|i| (i.auth_scheme.as_str(), i.user.as_str())).collect();
    assert_eq!(who, [("ip", "127.0.0.1"), ("digest", "u")]);
}

#[test]
fn a_delete_without_permission_does_not_reveal_what_exists_protocol_2_2() {
    let mut bench = Bench::new();
    bench.create("/n", CreateMode::Persistent).expect("new");
    bench.set_acl("/n", vec![acl(perms::READ, "world", "anyone")]).expect("there");
    assert_eq!(bench.delete("/n/none", -1), Err(NoAuth));
    bench.policy.skip_acl = true;
    assert_eq!(bench.delete("/n/none", -1), Err(ErrorCode::NoNode));
}

#[test]
fn an_acl_has_a_size_whatever_it_contains() {
    let long = "x".repeat(60_000);
    let me: Vec<Id> = (0..20).map(|n| Id::new("digest", format!("{n}{long}:h"))).collect();
    let auth = |perms| acl(perms, "auth", "");
    assert_eq!(fix_up(Some(&[auth(1)]), &me[..10], LEVEL).unwrap().len(), 10);
    assert_eq!(fix_up(Some(&[auth(1)]), &me, LEVEL), Err(InvalidAcl));
    assert_eq!(fix_up(Some(&[auth(1), auth(2)]), &me[..10], LEVEL), Err(InvalidAcl));
    // Many entries are cheap: each is looked for once.
    let many: Vec<Acl> =
        (0..40_000).map(|n| acl(1, "ip", &format!("10.0.{}.{}", n / 256, n % 256))).collect();
    let twice = [many.as_slice(), many.as_slice()].concat();
    let kept = fix_up(Some(&twice), &me, LEVEL);
    assert!(kept.is_err() || kept.is_ok_and(|kept| kept.len() == many.len()));
}

/// What an older release has refused stays refused when its log is read again.
#[test]
fn a_certificate_in_an_acl_needs_the_level_of_all_servers() {
    let list = [acl(31, "x509", "CN=me")];
    assert_eq!(fix_up(Some(&list), &[], FeatureLevel::FIRST), Err(InvalidAcl));
    assert_eq!(fix_up(Some(&list), &[], FeatureLevel::X509), Ok(list.to_vec()));
}

#[test]
fn a_user_of_sasl_in_an_acl_needs_the_level_of_all_servers() {
    let list = [acl(31, "sasl", "bob")];
    assert_eq!(fix_up(Some(&list), &[], FeatureLevel::X509), Err(InvalidAcl));
    assert_eq!(fix_up(Some(&list), &[], FeatureLevel::SASL), Ok(list.to_vec()));
    let bob = [Id::new("ip", "10.1.2.3"), Id::new("sasl", "bob"), Id::new("super", "")];
    assert_eq!(fix_up(Some(&[acl(31, "auth", "")]), &bob, FeatureLevel::SASL), Ok(list.to_vec()));
}

#[test]
fn the_names_of_users_of_sasl_are_those_of_kerberos() {
    for (name, expected) in [
        ("bob", true),
        ("", true),
        ("a/b/c", true),
        ("bob@REALM", true),
        ("bob/host@REALM", true),
        ("@", true),
        ("a@b@c", false),
        ("a/b/c@REALM", false),
        ("bob@REALM/x", false),
    ] {
        let list = [acl(31, "sasl", name)];
        assert_eq!(fix_up(Some(&list), &[], LEVEL).is_ok(), expected, "{name}");
    }
}

/// A list that is long enough for its verdicts to be kept, and whose last entry gives `perms`.
fn long_acl(number: usize, perms: i32) -> Vec<Acl> {
    let others = (0..100).map(|n| acl(31, "digest", &format!("{number}.{n}:h")));
    others.chain([acl(perms, "world", "anyone")]).collect()
}

/// A list that is released does not leave its verdict to the next one at its address.
#[test]
fn kept_verdicts_are_those_of_their_acls() {
    // Enough identities that a check of one entry is expensive: allocators reuse small blocks first.
    let me: Vec<Id> = (0..100).map(|n| Id::new("digest", format!("{n}:h"))).collect();
    let mut verdicts = Verdicts::default();
    for perms in [perms::READ, perms::WRITE, perms::ALL, 0].repeat(100) {
        let list: Arc<[Acl]> = Arc::from([acl(perms, "world", "anyone")]);
        for _ in 0..2 {
            for wanted in [perms::READ, perms::WRITE, perms::READ | perms::ADMIN] {
                let (kept, _) = verdicts.judge(&list, wanted, &me, false);
                assert_eq!(kept, judge(&list, wanted, &me, false).0, "{perms} for {wanted}");
            }
        }
    }
}

#[test]
fn a_multi_checks_the_acl_that_a_znode_has_now() {
    let create = |acl: Vec<Acl>| {
        let body = create_body("/n", b"", CreateMode::Persistent);
        MultiOp::Create(CreateRequest { acl: Some(acl), ..body })
    };
    let check = || MultiOp::Check(versioned("/n", -1));
    let delete = || MultiOp::Delete(versioned("/n", -1));
    let set = || MultiOp::SetData(set_body("/n", b"", -1));
    let failed_at = |results: Vec<MultiResult>| {
        results.iter().position(|result| *result == MultiResult::Error(Some(NoAuth)))
    };
    let mut bench = Bench::new();
    bench.create("/n", CreateMode::Persistent).expect("new");
    let cases = [
        // Another permission of the same ACL.
        (vec![check(), check(), set()], Some(2)),
        // Another ACL, which denies what the first one grants, and the reverse.
        (vec![check(), delete(), create(long_acl(1, perms::WRITE)), set(), check()], Some(4)),
        (vec![check(), delete(), create(long_acl(0, perms::WRITE)), set(), check()], Some(4)),
        (vec![delete(), create(long_acl(2, perms::ALL)), check(), set(), check()], None),
        // An ACL that only a znode of the same multi has had, and the next one in its place.
        (
            vec![
                delete(),
                create(long_acl(3, perms::READ)),
                check(),
                delete(),
                create(long_acl(4, perms::WRITE)),
                check(),
            ],
            Some(5),
        ),
    ];
    for (parts, expected) in cases {
        // Verdicts of the multi before, which may have been undone, do not matter.
        bench.set_acl("/n", long_acl(0, perms::READ | perms::ADMIN)).expect("there");
        let named = format!("{parts:?}").chars().take(200).collect::<String>();
        assert_eq!(failed_at(bench.multi(parts)), expected, "{named}");
        bench.delete("/n", -1).expect("there");
        bench.create("/n", CreateMode::Persistent).expect("new");
    }
}

/// Identities of another client, or of the same one later, have verdicts of their own.
#[test]
fn verdicts_end_with_their_multi() {
    let mut bench = Bench::new();
    bench.create("/n", CreateMode::Persistent).expect("new");
    bench.set_acl("/n", long_acl(0, 0)).expect("there");
    let parts = || vec![MultiOp::Check(versioned("/n", -1)); 3];
    assert_eq!(bench.multi(parts())[0], MultiResult::Error(Some(NoAuth)));
    bench.identities.push(Id::new("digest", "0.99:h"));
    assert_eq!(bench.multi(parts()), [MultiResult::Check, MultiResult::Check, MultiResult::Check]);
    bench.identities.pop();
    assert_eq!(bench.multi(parts())[0], MultiResult::Error(Some(NoAuth)));
}

/// Between two steps of a multiRead the ACL may be replaced.
#[test]
fn a_multi_read_checks_the_acl_that_a_znode_has_now() {
    let mut bench = Bench::new();
    bench.create("/n", CreateMode::Persistent).expect("new");
    bench.set_acl("/n", long_acl(0, perms::READ | perms::ADMIN)).expect("there");
    let ops = vec![MultiReadOp::GetData(get("/n")); 1000];
    let mut left = PartsLeft::new(ops, &bench.identities.clone().into());
    let first = bench.state.read_parts(&mut left, false, (100, &Meter::default()));
    assert!(first.is_none(), "one step is not enough");
    bench.set_acl("/n", long_acl(0, perms::WRITE)).expect("there");
    let rest = bench.state.read_parts(&mut left, false, (usize::MAX, &Meter::default()));
    let reply: Vec<u8> = rest.expect("all parts").expect("not too long").flatten().collect();
    let mut end = BytesMut::new();
    MultiResult::Error(Some(NoAuth)).put_part(&mut end);
    MultiResult::put_end(&mut end);
    assert!(reply.ends_with(&end), "the last part is refused");
}
