//! Transactions (protocol §10): all parts or none, under one zxid.

use zoolet_jute::{CreateMode, CreateRequest, ErrorCode, MultiOp, MultiResult, Parts, Reply};

use super::{Context, STEP_COST_NS, check, create, create::Create, delete, set_data};
use crate::state::tree::Tree;

/// A transaction that is under way.
#[derive(Clone, Debug)]
pub(super) struct Multi {
    ops: std::vec::IntoIter<MultiOp>,
    results: Vec<MultiResult>,
    count: usize,
    /// The cost of the parts so far, in nanoseconds.
    cost_ns: usize,
    /// The reply, once a part has failed: what was done is being undone.
    failed: Option<Reply>,
}

impl Multi {
    pub(super) fn begin(tree: &mut Tree, body: Parts<MultiOp>) -> Self {
        let count = body.0.len();
        tree.begin();
        let ops = body.0.into_iter();
        Self { ops, results: Vec::with_capacity(count), count, cost_ns: 0, failed: None }
    }

    /// Goes on for `work` parts. A failed transaction is a successful reply that names the part
    /// that failed.
    pub(super) fn go_on(
        &mut self,
        tree: &mut Tree,
        context: &mut Context,
        parts_max: usize,
    ) -> Option<Reply> {
        for _ in 0..parts_max {
            if context.cost_ns >= STEP_COST_NS && !planted!("parts-are-not-charged") {
                break;
            }
            context.work += 1;
            if self.failed.is_some() {
                // To undo a part takes as long as to do it.
                context.cost_ns += self.cost_ns / self.results.len().max(1);
                if planted!("multi-half-done") {
                    tree.commit();
                    return self.failed.take();
                }
                if tree.roll_back(1) {
                    return self.failed.take();
                }
                continue;
            }
            let Some(op) = self.ops.next() else {
                tree.commit();
                return Some(Reply::Multi(Parts(std::mem::take(&mut self.results))));
            };
            let before_ns = context.cost_ns;
            let done = part(tree, context, op);
            self.cost_ns += context.cost_ns - before_ns;
            match done {
                Ok(result) => self.results.push(result),
                Err(code) => {
                    context.changes.clear();
                    self.failed = Some(failed(self.results.len(), code, self.count));
                }
            }
        }
        None
    }
}

/// Zero in front of the part that failed, −2 behind it.
fn failed(at: usize, code: ErrorCode, count: usize) -> Reply {
    let error = |part: usize| match part.cmp(&at) {
        std::cmp::Ordering::Less => MultiResult::Error(None),
        std::cmp::Ordering::Equal => MultiResult::Error(Some(code)),
        std::cmp::Ordering::Greater => MultiResult::Error(Some(ErrorCode::RuntimeInconsistency)),
    };
    Reply::Multi(Parts((0..count).map(error).collect()))
}

/// Inside a multi the flags decide what is a container, as Apache has it; at top level the
/// operation does (protocol §2.1).
fn is_container(body: &CreateRequest) -> bool {
    CreateMode::from_flags(body.flags) == Some(CreateMode::Container)
}

fn part(tree: &mut Tree, context: &mut Context, op: MultiOp) -> Result<MultiResult, ErrorCode> {
    match op {
        MultiOp::Create(body) | MultiOp::Create2(body) if is_container(&body) => {
            create2(tree, context, Create::container(body))
        }
        MultiOp::Create(body) => create::apply(tree, context, Create::plain(body))
            .map(|(path, _)| MultiResult::Create { path }),
        MultiOp::Create2(body) => create2(tree, context, Create::plain(body)),
        MultiOp::CreateContainer(body) => create2(tree, context, Create::container(body)),
        MultiOp::CreateTtl(body) => create2(tree, context, Create::ttl(body)),
        MultiOp::Delete(body) => delete::apply(tree, context, body).map(|()| MultiResult::Delete),
        MultiOp::SetData(body) => set_data::apply(tree, context, body).map(MultiResult::SetData),
        MultiOp::Check(body) => check(tree, context, &body).map(|()| MultiResult::Check),
    }
}

fn create2(
    tree: &mut Tree,
    context: &mut Context,
    create: Create,
) -> Result<MultiResult, ErrorCode> {
    let (path, stat) = create::apply(tree, context, create)?;
    Ok(MultiResult::Create2 { path, stat })
}
