//! Transactions (protocol §10): all parts or none, under one zxid.

use zoolet_jute::{CreateMode, CreateRequest, ErrorCode, MultiOp, MultiResult, Parts, Reply};

use super::{Context, check, create, create::Create, delete, set_data};
use crate::replica::state::tree::Tree;

/// A failed transaction is a successful reply that names the part that failed.
pub(super) fn apply(tree: &mut Tree, context: &mut Context<'_>, body: Parts<MultiOp>) -> Reply {
    let count = body.0.len();
    let mut results = Vec::with_capacity(count);
    tree.begin();
    for op in body.0 {
        match part(tree, context, op) {
            Ok(result) => results.push(result),
            Err(code) => {
                if planted!("multi-half-done") {
                    tree.commit();
                } else {
                    tree.roll_back();
                }
                context.changes.clear();
                return failed(results.len(), code, count);
            }
        }
    }
    tree.commit();
    Reply::Multi(Parts(results))
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

fn part(tree: &mut Tree, context: &mut Context<'_>, op: MultiOp) -> Result<MultiResult, ErrorCode> {
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
    context: &mut Context<'_>,
    create: Create,
) -> Result<MultiResult, ErrorCode> {
    let (path, stat) = create::apply(tree, context, create)?;
    Ok(MultiResult::Create2 { path, stat })
}
