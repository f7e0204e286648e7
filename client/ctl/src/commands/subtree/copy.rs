//! `cp`: a znode, or a subtree, to another path or another ensemble.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use zoolet_client::{Acl, Bytes, CreateMode, ErrorCode, Version};

use super::super::Context;
use super::super::ended;
use super::super::walk::{REQUESTS_MAX, Visited, Walk, left_out};
use super::{Side, is_ephemeral, is_system, is_within, target_path, whole_acl};
use crate::args::Cp;
use crate::error::{CtlError, Exit};
use crate::output::Output;
use crate::path;
use crate::progress::Progress;

/// How many znodes are written by one transaction at most.
const BATCH_ZNODES_MAX: usize = 100;

/// How many bytes they have at most, unless one has more: half of what servers take.
const BATCH_BYTES_MAX: usize = 512 << 10;

/// `cp [-r] [--acl] [--force] SRC DST`.
pub(crate) async fn copy(arguments: &Cp, context: &Context) -> Result<(), CtlError> {
    let source = Side::open(&arguments.source, context).await?;
    let target = match Side::open(&arguments.target, context).await {
        Ok(target) => target,
        Err(error) => {
            source.close().await;
            return Err(error);
        }
    };
    let copied = copy_between(arguments, &source, &target, context.output).await;
    source.close().await;
    target.close().await;
    copied
}

async fn copy_between(
    arguments: &Cp,
    source: &Side,
    target: &Side,
    output: Output,
) -> Result<(), CtlError> {
    let to = target_path(&source.path, &target.path);
    if source.servers == target.servers && is_within(&to, &source.path) {
        let message = format!("{to} is {} or below it: nothing was copied", source.path);
        return Err(CtlError::new(Exit::InvalidInput, message));
    }
    let copier = Copier::new(source, target, to.clone()).acl(arguments.acl).force(arguments.force);
    let mut copier = copier.json(output.json);
    let run = copier.run(arguments.recursive).await;
    let (znodes, left_out) = (copier.copied.len(), copier.left_out);
    let json = |complete: bool| {
        let from = &source.path;
        json!({
            "source": from, "target": to, "znodes": znodes, "left_out": left_out,
            "complete": complete,
        })
    };
    ended(run, znodes, output, || format!("{znodes} znodes"), json)
}

/// A znode that is copied, and the version that its data had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) path: String,
    pub(super) version: i32,
}

/// A znode to be written.
struct Part {
    path: String,
    data: Bytes,
    acl: Vec<Acl>,
    copied: Copied,
}

/// Copies a subtree, parents before their children, several znodes by each transaction.
pub(super) struct Copier<'a> {
    source: &'a Side,
    target: &'a Side,
    to: String,
    with_acl: bool,
    force: bool,
    json: bool,
    batch: Vec<Part>,
    batch_bytes: usize,
    /// What is copied so far, in that order.
    pub(super) copied: Vec<Copied>,
    /// How many are in a transaction that was not answered.
    unanswered: usize,
    /// How many ephemeral znodes were left out.
    pub(super) left_out: usize,
}

impl<'a> Copier<'a> {
    pub(super) fn new(source: &'a Side, target: &'a Side, to: String) -> Self {
        Self {
            source,
            target,
            to,
            with_acl: false,
            force: false,
            json: false,
            batch: Vec::new(),
            batch_bytes: 0,
            copied: Vec::new(),
            unanswered: 0,
            left_out: 0,
        }
    }

    /// Whether the copies get the ACLs of the originals.
    pub(super) fn acl(mut self, with_acl: bool) -> Self {
        self.with_acl = with_acl;
        self
    }

    /// Whether data of znodes that exist is written over.
    pub(super) fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Whether what is left out is said as JSON.
    pub(super) fn json(mut self, json: bool) -> Self {
        self.json = json;
        self
    }

    pub(super) async fn run(&mut self, recursive: bool) -> Result<(), CtlError> {
        let top = self.source.path.clone();
        let progress = Progress::spinner("copying");
        let depth_max = if recursive { usize::MAX } else { 0 };
        let mut walk = Walk::new(&top).depth(depth_max).whole();
        loop {
            let found = walk.next(&self.source.connection).await;
            let Some(found) = found.map_err(|error| self.stopped(error))? else { break };
            if !recursive && !found.children.is_empty() {
                let message = format!("{top} has children: nothing was copied");
                let error = CtlError::new(Exit::InvalidInput, message);
                return Err(error.hint("cp -r copies everything below it too"));
            }
            if is_system(&found.path, &top, &self.source.servers) {
                continue;
            }
            if is_ephemeral(&found.stat) {
                self.leave_out(&found, &progress)?;
                continue;
            }
            self.add(&found.path).await.map_err(|error| self.stopped(error))?;
            progress.set_message(format!("{} znodes copied", self.copied.len()));
        }
        self.write_batch().await.map_err(|error| self.stopped(error))
    }

