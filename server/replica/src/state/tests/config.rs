//! The first `/zookeeper/config`.

use zoolet_jute::Zxid;

use super::*;
use crate::{Op, Term};

/// Apache's first configuration has the version 100000000, and its first write the zxid behind it.
#[test]
fn the_first_config_has_the_zxid_with_which_its_term_begins() {
    let mut bench = Bench::new();
    let op = Op::SetConfig { term: Term(1), text: "server.1=h".to_owned(), is_first: true };
    let mut state = State::new();
    let mut apply = |op: &Op| {
        state.apply(Stamp { term: Term(1), now_ms: 0 }, ORIGIN, bench.command(op.clone())).zxid
    };
    assert_eq!(apply(&op), Zxid::new(1, 0));
    assert_eq!(apply(&Op::CreateSession { timeout_ms: 1 }), Zxid::new(1, 1));
    let data = state.data("/zookeeper/config").expect("written");
    assert_eq!(data, "server.1=h\nversion=100000000");
    // No number comes twice: behind other commands it is one like them.
    let last = bench.zxid();
    bench.run(op).expect("there");
    assert_eq!(bench.zxid(), Zxid(last.0 + 1));
}
