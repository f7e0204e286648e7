//! No member of a double barrier passes before all have entered, and none has left before all are
//! leaving.

use std::collections::BTreeMap;

use zoolet_jute::SessionId;
use zoolet_replica::Op;

use super::Noted;
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};
use crate::history::{ClientNumber, RecipeStep, What};
use crate::model::{ChangeKind, path as paths};

const K8: &str = "K8 barrier";
/// The znode that says that all are there.
const READY: &str = "ready";

/// What the log has of a barrier.
#[derive(Debug, Default)]
struct Barrier {
    /// The znodes of members: when they were created and deleted.
    members: Vec<(SimTime, Option<SimTime>)>,
    there: BTreeMap<String, usize>,
    /// When `ready` was created, and how many members were there then.
    opened: Vec<(SimTime, usize)>,
}

impl Barrier {
    fn of(run: &Run<'_>, path: &str) -> Self {
        let mut barrier = Self::default();
        for one in &run.model.transactions {
            let changes = one.outcome.changes.iter();
            for change in changes.filter(|change| paths::parent(&change.path) == Some(path)) {
                let is_ready = paths::name(&change.path) == READY;
                match change.kind {
                    ChangeKind::Created if is_ready => {
                        barrier.opened.push((one.first_at, barrier.there.len()));
                    }
                    ChangeKind::Created => {
                        barrier.there.insert(change.path.clone(), barrier.members.len());
                        barrier.members.push((one.first_at, None));
                    }
                    ChangeKind::Deleted => {
                        let gone = barrier.there.remove(&change.path);
                        if let Some(member) = gone.and_then(|gone| barrier.members.get_mut(gone)) {
                            member.1 = Some(one.first_at);
                        }
                    }
                    ChangeKind::DataChanged => {}
                }
            }
        }
        barrier
    }
}

/// A member that is inside.
#[derive(Clone, Copy, Debug)]
struct Inside {
    from: SimTime,
    session: SessionId,
    leaves: Option<SimTime>,
}

/// Looks at each member that has entered, and at each that has left.
#[allow(clippy::wildcard_enum_match_arm, reason = "the other steps are of other recipes")]
pub(super) fn check(
    run: &Run<'_>,
    path: &str,
    steps: &[Noted<'_>],
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let barrier = Barrier::of(run, path);
    let mut inside: BTreeMap<ClientNumber, Inside> = BTreeMap::new();
    let mut begun = 0;
    for noted in steps {
        let mut violated = |why: String| {
            let what = format!("client {} at {path}: {why}", noted.client.0);
            found.push(Violation { promise: K8, at: noted.at, what });
        };
        match noted.step {
            RecipeStep::Enters { members } => {
                begun += 1;
                for (_, there) in barrier.opened.iter().filter(|(_, there)| there < members) {
                    violated(format!("it opened for {there} members, of {members}"));
                }
            }
            RecipeStep::Entered { session } => {
                counts.passages += 1;
                if !barrier.opened.iter().any(|(at, _)| *at <= noted.at) {
                    violated(format!("it has entered, and {begun} have come, before it opened"));
                }
                let (from, session) = (noted.at, *session);
                inside.insert(noted.client, Inside { from, session, leaves: None });
            }
            RecipeStep::Leaves => {
                if let Some(it) = inside.get_mut(&noted.client) {
                    it.leaves = Some(noted.at);
                }
            }
            RecipeStep::Left => {
                let own = inside.remove(&noted.client);
                let Some(leaves) = own.and_then(|own| own.leaves) else { continue };
                let left = |gone: Option<SimTime>| gone.is_some_and(|gone| gone <= noted.at);
                let mut there = barrier.members.iter();
                if there.any(|(created, gone)| *created < leaves && !left(*gone)) {
                    violated("it has left where the znode of another one is there".to_owned());
                }
                let stays = |(client, other): (&ClientNumber, &Inside)| {
                    let was_in = other.from < leaves && other.leaves.is_none();
                    was_in && !is_over(run, (*client, other), noted.at)
                };
                if let Some((other, _)) = inside.iter().find(|it| stays(*it)) {
                    violated(format!("it has left where client {} does not leave", other.0));
                }
            }
            _ => {}
        }
    }
}

/// Whether the program of a member, or its session, has ended by then.
fn is_over(run: &Run<'_>, (client, member): (ClientNumber, &Inside), by: SimTime) -> bool {
    let ends = run.model.transactions.iter().filter(|one| one.first_at <= by);
    let mut ends = ends.filter(|one| one.command.session == member.session);
    let has_ended = |op: &Op| matches!(op, Op::CloseSession | Op::ExpireSession { .. });
    let died = What::ClientDied { client };
    let records = run.history.records.iter();
    let mut records = records.filter(|record| member.from <= record.at && record.at <= by);
    ends.any(|one| has_ended(&one.command.op) && one.outcome.result.is_ok())
        || records.any(|record| record.what == died)
}
