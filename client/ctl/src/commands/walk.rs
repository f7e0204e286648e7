//! Going through a znode and everything below it.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use zoolet_client::{ErrorCode, OneshotWatcher, Stat};

use crate::connection::Connection;
use crate::error::CtlError;
use crate::format::name_text;
use crate::output::{note, warn};
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
        let list = async |path: &String| {
            connection.go_on()?;
            match connection.ask(path, connection.client.children(path)).await {
                Ok((names, _)) => Ok(names.iter().map(|name| path::join(path, name)).collect()),
                Err(error) if error.code == Some(ErrorCode::NoNode) && path != top => {
                    Ok(Vec::new())
                }
                Err(error) => Err(error),
            }
        };
        let lists = stream::iter(&level).map(list).buffer_unordered(REQUESTS_MAX);
        let below: Vec<Vec<String>> = lists.try_collect().await?;
        levels.push(level);
        level = below.concat();
    }
    Ok(levels)
}

/// Says on stderr what is left out, and why.
pub(crate) fn left_out(why: &str, json: bool) {
    let text = format!("{why}, and is left out");
    if json { warn(&text, json) } else { note(&name_text(&text)) }
}

/// A walk, parents before their children, siblings by name.
#[derive(Debug)]
pub(crate) struct Walk {
    /// What is still to be visited, the next one last, and how deep below the top it is.
    waiting: Vec<(String, usize)>,
    depth_max: usize,
    watches: bool,
    is_whole: bool,
    json: bool,
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
    /// Prints the next change of them, if the walk watches.
    pub(crate) watch: Option<OneshotWatcher>,
}

impl Walk {
    pub(crate) fn new(top: &str) -> Self {
        let waiting = vec![(top.to_owned(), 0)];
        Self { waiting, depth_max: usize::MAX, watches: false, is_whole: false, json: false }
    }

    /// A walk that goes no deeper than this.
    pub(crate) fn depth(mut self, depth_max: usize) -> Self {
        self.depth_max = depth_max;
        self
    }

    /// A walk that watches the children of every znode that it visits.
    pub(crate) fn watch(mut self, watches: bool) -> Self {
        self.watches = watches;
        self
    }

    /// A walk that warns of what it leaves out in this form.
    pub(crate) fn json(mut self, json: bool) -> Self {
        self.json = json;
        self
    }

    /// A walk that fails of a znode that may not be read.
    pub(crate) fn whole(mut self) -> Self {
        self.is_whole = true;
        self
    }

    /// The next znode; `None` at the end. Those that vanish meanwhile and those that may not be
    /// read are left out, but for the top and in a walk of the whole.
    pub(crate) async fn next(
        &mut self,
        connection: &Connection,
    ) -> Result<Option<Visited>, CtlError> {
        while let Some((path, depth)) = self.waiting.pop() {
            connection.go_on()?;
            let (mut children, stat, watch) = match self.list(&path, connection).await {
                Err(error) if error.code == Some(ErrorCode::NoNode) && depth > 0 => continue,
                // What one may not read does not hide the rest.
                Err(error)
                    if error.code == Some(ErrorCode::NoAuth) && depth > 0 && !self.is_whole =>
                {
                    left_out(&error.message, self.json);
                    continue;
                }
                listed => listed?,
            };
            children.sort_unstable();
            if depth < self.depth_max {
                let below = children.iter().rev();
                self.waiting.extend(below.map(|name| (path::join(&path, name), depth + 1)));
            }
            return Ok(Some(Visited { path, depth, stat, children, watch }));
        }
        Ok(None)
    }

    /// The children of a znode and its Stat, and what watches them.
    async fn list(
        &self,
        path: &str,
        connection: &Connection,
    ) -> Result<(Vec<String>, Stat, Option<OneshotWatcher>), CtlError> {
        if self.watches {
            let listed = connection.ask(path, connection.client.children_watched(path)).await?;
            return Ok((listed.0, listed.1, Some(listed.2)));
        }
        let (children, stat) = connection.ask(path, connection.client.children(path)).await?;
        Ok((children, stat, None))
    }
}
