//! Commands about quotas.

use serde_json::{Value, json};
use zoolet_client::{ErrorCode, Quota};

use crate::args::{DeleteQuota, PathArgs, SetQuota};
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::path;

/// `setquota -n|-b|-N|-B VALUE PATH`: what is not named stays as it is.
pub(crate) async fn set(arguments: &SetQuota, context: &Context) -> Result<(), CtlError> {
    check(&arguments.path)?;
    let old = read(&arguments.path, context).await?.map(|(limits, _)| limits).unwrap_or_default();
    let quota = Quota {
        count: arguments.count.or(old.count),
        bytes: arguments.bytes.or(old.bytes),
        count_hard: arguments.count_hard.or(old.count_hard),
        bytes_hard: arguments.bytes_hard.or(old.bytes_hard),
    };
    write(&arguments.path, &quota, context).await
}

/// `listquota PATH`.
pub(crate) async fn list(arguments: &PathArgs, context: &Context) -> Result<(), CtlError> {
    check(&arguments.path)?;
    let Some((limits, used)) = read(&arguments.path, context).await? else {
        return Err(none(&arguments.path));
    };
    let text = || format!("quota {}\nused  {}", text(&limits), text(&used));
    let json =
        || json!({ "path": arguments.path, "quota": json_of(&limits), "used": json_of(&used) });
    context.output.result(text, json)
}

/// `delquota [-n|-b|-N|-B] PATH`: the limits that are named, or all.
pub(crate) async fn delete(arguments: &DeleteQuota, context: &Context) -> Result<(), CtlError> {
    check(&arguments.path)?;
    let Some((old, _)) = read(&arguments.path, context).await? else {
        return Err(none(&arguments.path));
    };
    let DeleteQuota { count, bytes, count_hard, bytes_hard, .. } = *arguments;
    let all = !(count || bytes || count_hard || bytes_hard);
    let keep = |limit: Option<u64>, delete: bool| limit.filter(|_| !delete && !all);
    let quota = Quota {
        count: keep(old.count, count),
        bytes: keep(old.bytes, bytes),
        count_hard: keep(old.count_hard, count_hard),
        bytes_hard: keep(old.bytes_hard, bytes_hard),
    };
    if quota != Quota::default() {
        return write(&arguments.path, &quota, context).await;
    }
    let delete = context.connection.client.delete_quota(&arguments.path);
    context.connection.ask(&arguments.path, delete).await?;
    context.output.result(String::new, || json!({ "path": arguments.path, "quota": null }))
}

fn check(path: &str) -> Result<(), CtlError> {
    path::check(path)?;
    if path == "/" {
        return Err(CtlError::new(Exit::InvalidInput, "/ cannot have a quota"));
    }
    Ok(())
}

fn none(path: &str) -> CtlError {
    CtlError::new(Exit::Failed, format!("{path}: it has no quota of its own"))
}

async fn read(path: &str, context: &Context) -> Result<Option<(Quota, Quota)>, CtlError> {
    context.connection.ask(path, context.connection.client.quota(path)).await
}

async fn write(path: &str, quota: &Quota, context: &Context) -> Result<(), CtlError> {
    // The servers take a quota of a znode that does not exist, and never look at it.
    let connection = &context.connection;
    if connection.ask(path, connection.client.exists(path)).await?.is_none() {
        return Err(CtlError::of(&ErrorCode::NoNode.into(), path));
    }
    connection.ask(path, connection.client.set_quota(path, quota)).await?;
    context.output.result(String::new, || json!({ "path": path, "quota": json_of(quota) }))
}

fn text(quota: &Quota) -> String {
    let limit = |limit: Option<u64>| limit.map_or("-".to_owned(), |limit| limit.to_string());
    let Quota { count, bytes, count_hard, bytes_hard } = *quota;
    format!(
        "count={} bytes={} count(hard)={} bytes(hard)={}",
        limit(count),
        limit(bytes),
        limit(count_hard),
        limit(bytes_hard)
    )
}

fn json_of(quota: &Quota) -> Value {
    let Quota { count, bytes, count_hard, bytes_hard } = quota;
    json!({ "count": count, "bytes": bytes, "count_hard": count_hard, "bytes_hard": bytes_hard })
}
