//! Reading a great many znodes.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use zoolet_client::{Client, Stat};
use zoolet_jute::{MultiReadOp, MultiResult, Parts, PathWatchRequest, Reply, Request};

use super::Failure;

/// How many reads go into one request.
const READS_PER_REQUEST: usize = 100;

/// Data and Stat of every path, in the order of the paths; a path without a znode is an error.
pub async fn data_of(client: &Client, paths: &[String]) -> Result<Vec<(Bytes, Stat)>, Failure> {
    let mut found = Vec::with_capacity(paths.len());
    for some in paths.chunks(READS_PER_REQUEST) {
        let results = multi_read(client, some.iter().map(|path| get_data(path))).await?;
        for (path, result) in some.iter().zip(results) {
            let MultiResult::Data { data, stat } = result else {
                return Err(Failure::Broken(format!("{path} was read as {result:?}")));
            };
            found.push((data.unwrap_or_default(), stat));
        }
    }
    Ok(found)
}

/// The whole tree: data, Stat and children's names of every znode.
pub async fn tree(client: &Client) -> Result<BTreeMap<String, Node>, Failure> {
    let mut tree = BTreeMap::new();
    let mut paths = VecDeque::from(["/".to_owned()]);
    while !paths.is_empty() {
        let some: Vec<String> = paths.drain(..paths.len().min(READS_PER_REQUEST)).collect();
        let parts = some.iter().flat_map(|path| [get_data(path), get_children(path)]);
        let results = multi_read(client, parts).await?;
        for (path, result) in some.into_iter().zip(results.chunks_exact(2)) {
            let [MultiResult::Data { data, stat }, MultiResult::Children(children)] = result else {
                return Err(Failure::Broken(format!("{path} was read as {result:?}")));
            };
            let mut children = children.clone();
            children.sort_unstable();
            let prefix = if path == "/" { "" } else { path.as_str() };
            paths.extend(children.iter().map(|name| format!("{prefix}/{name}")));
            tree.insert(path, Node { data: data.clone(), stat: *stat, children });
        }
    }
    Ok(tree)
}

/// A znode as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub data: Option<Bytes>,
    pub stat: Stat,
    pub children: Vec<String>,
}

async fn multi_read(
    client: &Client,
    parts: impl Iterator<Item = MultiReadOp>,
) -> Result<Vec<MultiResult>, Failure> {
    let request = Request::MultiRead(Parts(parts.collect()));
    match client.call(request).await? {
        (_, Reply::Multi(Parts(results))) => Ok(results),
        (_, other) => Err(Failure::Broken(format!("a multiRead was answered {other:?}"))),
    }
}

fn get_data(path: &str) -> MultiReadOp {
    MultiReadOp::GetData(PathWatchRequest { path: path.to_owned(), watch: false })
}

fn get_children(path: &str) -> MultiReadOp {
    MultiReadOp::GetChildren(PathWatchRequest { path: path.to_owned(), watch: false })
}
