//! Creating and writing. Each write expects a version; a conflict shows what is there.

use hyper::StatusCode;
use serde_json::{Value, json};
use zoolet_client::{Acl, CreateMode, Id, Version};

use super::read;
use crate::failure::Failure;
use crate::logins::Login;
use crate::requests::Sent;
use crate::shared_client::answer;
use crate::{data, json as shown};

/// `set`: writes the data of a znode of this version.
pub(crate) async fn set_data(login: &Login, sent: &Sent) -> Result<Value, Failure> {
    let (path, version) = (sent.path()?, Version::Exactly(sent.version()?));
    let bytes = data::sent(sent)?;
    match answer(login.client.set_data(path, &bytes, version)).await {
        Ok(stat) => Ok(json!({ "path": path, "stat": shown::stat(&stat) })),
        Err(failure) => Err(with_present(login, path, failure).await),
    }
}

/// `acl`: writes the ACL of a znode whose ACL has this version.
pub(crate) async fn set_acl(login: &Login, sent: &Sent) -> Result<Value, Failure> {
    let (path, version) = (sent.path()?, Version::Exactly(sent.version()?));
    let acl = sent_acl(sent.list("acl")?)?;
    match answer(login.client.set_acl(path, acl, version)).await {
        Ok(stat) => Ok(json!({ "path": path, "stat": shown::stat(&stat) })),
        Err(failure) => Err(with_present(login, path, failure).await),
    }
}

/// `create`: creates a znode with the ACL that is given, or an open one.
pub(crate) async fn create(login: &Login, sent: &Sent) -> Result<Value, Failure> {
    let (path, bytes) = (sent.path()?, data::sent(sent)?);
    let mode = match sent.optional_text("mode").unwrap_or("persistent") {
        "persistent" => CreateMode::Persistent,
        "sequential" => CreateMode::PersistentSequential,
        "container" => CreateMode::Container,
        other => return Err(Failure::invalid(format!("unknown mode {other:?}"))),
    };
    let acl = match sent.list("acl") {
        Ok(acl) => sent_acl(acl)?,
        Err(_) => Acl::open(),
    };
    let (path, stat) = answer(login.client.create_with_acl(path, &bytes, acl, mode)).await?;
    Ok(json!({ "path": path, "stat": shown::stat(&stat) }))
}

/// Adds what is there now to the failure of a write that expected another version.
pub(super) async fn with_present(login: &Login, path: &str, failure: Failure) -> Failure {
    if failure.status != StatusCode::CONFLICT {
        return failure;
    }
    match read::of(&login.client, path).await {
        Ok(present) => failure.with("present", present),
        Err(_) => failure,
    }
}

fn sent_acl(entries: &[Value]) -> Result<Vec<Acl>, Failure> {
    let entry = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let (Some(scheme), Some(id)) = (text("scheme"), text("id")) else {
            return Err(Failure::invalid("an entry of an ACL has a scheme and an id"));
        };
        let perms = text("perms").and_then(shown::permissions);
        let wrong = || Failure::invalid(format!("{scheme}:{id}: permissions are letters of cdrwa"));
        Ok(Acl { perms: perms.ok_or_else(wrong)?, id: Id::new(scheme, id) })
    };
    if entries.is_empty() {
        return Err(Failure::invalid("an ACL has at least one entry"));
    }
    entries.iter().map(entry).collect()
}
