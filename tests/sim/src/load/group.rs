//! Members of a group, each with a znode that comes back when it is deleted.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::sleep;
use zoolet_client::recipes::GroupMember;
use zoolet_client::{Error, Version};

use super::chance::Chance;
use super::stop::{is_stopped, rest};
use super::structures::{QUIET, User};
use crate::history::RecipeStep;

/// Joins the group, changes its data, deletes its own znode as an operator does, and leaves and joins
/// again. When all is quiet, it says who is there, and what its own znode must have.
pub(super) async fn be_member(user: &User<'_>, path: &str, chance: &mut Chance) {
    let id = user.machine.client.0.to_string();
    loop {
        let mut data = chance.number().to_be_bytes();
        let Ok(member) = GroupMember::join_with_data(user.client, path, &id, &data) else { return };
        let outcome = user.finish(stay(user, path, (&id, &member, &mut data), chance)).await;
        if outcome.is_err_and(|error| error.ends_session()) {
            return;
        }
        if is_stopped(user.stop) {
            sleep(QUIET).await;
            return show(user, path, (&id, &member, &data));
        }
        if user.finish(member.leave()).await.is_err_and(|error| error.ends_session()) {
            return;
        }
    }
}

/// Stays for a few turns, or until it is to stop.
async fn stay(
    user: &User<'_>,
    path: &str,
    (id, member, data): (&str, &GroupMember, &mut [u8; 8]),
    chance: &mut Chance,
) -> Result<(), Error> {
    for _ in 0..chance.between(1..=20) {
        if is_stopped(user.stop) {
            break;
        }
        match chance.between(0..=5) {
            0 => {
                member.ready_timeout(user.timeout * 2).await?;
            }
            1 | 2 => {
                *data = chance.number().to_be_bytes();
                member.set_data(data);
            }
            3 => {
                let deleted =
                    user.client.delete(&format!("{path}/{id}"), Version::Any).await.map(drop);
                if let Err(error) = deleted
                    && error.ends_session()
                {
                    return Err(error);
                }
            }
            _ => {}
        }
        rest(user.stop, chance.up_to(user.load.locks.think)).await;
    }
    Ok(())
}

/// Says what its znode must have by now, and what it sees, if it says itself that it is ready.
fn show(user: &User<'_>, path: &str, (id, member, data): (&str, &GroupMember, &[u8; 8])) {
    let (id, session) = (id.to_owned(), user.client.session().id);
    user.note(path, RecipeStep::IsMember { id, session, data: Bytes::copy_from_slice(data) });
    if !member.is_ready() {
        return;
    }
    let shown = member.cache().snapshot().into_iter();
    let znodes: BTreeMap<_, _> =
        shown.map(|(path, node)| (path, (node.stat.mzxid, node.data))).collect();
    user.note(path, RecipeStep::Shows { znodes });
}
