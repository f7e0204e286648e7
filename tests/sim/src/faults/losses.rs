//! Losses of files, and the servers that ran in spite of them.

use std::collections::BTreeMap;

use zoolet_replica::ServerId;

use super::Lost;
use super::rot::lose;
use crate::SimTime;
use crate::history::Loss;
use crate::trace;
use crate::world::Server;

/// The losses of a run.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The losses of logs.
    pub(crate) all: Vec<Loss>,
    /// The losses that begin once their servers have stopped.
    stopping: BTreeMap<ServerId, Lost>,
}

impl Losses {
    /// Has a server lose files once it has stopped.
    pub(super) fn await_stop(&mut self, server: ServerId, lost: Lost) {
        self.stopping.insert(server, lost);
    }

    /// Cancels the losses that have not begun.
    pub(super) fn await_no_stop(&mut self) {
        self.stopping.clear();
    }

    /// Notes that a server has stopped cleanly. Returns the loss that begins now.
    pub(super) fn stopped(&mut self, server: ServerId) -> Option<Lost> {
        self.stopping.remove(&server)
    }

    /// Removes files of a server that does not run.
    pub(super) fn strike(&mut self, server: &mut Server, lost: Lost, now: SimTime) {
        if server.damage(|image| lose(image, lost)) {
            trace::of("nemesis");
            trace::line(format_args!("the log of server {} lacks durable data", server.id));
            let (server, ran_at, is_replaced) = (server.id, None, false);
            self.all.push(Loss { at: now, server, lost, ran_at, is_replaced });
        }
    }

    /// Notes that a server runs.
    pub(super) fn runs(&mut self, server: ServerId, now: SimTime) {
        for loss in self.on_disk_of(server) {
            loss.ran_at = loss.ran_at.or(Some(now));
        }
    }

    /// Notes that a server has an empty disk.
    pub(super) fn end(&mut self, server: ServerId) {
        self.on_disk_of(server).for_each(|loss| loss.is_replaced = true);
    }

    fn on_disk_of(&mut self, server: ServerId) -> impl Iterator<Item = &mut Loss> {
        self.all.iter_mut().filter(move |loss| loss.server == server && !loss.is_replaced)
    }
}
