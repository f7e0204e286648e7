//! What a fault does to one server, and to links.

use zoolet_replica::ServerId;
use zoolet_storage::Survival;

use super::act::Act;
use super::rot::rot;
use super::{Fault, Whom};
use crate::SimTime;
use crate::network::MachineId;
use crate::trace;
use crate::world::{DiskConditions, Server, World};

/// What a full disk has left, in bytes: next to nothing.
const FULL_ROOM: u64 = 512;

pub(super) fn find(whom: Whom, world: &World) -> Option<ServerId> {
    match whom {
        Whom::Server(server) => Some(server),
        Whom::Leader => world.leader(),
        // Its event has not come.
        Whom::There => None,
    }
}

/// Begins a fault of a server. Returns what ends it.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others are not faults of one server")]
pub(super) fn begin_at(server: &mut Server, fault: &Fault, end: SimTime) -> Option<Act> {
    let id = server.id;
    match fault {
        Fault::Kill { turns, .. } => {
            server.machine.go_on();
            server.step_some(*turns);
            server.kill();
            return Some(Act::Start(id));
        }
        Fault::Restart { .. } => server.shut_down(),
        Fault::Stop { .. } => {
            server.machine.stop();
            return Some(Act::GoOn(id));
        }
        Fault::SlowDisk { sync_us, .. } => {
            server.set_disk(DiskConditions { sync_us: *sync_us, ..DiskConditions::GOOD });
            return Some(Act::Disk(id));
        }
        Fault::Stall { .. } => server.stall(end),
        Fault::Full { .. } => {
            let room = server.disk().image().used_bytes() + FULL_ROOM;
            let capacity_bytes = Some(room);
            server.set_disk(DiskConditions { capacity_bytes, ..DiskConditions::GOOD });
            return Some(Act::Disk(id));
        }
        Fault::DiskError { change, fault, .. } => server.disk().fail_change(*change, *fault),
        Fault::ReadError { read, .. } => server.disk().fail_read(*read),
        Fault::SlowCpu { every, .. } => {
            server.machine.set_turn_every(*every);
            return Some(Act::FastCpu(id));
        }
        Fault::BitRot { files, place, .. } => {
            server.cut_power(Survival::Nothing);
            server.damage(|image| rot(image, *files, *place));
            return Some(Act::Start(id));
        }
        Fault::LostFile { .. } => {
            server.cut_power(Survival::Nothing);
            return Some(Act::Start(id));
        }
        Fault::DiskLoss { .. } => {
            server.cut_power(Survival::Nothing);
            server.wipe();
            return Some(Act::Start(id));
        }
        Fault::ClockRate { rate, .. } => {
            server.machine.set_rate(*rate);
            return Some(Act::Rate(id));
        }
        Fault::ClockJump { by_ms, .. } => {
            server.machine.jump(*by_ms);
            return Some(Act::Jump(id, -by_ms));
        }
        Fault::Level { level, .. } => {
            let level = *level;
            server.configure(|config| config.ensemble.feature_level_max = level);
            server.shut_down();
        }
        _ => {}
    }
    None
}

pub(super) fn connect_once(links: &[(MachineId, MachineId)], world: &World) {
    trace::line(format_args!("connects arrive once: {links:?}"));
    for (from, to) in links {
        world.network.set_twice(*from, *to, 0);
    }
}

/// Returns the links between a server and some others, in one direction.
pub(super) fn lane_links(
    server: Whom,
    (into, others): (bool, u8),
    world: &World,
) -> Vec<(MachineId, MachineId)> {
    let Some(server) = find(server, world) else { return Vec::new() };
    let (before, after): (Vec<ServerId>, Vec<ServerId>) =
        world.servers.keys().filter(|other| **other != server).partition(|other| **other < server);
    let following = after.into_iter().chain(before).take(usize::from(others));
    let link = |other: ServerId| {
        let (server, other) = (MachineId(server.0), MachineId(other.0));
        if into { (other, server) } else { (server, other) }
    };
    following.map(link).collect()
}

pub(super) fn mend_lanes(links: &[(MachineId, MachineId)], world: &World) {
    trace::line(format_args!("connections are good again: {links:?}"));
    for (from, to) in links {
        world.network.mend_lanes(*from, *to);
    }
}
