//! Limits and usage (protocol §12).

use super::*;
use CreateMode::{Ephemeral, Persistent};
use ErrorCode::QuotaExceeded;

const STATS: &str = "/zookeeper/quota/a/zookeeper_stats";
const LIMITS: &str = "/zookeeper/quota/a/zookeeper_limits";

fn with_quota(limits: &str) -> Bench {
    let mut bench = Bench::new();
    bench.create("/a", Persistent).expect("new");
    bench.create("/zookeeper/quota/a", Persistent).expect("new");
    let limits = Request::Create(create_body(LIMITS, limits.as_bytes(), Persistent));
    bench.write(limits).expect("new");
    bench.write(Request::Create(create_body(STATS, b"what ever", Persistent))).expect("new");
    bench
}

#[test]
fn usage_follows_every_change_without_a_trace_protocol_12() {
    let mut bench = with_quota("count=1000,bytes=-1");
    assert_eq!(bench.text(STATS), "count=1,bytes=0");
    let stat = bench.stat(STATS);
    bench.set("/a", b"12345", -1).expect("there");
    bench.write(Request::Create(create_body("/a/b", b"123", Ephemeral))).expect("new");
    assert_eq!(bench.text(STATS), "count=2,bytes=8");
    bench.create("/ab", Persistent).expect("not below /a");
    bench.set("/a/b", b"1", -1).expect("there");
    assert_eq!(bench.text(STATS), "count=2,bytes=6");
    let failing = vec![
        MultiOp::Create(create_body("/a/c", b"123", Persistent)),
        MultiOp::Check(versioned("/no", -1)),
    ];
    bench.multi(failing);
    assert_eq!(bench.text(STATS), "count=2,bytes=6");
    assert_eq!(bench.stat(STATS), Stat { data_length: 15, ..stat });
    bench.run(Op::CloseSession).expect("there");
    assert_eq!(bench.text(STATS), "count=1,bytes=5");
}

#[test]
fn hard_limits_refuse_only_when_enforced_protocol_12() {
    let mut bench = with_quota("count=1,bytes=1=;byteHardLimit=4;countHardLimit=2");
    bench.set("/a", b"12345", -1).expect("not enforced");
    bench.policy.enforce_quota = true;
    assert_eq!(bench.set("/a", b"1234567", -1).map(|_| ()), Err(QuotaExceeded));
    bench.set("/a", b"54321", -1).expect("the same size");
    bench.set("/a", b"1234", -1).expect("at the limit");
    bench.create("/a/b", Persistent).expect("the second");
    assert_eq!(bench.create("/a/c", Persistent), Err(QuotaExceeded));
    assert_eq!(bench.set("/a/b", b"x", 7).map(|_| ()), Err(QuotaExceeded), "before the version");
    bench.delete(LIMITS, -1).expect("there");
    bench.create("/a/c", Persistent).expect("no limit any more");
    assert_eq!(bench.text(STATS), "count=2,bytes=4", "nor any usage");
}

/// The soft limits of `setquota -n` and `-b` allow everything, but are logged for the operator.
#[test]
fn exceeded_limits_are_reported_once_by_command_protocol_12() {
    let logged = |bench: &mut Bench| {
        let exceeded = bench.state.take_quota_exceeded()?;
        Some((exceeded.path, exceeded.limit, exceeded.is_hard, exceeded.allowed, exceeded.value))
    };
    let mut bench = with_quota("count=1,bytes=4");
    bench.create("/a/b", Persistent).expect("soft");
    assert_eq!(logged(&mut bench), None, "not enforced");
    bench.policy.enforce_quota = true;
    bench.create("/a/c", Persistent).expect("soft");
    assert_eq!(logged(&mut bench), Some(("/a".to_owned(), "count", false, 1, 3)));
    assert_eq!(logged(&mut bench), None);
    bench.set("/a", b"1234", -1).expect("at the limit");
    assert_eq!(logged(&mut bench), None);
    bench.set("/a", b"12345", -1).expect("soft");
    assert_eq!(logged(&mut bench), Some(("/a".to_owned(), "bytes", false, 4, 5)));

    let mut bench = with_quota("count=1,bytes=1=;byteHardLimit=4");
    bench.policy.enforce_quota = true;
    bench.set("/a", b"1234", -1).expect("the soft limit of the same kind does not count");
    assert_eq!(logged(&mut bench), None);
    assert_eq!(bench.set("/a", b"12345", -1).map(|_| ()), Err(QuotaExceeded));
    assert_eq!(logged(&mut bench), Some(("/a".to_owned(), "byteHardLimit", true, 4, 5)));
}

