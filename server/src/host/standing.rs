//! How this server stands to the log: what of its own was admitted, as which start it goes on, and
//! which commands the ensemble has agreed on.

use zoolet_replica::state::Admitted;
use zoolet_replica::{FeatureLevel, Input, Levels};

use super::Host;

impl Host {
    /// How far this server's commands are admitted by the state.
    pub fn admitted(&self) -> Admitted {
        self.locked(|inner, _| inner.replica.admitted())
    }

    /// This server goes on under a number of a start that no earlier one has had. If that is another
    /// number than before, its commands so far are lost. Returns the number of the last of them.
    pub fn started(&self, boot: u64) -> u64 {
        self.locked(|inner, now| {
            self.step(inner, now, Input::Started { boot });
            inner.replica.last_proposed()
        })
    }

    /// The feature levels that are agreed and offered.
    pub fn levels(&self) -> Levels {
        self.locked(|inner, _| inner.replica.levels())
    }

    /// All servers of the ensemble have this feature level.
    pub fn level(&self, level: FeatureLevel) {
        self.locked(|inner, now| self.step(inner, now, Input::Level { level }));
    }
}
