//! The turns of tasks on one thread. Counted in work of the replica between two turns of another task, so
//! that a slow machine changes nothing.

use tokio::task::yield_now;
use zoolet_jute::{Acl, MultiReadOp, Parts, SetDataRequest};
use zoolet_replica::{Op, Policy, ProposalNumber};

use super::*;
use crate::host::testing::OtherTask;

/// The most work between two turns of another task: a hold with its last step, and one more of the task
/// for unfinished work.
const WORK_MAX: u64 = 4 * Turn::WORK;

fn create(path: String) -> Request {
    Request::Create(CreateRequest { path, data: None, acl: Some(Acl::open()), flags: 0 })
}

/// A multiRead that takes several steps.
fn long_read() -> Request {
    let part = MultiReadOp::GetData(PathWatchRequest { path: "/".to_owned(), watch: false });
    Request::MultiRead(Parts(vec![part; 10_000]))
}

/// Batches of a client of another server, as the log has them.
fn foreign_batches() -> Vec<(Term, Bytes)> {
    let session = SessionId(7);
    let begin = Op::CreateSession { timeout_ms: 40_000 };
    let creates = (0..20_000).map(|n| Op::Write(create(format!("/{n}"))));
    let commands = std::iter::once(begin).chain(creates).zip(1..).map(|(op, number)| Command {
        number: ProposalNumber(number),
        session,
        attachment: ProposalNumber::NONE,
        cxid: Xid(0),
        policy: Policy::default(),
        identities: Arc::from([]),
        op,
    });
    let origin = Origin { server: ServerId(2), boot: Boot(1), stream: 1 };
    let batch = |some: &[Command]| Batch { origin, now_ms: 0, commands: some.to_vec() }.encode();
    commands.collect::<Vec<_>>().chunks(5000).map(|some| (Term(1), batch(some))).collect()
}

/// Heartbeats and clients waited until all entries that were committed together had been applied.
#[tokio::test]
async fn the_log_yields_to_other_tasks() {
    let bench = Bench::new();
    let other = OtherTask::spawn(&bench.host);
    yield_now().await;
    let before = bench.host.work_done();
    bench.host.commit_in_turns(foreign_batches()).await;
    let all = bench.host.work_done() - before;
    let longest = other.longest().await;
    assert!(all > 40 * Turn::WORK, "{all} units of work need no turns");
    assert!(longest < WORK_MAX, "{longest} units of work between two turns of another task");
}

/// All entries that were committed together, of a megabyte each perhaps, were decoded before the first
/// turn.
#[tokio::test]
async fn the_log_yields_between_the_entries_that_it_decodes() {
    const ENTRIES: u64 = 64;
    let bench = Bench::new();
    let other = OtherTask::spawn(&bench.host);
    let batch = |number| {
        let op = Op::Write(Request::SetData(SetDataRequest {
            path: "/".to_owned(),
            data: Some(Bytes::from(vec![0; 1 << 20])),
            version: -1,
        }));
        let command = Command {
            number: ProposalNumber(number),
            session: SessionId(7),
            attachment: ProposalNumber::NONE,
            cxid: Xid(0),
            policy: Policy::default(),
            identities: Arc::from([]),
            op,
        };
        let origin = Origin { server: ServerId(2), boot: Boot(1), stream: 1 };
        (Term(1), Batch { origin, now_ms: 0, commands: vec![command] }.encode())
    };
    let entries: Vec<_> = (1..=ENTRIES).map(batch).collect();
    let mut turns = Vec::new();
    bench.host.commit_in_turns(entries.into_iter().inspect(|_| turns.push(other.turns()))).await;
    turns.dedup();
    let turns = turns.len() as u64;
    assert!(turns >= ENTRIES - 1, "{ENTRIES} entries are decoded in {turns} turns");
}

#[tokio::test]
async fn little_work_costs_no_turn() {
    let bench = Bench::new();
    let (connection, _outbox) = bench.connect();
    let other = OtherTask::spawn(&bench.host);
    yield_now().await;
    let before = other.turns();
    let mut turn = Turn::default();
    for _ in 0..20 {
        let mut asked = bench.received(vec![list()]);
        assert_eq!(bench.host.requests(connection, &mut asked, &mut turn), Admission::Open);
    }
    bench.host.commit_in_turns([]).await;
    assert_eq!(other.turns(), before);
}

/// The caller that reported a sync served all reads that had waited for it.
#[tokio::test]
async fn unfinished_work_yields_to_other_tasks() {
    const CLIENTS: usize = 40;
    let bench = Bench::new();
    let clients: Vec<_> = (0..CLIENTS).map(|_| bench.connect()).collect();
    for (connection, _) in &clients {
        assert_eq!(bench.ask(*connection, vec![sync(), long_read()]), 0);
    }
    let other = OtherTask::spawn(&bench.host);
    yield_now().await;
    let before = bench.host.work_done();
    bench.host.input(Input::Synced { through: CLIENTS as u64 });
    let at_once = bench.host.work_done() - before;
    let work = tokio::spawn(Arc::clone(&bench.host).finish_work());
    while bench.host.report().outstanding > 0 {
        yield_now().await;
    }
    work.abort();
    let all = bench.host.work_done() - before;
    let longest = other.longest().await;
    assert!(all > 40 * Turn::WORK, "{all} units of work need no turns");
    assert!(at_once < WORK_MAX, "{at_once} units of work are done at once");
    assert!(longest < WORK_MAX, "{longest} units of work between two turns of another task");
}
