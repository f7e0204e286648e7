//! Faults that wait for an event, so that situations come up which a random moment misses.

use std::time::Duration;

use super::draw::Drawer;
use super::event::Event;
use super::{Fault, Files, Kind, Planned, Wait, Whom};

/// How long behind its event a fault begins at most, in milliseconds.
const BEHIND_MS_MAX: u64 = 50;
/// How many changes or pieces behind its event a server ends at most.
const POINT_MAX: u64 = 40;

impl Drawer {
    /// The faults of a run that wait for events. With `kinds`, only those of these kinds.
    pub(super) fn waiting(&mut self, kinds: Option<&[Kind]>) -> Vec<Planned> {
        if !self.chance.permille(600) {
            return Vec::new();
        }
        let mut plan = Vec::new();
        for _ in 0..self.chance.between(1, 6) {
            let event = self.chance.one_of(Event::ALL).copied().unwrap_or(Event::Leads);
            let kind = self.kind_behind(event);
            if kinds.is_some_and(|kinds| !kinds.contains(&kind)) {
                continue;
            }
            let Some(fault) = self.fault_there(event, kind) else { continue };
            let after_ms = self.chance.between(0, (self.frame.until - self.frame.from).as_secs());
            // What is counted is what comes behind the event.
            let counts = matches!(kind, Kind::EndAt | Kind::ReadError);
            let behind_ms = if counts { 0 } else { self.chance.between(0, BEHIND_MS_MAX) };
            let span = match (event, kind) {
                // For longer than the leader waits.
                (Event::TakenIn, Kind::Stop) => Duration::from_secs(25),
                _ => self.span(kind),
            };
            plan.push(Planned {
                number: 0,
                at: self.frame.from + Duration::from_secs(after_ms),
                span,
                fault,
                wait: Some(Wait { event, behind: Duration::from_millis(behind_ms) }),
            });
        }
        plan
    }

    fn kind_behind(&mut self, event: Event) -> Kind {
        let kinds: &[Kind] = match event {
            Event::Leads | Event::Reconfigures => {
                &[Kind::EndAt, Kind::Kill, Kind::Stop, Kind::CutLeader, Kind::Stall, Kind::Restart]
            }
            Event::Installs => &[Kind::EndAt, Kind::EndAt, Kind::Kill, Kind::Stop, Kind::SlowCpu],
            Event::Starts => {
                &[Kind::EndAt, Kind::EndAt, Kind::Kill, Kind::Stop, Kind::SlowDisk, Kind::ReadError]
            }
            // The server that the event names does not run: what strikes it does so at its next
            // start.
            Event::Ends => &[
                Kind::Kill,
                Kind::EndAt,
                Kind::Stop,
                Kind::CutLeader,
                Kind::BitRot,
                Kind::LostFile,
            ],
            Event::TakenIn => &[Kind::Stop, Kind::Stop, Kind::EndAt, Kind::Kill],
        };
        self.chance.one_of(kinds).copied().unwrap_or(Kind::Kill)
    }

    /// A fault at the server of the event, or at the leader that goes on behind it.
    fn fault_there(&mut self, event: Event, kind: Kind) -> Option<Fault> {
        let is_of_disk = matches!(kind, Kind::BitRot | Kind::LostFile);
        let at_leader = event == Event::Ends && !is_of_disk && self.chance.permille(500);
        let server = if at_leader { Whom::Leader } else { Whom::There };
        Some(match self.fault(kind)? {
            Fault::Kill { turns, .. } => Fault::Kill { server, turns },
            Fault::EndAt { survival, .. } => {
                Fault::EndAt { server, point: self.point(POINT_MAX), survival }
            }
            Fault::Restart { .. } => Fault::Restart { server },
            Fault::Stop { .. } => Fault::Stop { server },
            Fault::Stall { .. } => Fault::Stall { server },
            Fault::SlowDisk { sync_us, .. } => Fault::SlowDisk { server, sync_us },
            Fault::SlowCpu { every, .. } => Fault::SlowCpu { server, every },
            Fault::BitRot { place, .. } => {
                Fault::BitRot { server, files: Files::NewestSnapshot, place }
            }
            Fault::ReadError { read, .. } => Fault::ReadError { server, read },
            Fault::LostFile { lost, .. } => Fault::LostFile { server, lost },
            other @ (Fault::CutLeader { .. }
            | Fault::PowerCut { .. }
            | Fault::Cut { .. }
            | Fault::Links { .. }
            | Fault::Lanes { .. }
            | Fault::Reset { .. }
            | Fault::ConnectTwice { .. }
            | Fault::Full { .. }
            | Fault::DiskError { .. }
            | Fault::DiskLoss { .. }
            | Fault::ClockRate { .. }
            | Fault::ClockJump { .. }
            | Fault::StopClient { .. }
            | Fault::KillClient { .. }
            | Fault::CutClient { .. }
            | Fault::Level { .. }
            | Fault::WrongDisk { .. }) => other,
        })
    }
}
