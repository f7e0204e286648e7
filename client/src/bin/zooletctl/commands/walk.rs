//! Going through a znode and everything below it.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use zoolet_client::{ErrorCode, Stat};

use crate::connection::Connection;
use crate::error::CtlError;
use crate::output::note;
use crate::path;

/// How many requests are under way at a time, where the order does not matter.
pub(crate) const REQUESTS_MAX: usize = 64;

/// The paths of a znode and everything below it, by their depth, the top first. Those that vanish
/// meanwhile are left out, but for the top.
pub(crate) async fn levels(
    top: &str,
    connection: &Connection,
) -> Result<Vec<Vec<String>>, CtlError> {
    let mut levels = Vec::new();
    let mut level = vec![top.to_owned()];
    while !level.is_empty() {
        let list = async |path: &String| match connection
            .ask(path, connection.client.children(path))
            .await
        {
            Ok((names, _)) => Ok(names.iter().map(|name| path::join(path, name)).collect()),
            Err(error) if error.code == Some(ErrorCode::NoNode) && path != top => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let lists = stream::iter(&level).map(list).buffer_unordered(REQUESTS_MAX);
        let below: Vec<Vec<String>> = lists.try_collect().await?;
        levels.push(level);
        level = below.concat();
    }
    Ok(levels)
}

/// A walk, parents before their children, siblings by name.
#[derive(Debug)]
pub(crate) struct Walk {
    /// What is still to be visited, the next one last, and how deep below the top it is.
    waiting: Vec<(String, usize)>,
    depth_max: usize,
}

/// A znode on the way.
#[derive(Debug)]
pub(crate) struct Visited {
    pub(crate) path: String,
    /// How far below the top; 0 is the top itself.
    pub(crate) depth: usize,
    pub(crate) stat: Stat,
    /// The names below it, sorted.
    pub(crate) children: Vec<String>,
}

impl Walk {
    pub(crate) fn new(top: &str) -> Self {
        Self { waiting: vec![(top.to_owned(), 0)], depth_max: usize::MAX }
    }

    /// A walk that goes no deeper than this.
    pub(crate) fn depth(mut self, depth_max: usize) -> Self {
        self.depth_max = depth_max;
        self
    }

    /// The next znode; `None` at the end. Those that vanish meanwhile and those that may not be
    /// read are left out, but for the top.
    pub(crate) async fn next(
        &mut self,
        connection: &Connection,
    ) -> Result<Option<Visited>, CtlError> {
        while let Some((path, depth)) = self.waiting.pop() {
            let (mut children, stat) =
                match connection.ask(&path, connection.client.children(&path)).await {
                    Err(error) if error.code == Some(ErrorCode::NoNode) && depth > 0 => continue,
                    // What one may not read does not hide the rest.
                    Err(error) if error.code == Some(ErrorCode::NoAuth) && depth > 0 => {
                        note(&format!("{}, and is left out", error.message));
                        continue;
                    }
                    listed => listed?,
                };
            children.sort_unstable();
            if depth < self.depth_max {
                let below = children.iter().rev();
                self.waiting.extend(below.map(|name| (path::join(&path, name), depth + 1)));
            }
            return Ok(Some(Visited { path, depth, stat, children }));
        }
        Ok(None)
    }
}
