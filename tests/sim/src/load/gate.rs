//! Users of a barrier that anyone may set up and take away.

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
            let limit = chance.up_to(user.timeout * 2);
            user.note(path, RecipeStep::Awaits);
            if let Some(is_open) = user.finish(barrier.wait_timeout(limit)).await? {
                user.note(path, RecipeStep::Awaited { is_open });
            }
            Ok(())
        }
    }
}
