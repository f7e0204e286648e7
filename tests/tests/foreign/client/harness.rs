//! What the scenes of the client have in common, beside what all scenes have.

use tokio::task::block_in_place;
use zoolet_tests::scenes::Scene;
use zoolet_tests::servers::LEADER_MAX;

/// What the scenes of the client do beside what all scenes do.
pub(crate) trait ClientScene {
    /// Kills a server.
    fn kill(&self, index: usize);

    /// Starts killed servers and waits until they serve.
    fn restart(&self, indexes: &[usize]);

    /// The servers without whom one follower is left.
    fn all_but_a_follower(&self) -> Vec<usize>;
}

impl ClientScene for Scene {
    fn kill(&self, index: usize) {
        block_in_place(|| self.processes().kill(index).unwrap());
    }

    fn restart(&self, indexes: &[usize]) {
        block_in_place(|| {
            let mut processes = self.processes();
            for index in indexes {
                processes.spawn(*index).unwrap();
            }
            for index in indexes {
                processes.wait_until_serving(*index).unwrap();
            }
        });
    }

    fn all_but_a_follower(&self) -> Vec<usize> {
        let leader = block_in_place(|| self.processes().wait_for_leader(LEADER_MAX)).unwrap();
        (0..3).filter(|index| *index != (leader + 1) % 3).collect()
    }
}
