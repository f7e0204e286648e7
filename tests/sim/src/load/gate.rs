//! Users of a barrier that anyone may set up and take away.

use std::future::pending;
use std::time::Duration;

use tokio::time::sleep;
use zoolet_client::Error;
use zoolet_client::recipes::Barrier;

use super::chance::Chance;
use super::structures::User;
use crate::history::RecipeStep;

/// Sets it up, takes it away, or waits until it is not there.
pub(super) async fn take_turn(
    user: &User<'_>,
    path: &str,
    chance: &mut Chance,
) -> Result<(), Error> {
    let barrier = Barrier::new(user.client, path);
    match chance.between(0..=4) {
        0 => user.finish(barrier.set()).await.map(drop),
        1 | 2 => user.finish(barrier.remove()).await.map(drop),
        _ => {
            // Some are longer than a change needs to be known.
            let limit = chance.up_to(Duration::from_secs(20));
            let removing_at = chance.up_to(user.timeout / 2);
            user.note(path, RecipeStep::Awaits);
            let waits = async {
                let removing = async {
                    sleep(removing_at).await;
                    // What it comes to, the log says.
                    let _ = barrier.remove().await;
                    pending().await
                };
                tokio::select! {
                    biased;
                    is_open = barrier.wait_timeout(limit) => is_open,
                    it = removing => it,
                }
            };
            if let Some(is_open) = user.finish(waits).await? {
                user.note(path, RecipeStep::Awaited { is_open });
            }
            Ok(())
        }
    }
}