    /// An ephemeral znode is its session's: a copy would belong to this program.
    fn leave_out(&mut self, found: &Visited, progress: &Progress) -> Result<(), CtlError> {
        if found.depth == 0 {
            let message = format!("{} is ephemeral: nothing was copied", found.path);
            return Err(CtlError::new(Exit::InvalidInput, message));
        }
        self.left_out += 1;
        progress.aside(|| left_out(&format!("{} is ephemeral", found.path), self.json));
        Ok(())
    }

    /// Reads a znode, and writes the batch if that makes it full.
    async fn add(&mut self, path: &str) -> Result<(), CtlError> {
        let connection = &self.source.connection;
        connection.go_on()?;
        let read = connection.ask(path, connection.client.get(path)).await;
        let (data, stat) = match read {
            Ok(read) => read,
            // Deleted since it was listed.
            Err(error) if error.code == Some(ErrorCode::NoNode) && path != self.source.path => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let acl = if self.with_acl { whole_acl(path, connection).await? } else { Acl::open() };
        let part = Part {
            path: self.path_of_copy(path),
            data,
            acl,
            copied: Copied { path: path.to_owned(), version: stat.version },
        };
        let bytes = part.data.len() + acl_bytes(&part.acl) + part.path.len();
        let is_full =
            self.batch.len() == BATCH_ZNODES_MAX || self.batch_bytes + bytes > BATCH_BYTES_MAX;
        if is_full {
            self.write_batch().await?;
        }
        self.batch_bytes += bytes;
        self.batch.push(part);
        Ok(())
    }

    fn path_of_copy(&self, path: &str) -> String {
        let below = match self.source.path.as_str() {
            "/" => path.strip_prefix('/').unwrap_or_default(),
            top => path.strip_prefix(top).unwrap_or_default().trim_start_matches('/'),
        };
        if below.is_empty() { self.to.clone() } else { path::join(&self.to, below) }
    }

    async fn write_batch(&mut self) -> Result<(), CtlError> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let versions = self.versions(&batch).await?;
        let connection = &self.target.connection;
        let mut transaction = connection.client.transaction();
        for (part, version) in batch.iter().zip(&versions) {
            transaction = match version {
                Some(_) if part.path == "/" && !self.force => transaction.check("/", Version::Any),
                Some(version) => {
                    transaction.set_data(&part.path, &part.data, Version::Exactly(*version))
                }
                None => {
                    let mode = CreateMode::Persistent;
                    transaction.create(&part.path, &part.data, part.acl.clone(), mode)
                }
            };
        }
        connection.go_on()?;
        if let Err((part, error)) = connection.ask_part(&self.to, transaction.commit()).await {
            self.unanswered = if error.code.is_none() { batch.len() } else { 0 };
            return Err(self.failed(part.and_then(|at| batch.get(at)), error));
        }
        self.copied.extend(batch.iter().map(|part| part.copied.clone()));
        for (part, _) in batch.iter().zip(&versions).filter(|(_, version)| version.is_some()) {
            if self.with_acl && (self.force || part.path != "/") {
                let set = connection.client.set_acl(&part.path, part.acl.clone(), Version::Any);
                connection.ask(&part.path, set).await?;
            }
        }
        Ok(())
    }

    /// The versions of those that exist and are to be written over. The root always exists.
    async fn versions(&self, batch: &[Part]) -> Result<Vec<Option<i32>>, CtlError> {
        let connection = &self.target.connection;
        let version = async |part: &Part| {
            if !self.force && part.path != "/" {
                return Ok(None);
            }
            let exists = connection.client.exists(&part.path);
            let stat = connection.ask(&part.path, exists).await?;
            Ok(stat.map(|stat| stat.version))
        };
        stream::iter(batch).map(version).buffered(REQUESTS_MAX).try_collect().await
    }

    /// Says which znode it was.
    fn failed(&self, part: Option<&Part>, error: CtlError) -> CtlError {
        let path = part.map_or(self.to.as_str(), |part| part.path.as_str());
        let (why, hint) = match error.code {
            Some(ErrorCode::NodeExists) => {
                (format!("{path}: znode exists already"), Some("--force writes over its data"))
            }
            Some(ErrorCode::NoNode) if path == self.to => {
                (format!("{path}: its parent does not exist"), error.hint)
            }
            _ => (error.message.clone(), error.hint),
        };
        CtlError { message: why, hint, ..error }
    }

    /// Says how far it has come.
    fn stopped(&self, error: CtlError) -> CtlError {
        let before = match (self.copied.len(), self.unanswered) {
            (0, 0) => "nothing was copied".to_owned(),
            (count, 0) => format!("{count} znodes were copied before and stay"),
            (count, more) => {
                format!("{count} znodes were copied before and stay, and {more} more may have been")
            }
        };
        CtlError { message: format!("{}; {before}", error.message), ..error }
    }
}

/// How long an ACL is in a request, about.
pub(super) fn acl_bytes(acl: &[Acl]) -> usize {
    let text = |text: &Option<String>| text.as_deref().map_or(0, str::len);
    acl.iter().map(|acl| 12 + text(&acl.id.scheme) + text(&acl.id.id)).sum()
}