#[test]
fn the_deepest_governed_prefix_counts_alone_protocol_12() {
    let mut bench = with_quota("count=9,bytes=9");
    bench.create("/a/b", Persistent).expect("new");
    bench.create("/zookeeper/quota/a/b", Persistent).expect("new");
    bench.create("/zookeeper/quota/a/b/zookeeper_limits", Persistent).expect("new");
    bench.create("/zookeeper/quota/a/b/zookeeper_stats", Persistent).expect("new");
    bench.create("/a/b/c", Persistent).expect("new");
    bench.create("/a/d", Persistent).expect("new");
    assert_eq!(bench.text(STATS), "count=3,bytes=0");
    assert_eq!(bench.text("/zookeeper/quota/a/b/zookeeper_stats"), "count=2,bytes=0");
}

#[test]
fn senseless_quota_data_poisons_nothing_protocol_12() {
    let texts: [&[u8]; 8] = [
        b"",
        b"=",
        b"count",
        b"count=,bytes=",
        b"count=99999999999999999999,bytes=x;;,=;countHardLimit=1=2",
        b"\xff\xfe",
        b"count=9223372036854775807,bytes=-9223372036854775808",
        b"a=1,b=2;zz=3",
    ];
    for text in texts {
        let mut bench = with_quota("count=1,bytes=1");
        bench.policy.enforce_quota = true;
        bench.set(LIMITS, text, -1).expect("it is a znode like others");
        bench.set(STATS, text, -1).expect("it is a znode like others");
        let _ = bench.write(Request::Create(create_body("/a/b", b"xyz", Persistent)));
        let _ = bench.set("/a", b"", -1);
        let _ = bench.delete("/a/b", -1);
        let copy = snapshot::copy(&bench.state);
        assert_eq!(copy.digest(), bench.state.digest(), "{text:?}");
    }
    let mut bench = Bench::new();
    for path in ["/zookeeper/quota/zookeeper_limits", "/zookeeper/quota/zookeeper_stats"] {
        bench.create(path, Persistent).expect("the root's quota is none");
    }
    assert_eq!(bench.text("/zookeeper/quota/zookeeper_stats"), "count=6,bytes=0");
    bench.create("/x", Persistent).expect("new");
    assert_eq!(bench.text("/zookeeper/quota/zookeeper_stats"), "count=6,bytes=0");
    bench.create("/zookeeper/quotax", Persistent).expect("new");
    bench.create("/zookeeper/quotax/zookeeper_limits", Persistent).expect("nothing special");
}

#[test]
fn usage_keeps_the_rest_of_its_text_protocol_12() {
    let mut bench = with_quota("count=9,bytes=9");
    bench.set(STATS, b"count=1,bytes=2=;zz=5;aa=4", -1).expect("there");
    bench.create("/a/b", Persistent).expect("new");
    assert_eq!(bench.text(STATS), "count=2,bytes=2=;aa=4;zz=5");
}

#[test]
fn text_longer_than_any_quotas_counts_as_not_set_protocol_12() {
    let padded = |text: &str, bytes: usize| {
        let mut text = format!("{text};");
        text.push_str(&"x".repeat(bytes - text.len()));
        text
    };
    let mut bench = with_quota(&padded("count=1,bytes=1=;countHardLimit=1", 1024));
    bench.policy.enforce_quota = true;
    bench.set(STATS, padded("count=5,bytes=7", 1024).as_bytes(), -1).expect("there");
    assert_eq!(bench.create("/a/b", Persistent), Err(QuotaExceeded), "as long as it may be");

    bench.set(STATS, padded("count=5,bytes=7", 1025).as_bytes(), -1).expect("there");
    bench.policy.enforce_quota = false;
    bench.create("/a/b", Persistent).expect("new");
    assert_eq!(bench.text(STATS), "count=0,bytes=-1", "as from nothing");
    bench.policy.enforce_quota = true;
    assert_eq!(bench.create("/a/c", Persistent).map(|_| ()), Ok(()), "no usage yet");
    let limits = padded("count=1,bytes=1=;countHardLimit=1", 1025);
    bench.set(LIMITS, limits.as_bytes(), -1).expect("there");
    bench.create("/a/d", Persistent).expect("no limit that is read");
}

#[test]
fn a_new_usage_is_what_is_there_with_all_its_bytes_protocol_12() {
    let mut bench = with_quota("count=9,bytes=9");
    bench.set("/a", b"12345", -1).expect("there");
    bench.create("/a/b", Persistent).expect("new");
    bench.set("/a/b", b"123", -1).expect("there");
    let failing = vec![
        MultiOp::SetData(set_body("/a/b", b"longer than before", -1)),
        MultiOp::Create(create_body("/a/c", b"123", Persistent)),
        MultiOp::Check(versioned("/no", -1)),
    ];
    bench.multi(failing);
    bench.delete(STATS, -1).expect("there");
    bench.create(STATS, Persistent).expect("new");
    assert_eq!(bench.text(STATS), "count=2,bytes=8");
}
