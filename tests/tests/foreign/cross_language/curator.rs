//! The client's other recipes together with Curator's, at the same paths: each side sees what the
//! other one does (`interop/contest/curator/Counterpart.java`).

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use zoolet_client::Client;
use zoolet_client::recipes::{
    Barrier, Counter, DoubleBarrier, GroupMember, LeaderLatch, LockOptions, Mutex, Queue,
    QueueFormat, SharedCount,
};
use zoolet_tests::contenders::programs::java;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools;

const LONG: Duration = Duration::from_secs(30);

/// Curator in a process of its own.
struct Curator {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Curator {
    fn start(servers: &str) -> Self {
        let sources = ["../curator/Counterpart.java"];
        let command = java("curator-5.9", &sources, "Counterpart").unwrap();
        let mut command = Command::from(command);
        command.env("ZK_CONNECT", servers).env("ZK_SESSION_TIMEOUT_MS", "6000");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines }
    }

    /// Has a line done, and waits for the answer.
    async fn ask(&mut self, line: &str) -> String {
        self.begin(line).await;
        self.answer().await
    }

    async fn begin(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn answer(&mut self) -> String {
        timeout(LONG, self.lines.next_line()).await.unwrap().unwrap().unwrap()
    }

    async fn end(mut self) {
        drop(self.stdin);
        assert!(timeout(LONG, self.child.wait()).await.unwrap().unwrap().success());
    }
}

async fn numbers(client: &Client, curator: &mut Curator) {
    let counter = Counter::new(client, "/numbers/long");
    assert_eq!(counter.add(5).await.unwrap(), 5);
    assert_eq!(curator.ask("add /numbers/long -12").await, "-7");
    client.sync("/numbers/long").await.unwrap();
    assert_eq!(counter.increment().await.unwrap(), -6);
    assert_eq!(curator.ask("add /numbers/new 3").await, "3");
    client.sync("/numbers/new").await.unwrap();
    assert_eq!(Counter::new(client, "/numbers/new").get().await.unwrap(), 3);

    let count = SharedCount::new(client, "/numbers/count", 41);
    let (seen, watch) = count.get_watched().await.unwrap();
    assert_eq!(seen.value, 41);
    curator.ask("sync /numbers/count").await;
    assert_eq!(curator.ask("count /numbers/count -3").await, "41");
    timeout(LONG, watch.changed()).await.unwrap().unwrap();
    assert_eq!(count.get().await.unwrap().value, -3);
}

async fn queues(client: &Client, curator: &mut Curator) {
    let simple = Queue::new(client, "/queues/simple");
    simple.put(b"ours").await.unwrap();
    assert_eq!(curator.ask("put /queues/simple theirs").await, "done");
    assert_eq!(curator.ask("take /queues/simple").await, "ours");
    assert_eq!(timeout(LONG, simple.take()).await.unwrap().unwrap().as_ref(), b"theirs");

    let framed = Queue::with_format(client, "/queues/framed", QueueFormat::Distributed);
    assert_eq!(curator.ask("queue-put /queues/framed theirs").await, "done");
    assert_eq!(timeout(LONG, framed.take()).await.unwrap().unwrap().as_ref(), b"theirs");
    framed.put(b"ours").await.unwrap();
    assert_eq!(curator.ask("queue-take /queues/framed").await, "ours");

    let urgent = Queue::with_format(client, "/queues/urgent", QueueFormat::Distributed);
    urgent.put_with_priority(b"second", 7).await.unwrap();
    assert_eq!(curator.ask("priority-put /queues/urgent first -2").await, "done");
    assert_eq!(curator.ask("priority-put /queues/urgent third 8").await, "done");
    for item in ["first", "second", "third"] {
        let taken = timeout(LONG, urgent.take()).await.unwrap().unwrap();
        assert_eq!(taken.as_ref(), item.as_bytes());
    }
}

async fn latches(client: &Client, curator: &mut Curator) {
    let ours = LeaderLatch::start(client, "/latch", "ours");
    timeout(LONG, ours.lead()).await.unwrap().unwrap();
    curator.ask("latch /latch theirs").await;
    let both = async {
        while ours.participants().await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, both).await.unwrap();
    curator.ask("sync /latch").await;
    assert_eq!(curator.ask("latch-participants /latch").await, "ours,theirs");
    assert_eq!(curator.ask("latch-leader /latch").await, "ours");
    ours.close().await.unwrap();
    assert_eq!(curator.ask("latch-await /latch").await, "true");
    let again = LeaderLatch::start(client, "/latch", "ours");
    let leader = again.leader().await.unwrap().unwrap();
    assert_eq!((leader.id.as_str(), again.is_leader()), ("theirs", false));
    curator.ask("latch-close /latch").await;
    timeout(LONG, again.lead()).await.unwrap().unwrap();
    again.close().await.unwrap();
}

async fn barriers(client: &Client, curator: &mut Curator) {
    assert_eq!(curator.ask("barrier-set /barrier").await, "done");
    client.sync("/barrier").await.unwrap();
    let barrier = Barrier::new(client, "/barrier");
    assert!(!barrier.wait_timeout(Duration::from_millis(200)).await.unwrap());
    assert_eq!(curator.ask("barrier-remove /barrier").await, "done");
    timeout(LONG, barrier.wait()).await.unwrap().unwrap();

    curator.begin("double-enter /double").await;
    let entered = timeout(LONG, DoubleBarrier::new(client, "/double", 2).enter()).await;
    assert_eq!(curator.answer().await, "true");
    curator.begin("double-leave /double").await;
    timeout(LONG, entered.unwrap().unwrap().leave()).await.unwrap().unwrap();
    assert_eq!(curator.answer().await, "true");
}

async fn groups(client: &Client, curator: &mut Curator) {
    let ours = GroupMember::join(client, "/group", "ours").unwrap();
    timeout(LONG, ours.ready()).await.unwrap().unwrap();
    curator.ask("member /group theirs").await;
    let both = async {
        while ours.members().len() < 2 || curator.ask("members /group").await != "ours,theirs" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, both).await.unwrap();
    curator.ask("member-close /group").await;
    let alone = async {
        while ours.members().len() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, alone).await.unwrap();
    ours.leave().await.unwrap();
}

async fn revocations(client: &Client, curator: &mut Curator) {
    let options = LockOptions::new().revocable();
    let ours = Mutex::with_options(client, "/revocable", options).acquire().await.unwrap();
    let asked = tokio::spawn(ours.revocation());
    curator.ask(&format!("sync {}", ours.path())).await;
    assert_eq!(curator.ask(&format!("revoke {}", ours.path())).await, "done");
    timeout(LONG, asked).await.unwrap().unwrap();
    assert!(ours.release().await.unwrap());

    let theirs = curator.ask("revocable /revocable").await;
    client.sync("/revocable").await.unwrap();
    Mutex::request_revocation(client, &theirs).await.unwrap();
    assert_eq!(curator.ask("revoked /revocable").await, "asked");
    let mutex = Mutex::new(client, "/revocable");
    assert!(mutex.acquire_timeout(LONG).await.unwrap().is_some());
}

async fn together(servers: &str) {
    let client = Client::connect(servers).await.unwrap();
    let mut curator = Curator::start(servers);
    numbers(&client, &mut curator).await;
    queues(&client, &mut curator).await;
    latches(&client, &mut curator).await;
    barriers(&client, &mut curator).await;
    groups(&client, &mut curator).await;
    revocations(&client, &mut curator).await;
    curator.end().await;
}

#[test]
fn the_other_recipes_work_together_with_curator_s() {
    if !tools::require_foreign("recipes with Curator", &["java", "mvn"]).unwrap() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let servers = Servers::zoolet().servers(3).start().unwrap();
    runtime.block_on(together(&servers.connect_string()));
    drop(servers);
    if tools::is_tier("lock_programs") {
        let servers = Servers::apache().servers(3).start().unwrap();
        runtime.block_on(together(&servers.connect_string()));
    }
}
