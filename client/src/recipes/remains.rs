//! What a place that was dropped has left, and how it is found and deleted.

use zoolet_jute::Stat;

use crate::{Client, Error, Version};

use super::name::{ProtectedId, join};
use super::retry::{
    back_off, children_now, delete_created, delete_if_there, is_not_found, retry_transient,
};

/// What a dropped place has left.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    pub(crate) dir: String,
    pub(crate) id: ProtectedId,
    pub(crate) fixed: Option<String>,
    pub(crate) names: Vec<String>,
    pub(crate) czxid: i64,
}

impl Remains {
    pub(crate) async fn delete(self, client: Client) -> Result<(), Error> {
        let Self { dir, id, fixed, names, czxid } = self;
        match fixed {
            Some(name) => {
                let czxid = (!names.is_empty()).then_some(czxid);
                clean_up_fixed(&client, &join(&dir, &name), id, czxid).await
            }
            None => clean_up(&client, &dir, id, names).await,
        }
    }
}

/// The names that an id has below a znode, as of now, Curator's form first: it is created first.
pub(crate) async fn find_names(
    client: &Client,
    dir: &str,
    id: ProtectedId,
) -> Result<Vec<String>, Error> {
    let mut names = children_now(client, dir).await?;
    names.retain(|name| id.owns(name));
    names.sort_by_key(|name| !name.starts_with("_c_"));
    Ok(names)
}

/// The Stat of a znode, as of now, whose data starts with an id: only the name's holder writes its
/// id there.
pub(crate) async fn find_fixed(
    client: &Client,
    path: &str,
    id: ProtectedId,
) -> Result<Option<Stat>, Error> {
    retry_transient(client, || client.sync(path)).await?;
    match retry_transient(client, || client.get(path)).await {
        Ok((data, stat)) => Ok(data.starts_with(id.uuid().as_bytes()).then_some(stat)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes what a dropped place has left. A create that was not answered is looked for: requests
/// of a session are carried out in order, so that it is found if it ever happens.
async fn clean_up(
    client: &Client,
    dir: &str,
    id: ProtectedId,
    mut names: Vec<String>,
) -> Result<(), Error> {
    if names.is_empty() {
        names = find_names(client, dir, id).await?;
    }
    if names.is_empty() {
        return Ok(());
    }
    remove(client, dir, &names).await.map(drop)
}

/// The same for a fixed name. A delete may be under way already, and somebody else have the name.
async fn clean_up_fixed(
    client: &Client,
    path: &str,
    id: ProtectedId,
    czxid: Option<i64>,
) -> Result<(), Error> {
    let czxid = match czxid {
        Some(czxid) => czxid,
        None => match find_fixed(client, path, id).await? {
            Some(stat) => stat.czxid.0,
            None => return Ok(()),
        },
    };
    delete_created(client, path, Some(czxid)).await.map(drop)
}

/// Deletes the znodes of a place, two of them in one transaction: no client may see half of it.
pub(crate) async fn remove(client: &Client, dir: &str, names: &[String]) -> Result<bool, Error> {
    if let [name] = names {
        return delete_if_there(client, &join(dir, name)).await;
    }
    let (mut tries, mut in_doubt) = (0, false);
    loop {
        let mut transaction = client.transaction();
        for name in names {
            transaction = transaction.delete(&join(dir, name), Version::Any);
        }
        match transaction.commit().await {
            Ok(_) => return Ok(true),
            Err(error) if is_not_found(&error) => break,
            Err(error) if error.is_transient() => {
                in_doubt |= error.may_have_happened();
                back_off(client, &error, &mut tries).await;
            }
            Err(error) => return Err(error.with_doubt(in_doubt)),
        }
    }
    // One of them at least is gone: the transaction's reply was lost, or the place was.
    for name in names {
        let deleted = delete_if_there(client, &join(dir, name)).await;
        deleted.map_err(|error| error.with_doubt(in_doubt))?;
    }
    Ok(in_doubt)
}
