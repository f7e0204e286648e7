//! What quotas count when a tree is read.

use zoolet_jute::{Acl, Zxid};
use zoolet_replica::state::{State, StateBuilder, ZnodeNumber, ZnodeNumbers};

use super::made::Made;
use crate::export;

/// Builds a tree of paths with data, each below one that precedes it.
fn tree(znodes: &[(&str, &str)]) -> State {
    let mut builder = StateBuilder::default();
    let open = builder.acl(&Acl::open());
    let numbers = ZnodeNumbers { created: 9, ..ZnodeNumbers::default() };
    let mut known: Vec<(&str, ZnodeNumber)> = Vec::new();
    for (path, data) in znodes {
        let (above, name) = path.rsplit_once('/').unwrap_or_default();
        let parent = known.iter().find(|(known, _)| *known == above && !path.is_empty());
        let parent = parent.map(|(_, number)| *number);
        let data = Some((*data).to_owned().into());
        known.push((path, builder.znode(parent, name, data, open, &numbers).unwrap()));
    }
    builder.finish(Zxid(9)).unwrap()
}

/// The whole tree was walked again for each quota.
#[test]
fn each_quota_counts_what_is_below_its_znode_and_nothing_beside_it() {
    let quota = "/zookeeper/quota";
    let limits = |path: &str| format!("{quota}{path}/zookeeper_limits");
    let stats = |path: &str| format!("{quota}{path}/zookeeper_stats");
    let places = ["/a", "/a/b", "/ab", "/gone"]
        .map(|path| [format!("{quota}{path}"), limits(path), stats(path)]);
    let mut znodes = vec![
        ("", "r"),
        ("/a", "1"),
        ("/a/b", "22"),
        ("/a/b/c", "333"),
        ("/a/bc", "4444"),
        ("/ab", "55555"),
        ("/zookeeper", ""),
        (quota, ""),
    ];
    znodes.extend(places.iter().flatten().map(|path| (path.as_str(), "")));
    let made = Made::empty();
    export(&tree(&znodes), 0, made.path()).unwrap();
    let state = made.import().unwrap().state;
    let used = |path: &str| String::from_utf8(state.data(&stats(path)).unwrap().to_vec()).unwrap();
    assert_eq!(used("/a"), "count=4,bytes=10");
    assert_eq!(used("/a/b"), "count=2,bytes=5");
    assert_eq!(used("/ab"), "count=1,bytes=5");
    assert_eq!(used("/gone"), "count=0,bytes=0");
}
