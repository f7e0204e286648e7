//! The situations.

use std::time::Duration;

use zoolet_jute::{ErrorCode, EventType, ReconfigRequest, Request, SessionId};

use super::{Facts, votes};
use crate::faults::{Fault, Kind, LOG_MISSING, Lost, OF_ANOTHER, SNAPSHOT_MISSING, Whom};
use crate::history::{LockStep, What};

type Situation = (&'static str, fn(&Facts<'_>) -> bool);

const SOON: Duration = Duration::from_millis(300);
const SECOND: Duration = Duration::from_secs(1);
const INSTALLED: &str = "a snapshot of another server is installed";
const STARTS: &str = " starts";
const LED: &str = "to=Leader";

/// A server ends in the middle of something.
const ENDS: &[Kind] = &[Kind::Kill, Kind::Power];

pub(super) const SITUATIONS: &[Situation] = &[
    // Starts.
    ("an unfinished write is cut off at a start", |facts| facts.logged("cut off an unfinished")),
    ("a damaged snapshot is passed over", |facts| facts.logged("an older one is used")),
    ("entries that were never committed are cut off", |facts| {
        facts.logged("cut off entries that were never committed")
    }),
    ("a server without data waits for the others", |facts| {
        facts.logged("waiting for these servers")
    }),
    ("a server with an empty directory waits to be taken in", |facts| {
        facts.logged("this directory is not part of the ensemble")
    }),
    ("a directory is taken in", |facts| facts.logged("the directory is part of the ensemble")),
    ("a directory is not taken in because it does not answer", |facts| {
        facts.logged("the directory is not taken in")
    }),
    ("two servers get new directories", |facts| {
        facts.servers_that_logged("part of an ensemble now") > 0
            && facts.faults(Kind::DiskLoss).count() >= 2
    }),
    ("a server ends while it starts", |facts| facts.fault_behind(STARTS, ENDS, SOON)),
    ("a server of a damaged disk does not start", |facts| {
        facts.faults(Kind::BitRot).next().is_some() && !facts.outcome.failures.is_empty()
    }),
    // Elections.
    ("a leader's process is gone and another is elected", |facts| {
        facts.logged("the leader's process is gone")
    }),
    ("no leader is elected in a dead one's place yet", |facts| {
        facts.logged("no leader is elected in its place yet")
    }),
    ("there is no leader for longer than initLimit", |facts| {
        facts.logged("no leader found within initLimit")
    }),
    ("three elections in two seconds", |facts| {
        let elections = facts.elections();
        elections.windows(3).any(|three| match three {
            [first, .., last] => last.0 - first.0 <= 2 * SECOND,
            _ => false,
        })
    }),
    ("a server is elected, and ends at once", |facts| facts.fault_behind(LED, ENDS, SOON)),
    ("ten elections in a run", |facts| facts.elections().len() >= 10),
    ("each server leads once", |facts| {
        let mut leaders: Vec<_> = facts.elections().into_iter().map(|(_, server)| server).collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders.len() >= usize::from(facts.outcome.servers) && facts.outcome.servers > 1
    }),
    ("the lead is transferred", |facts| facts.logged("transferred the leadership")),
    ("a lead is given up and not taken", |facts| facts.logged("the transferee has not taken it")),
    ("a leader gives up because its disk does not answer", |facts| {
        facts.logged("the disk does not answer")
    }),
    ("a disk answers again", |facts| facts.logged("the disk has answered")),
    ("proposals are lost", |facts| facts.logged("proposals are lost")),
    ("a disk is lost within a second of an election", |facts| {
        facts.fault_behind(LED, &[Kind::DiskLoss], SECOND)
    }),
    ("an election within a reconfiguration", |facts| {
        facts.follows("reconfiguration to=", LED, SECOND)
    }),
    // Snapshots.
    ("a snapshot of another server is installed", |facts| facts.logged(INSTALLED)),
    ("a server ends just behind an install", |facts| facts.fault_behind(INSTALLED, ENDS, SECOND)),
    ("an election just behind an install", |facts| facts.follows(INSTALLED, LED, SECOND)),
    ("two servers install snapshots", |facts| facts.servers_that_logged(INSTALLED) >= 2),
    ("a received snapshot cannot be kept", |facts| {
        facts.logged("a received snapshot cannot be kept")
    }),
    ("a snapshot cannot be written", |facts| facts.logged("cannot write a snapshot")),
    ("a session is resumed just behind an install", |facts| {
        facts.resumes().iter().any(|(resumed, ..)| {
            facts.all_logged(INSTALLED).any(|mark| {
                mark.server() == Some(resumed.server)
                    && resumed.at >= mark.at
                    && resumed.at - mark.at <= SECOND
            })
        })
    }),
    // Servers and their links.
    ("all servers lose power at once", |facts| {
        facts.any_fault(|fault| {
            matches!(fault, Fault::PowerCut { servers, .. }
                if servers.len() >= usize::from(facts.outcome.servers))
        })
    }),
    ("a server ends in the middle of a step", |facts| {
        facts.any_fault(|fault| matches!(fault, Fault::Kill { turns: 1.., .. }))
    }),
    ("two servers are down at a time", |facts| {
        facts.overlap(Kind::Kill, Kind::Kill) || facts.overlap(Kind::Kill, Kind::Power)
    }),
    ("a kill within a cut", |facts| facts.overlap(Kind::Kill, Kind::Cut)),
    ("a loss of power while a server stands still", |facts| facts.overlap(Kind::Power, Kind::Stop)),
    ("two cuts at a time", |facts| facts.overlap(Kind::Cut, Kind::Cut)),
    ("a leader sends and does not hear", |facts| {
        facts.any_fault(|fault| matches!(fault, Fault::CutLeader { out: false, .. }))
    }),
    ("a leader hears and does not send", |facts| {
        facts.any_fault(|fault| matches!(fault, Fault::CutLeader { into: false, .. }))
    }),
    ("a bridge between two sides", |facts| {
        facts.any_fault(|fault| matches!(fault, Fault::Cut { shape: "bridge", .. }))
    }),
    ("all servers are alone", |facts| {
        facts.any_fault(|fault| matches!(fault, Fault::Cut { shape: "all alone", .. }))
    }),
    ("a caller is refused on the peer port", |facts| facts.logged("refused on the peer port")),
    ("a peer is out of reach, and back", |facts| facts.logged("peer can be reached again")),
    ("a follower's state is too old to be served", |facts| {
        facts.logged("no longer serving: the state lacks entries")
    }),
    ("a leader steps down because its entries do not arrive", |facts| {
        facts.logged("stepping down: no majority has acknowledged")
    }),
    ("connections break while links lose", |facts| facts.overlap(Kind::Reset, Kind::Links)),
    ("a connect arrives twice", |facts| facts.outcome.network.twice > 0),
    ("a connection comes of a caller who has given up", |facts| facts.outcome.network.unwanted > 0),
    // Disks and clocks.
    ("a sync takes half a second", |facts| {
        facts.any_fault(
            |fault| matches!(fault, Fault::SlowDisk { sync_us: (_, most), .. } if *most >= 500_000),
        )
    }),
    ("a disk refuses a change, and its server ends", |facts| {
        facts.faults(Kind::DiskError).next().is_some() && !facts.outcome.failures.is_empty()
    }),
    ("a read of a disk fails, and its server ends", |facts| {
        let mut failures = facts.outcome.failures.iter();
        facts.faults(Kind::ReadError).next().is_some()
            && failures.any(|(.., why)| why.contains("cannot read") && why.contains("injected"))
    }),
    ("a snapshot is lost, and its server gets a new directory", |facts| {
        facts.outcome.failures.iter().any(|(.., why)| why.contains(SNAPSHOT_MISSING))
    }),
    ("the end of a log is lost after a clean stop", |facts| {
        facts.outcome.history.losses.iter().any(|loss| matches!(loss.lost, Lost::LogEnd { .. }))
    }),
    ("a log vanishes, and its server does not start", |facts| {
        facts.outcome.failures.iter().any(|(.., why)| why.contains(LOG_MISSING))
    }),
    ("a server does not start in another one's directory", |facts| {
        facts.outcome.failures.iter().any(|(.., why)| why.contains(OF_ANOTHER))
    }),
    ("a disk is full, and its server ends", |facts| {
        facts.outcome.failures.iter().any(|(.., why)| why.contains("space") || why.contains("full"))
    }),
    ("a stall of the leader's disk", |facts| {
        facts.any_fault(|fault| matches!(fault, Fault::Stall { server: Whom::Leader }))
    }),
    ("clocks of two servers go wrong at a time", |facts| {
        facts.overlap(Kind::ClockRate, Kind::ClockRate)
    }),
    ("a leader is elected while clocks are further off than is tolerated", |facts| {
        facts.faults(Kind::ClockSkew).any(|skew| {
            facts.all_logged(LED).any(|led| led.at >= skew.at && led.at <= skew.at + skew.span)
        })
    }),
    ("a wall clock jumps by more than a day", |facts| {
        facts.any_fault(|fault| {
            matches!(fault, Fault::ClockJump { by_ms, .. } if by_ms.unsigned_abs() > 86_400_000)
        })
    }),
    ("a leader stands still for longer than a session lives", |facts| {
        let long = Duration::from_secs(4);
        facts.plan.iter().any(|planned| {
            planned.span > long && matches!(planned.fault, Fault::Stop { server: Whom::Leader })
        })
    }),
    // The ensemble.
    ("a reconfiguration is carried out", |facts| facts.logged("reconfiguration to=")),
    ("a server becomes an observer", |facts| {
        facts.reconfigs.iter().any(|(asked, refused)| {
            let lines = asked.joining_servers.as_ref().or(asked.new_members.as_ref());
            refused.is_none() && lines.is_some_and(|lines| lines.contains(":observer"))
        })
    }),
    ("an observer becomes a voter again", |facts| {
        // In the end, one change makes all servers voters.
        let is_last = |asked: &ReconfigRequest| {
            asked.joining_servers.as_ref().is_some_and(|lines| lines.contains(','))
        };
        let done = facts.reconfigs.iter().filter(|(_, refused)| refused.is_none());
        votes::returned(done.map(|(asked, _)| asked).filter(|asked| !is_last(asked)))
    }),
    ("a whole list replaces the ensemble", |facts| {
        let mut changes = facts.reconfigs.iter();
        changes.any(|(asked, refused)| refused.is_none() && asked.new_members.is_some())
    }),
    ("a change over an old configuration is refused", |facts| {
        facts.reconfigs.iter().any(|(_, refused)| *refused == Some(ErrorCode::BadVersion))
    }),
    ("a server is removed", |facts| facts.logged("this server was removed from the ensemble")),
    ("a feature level is agreed on", |facts| facts.logged("agreeing on a feature level")),
    ("a lower feature level is agreed on", |facts| facts.logged("a lower feature level is agreed")),
    // Sessions.
    ("a session moves to another server", |facts| facts.resumes().iter().any(|(.., moved)| *moved)),
    ("a session moves twice in a second", |facts| {
        let moves: Vec<_> = facts.resumes().into_iter().filter(|(.., moved)| *moved).collect();
        moves.iter().any(|(first, ..)| {
            moves.iter().any(|(second, ..)| {
                first.session == second.session
                    && second.at > first.at
                    && second.at - first.at <= SECOND
            })
        })
    }),
    ("a session is asked for that has expired", |facts| {
        facts.connected.iter().any(|connected| {
            connected.asked != SessionId::NONE && connected.session == SessionId::NONE
        })
    }),
    ("a session is resumed within a second of an election", |facts| {
        facts.resumes().iter().any(|(resumed, ..)| {
            facts.elections().iter().any(|(at, _)| resumed.at >= *at && resumed.at - *at <= SECOND)
        })
    }),
    ("a quota refuses a write", |facts| {
        facts.any_record(|what| {
            matches!(what, What::Returned { result: Err(ErrorCode::QuotaExceeded), .. })
        })
    }),
    ("a write of a moved session is refused", |facts| {
        // Its server ends the connection instead of a reply.
        facts.counts.writes_moved > 0
    }),
    ("a client's program ends and begins anew", |facts| {
        facts.any_record(|what| matches!(what, What::ClientDied { .. }))
    }),
    // Requests.
    ("a create has no reply", |facts| {
        facts
            .unanswered
            .iter()
            .any(|(.., request)| matches!(request, Request::Create(_) | Request::Create2(_)))
    }),
    ("a transaction has no reply", |facts| {
        facts.unanswered.iter().any(|(.., request)| matches!(request, Request::Multi(_)))
    }),
    ("a close has no reply", |facts| {
        facts.unanswered.iter().any(|(.., request)| matches!(request, Request::CloseSession))
    }),
    ("a sync has no reply", |facts| {
        facts.unanswered.iter().any(|(.., request)| matches!(request, Request::Sync(_)))
    }),
    ("a watch fires for a deleted znode", |facts| {
        facts.any_record(|what| {
            matches!(what, What::Notified { event, .. }
                if event.event_type == EventType::NodeDeleted)
        })
    }),
    // Locks.
    ("a lock is lost", |facts| facts.any_step(|step| matches!(step, LockStep::Lost { .. }))),
    ("a stale write is refused", |facts| {
        facts.any_step(|step| matches!(step, LockStep::Wrote { accepted: false, .. }))
    }),
    ("a contender gives up", |facts| facts.any_step(|step| matches!(step, LockStep::GaveUp))),
];
