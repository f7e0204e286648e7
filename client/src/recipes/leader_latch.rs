//! Being the leader, as a state that a program looks at.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::warn;
use zoolet_jute::{Acl, Stat};

use crate::{Client, Error, ErrorKind, Transaction, Version};

use super::guard::{FencingToken, write};
use super::name::{Sequence, in_order, join};
use super::queue_node::{NodeNaming, QueueNode, QueueNodeSpec};
use super::queue_wait::{Turn, turn, wait_gone, wait_turn};
use super::retry::{children_now, is_not_found, retry_transient, within};
use super::session;

const LATCH_BASE: &str = "latch-";

/// When a leader stops to be one that has lost its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suspension {
    /// At once: Curator's default. When the session is resumed it goes to the end of the queue.
    #[default]
    StepDown,
    /// Only when its session may have ended. If it has not, it goes to the end of the queue.
    StayOn,
}

/// Where a contender stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeadershipState {
    /// Another one leads, or none does at the moment.
    Waiting,
    /// This one leads.
    Leading {
        /// The fencing token of this term.
        token: FencingToken,
        /// The path of its znode.
        path: String,
    },
    /// It is over: the session has ended, or a server has refused an operation.
    Ended(ErrorKind),
}

/// One of those who contend, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its znode.
    pub path: String,
    /// What it calls itself.
    pub id: String,
    /// Whether it is first in the queue.
    pub leads: bool,
}

/// Contends for leadership in the background, beside Curator's `LeaderLatch` on the same path.
///
/// The contender with the lowest number leads. It checks that the znode belongs to its own session
/// and not to one that is about to end (CURATOR-696). What a leader writes should be
/// [guarded](Self::guarded) or carry the token: the state is what the client knew last.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::LeaderLatch;
///
/// let latch = LeaderLatch::start(&client, "/leader", "server-1");
/// let token = latch.lead().await?;
/// println!("leads under token {token}");
/// assert!(latch.is_leader());
/// assert_eq!(latch.participants().await?[0].id, "server-1");
/// latch.close().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "dropping a latch stops contending and gives the leadership up"]
pub struct LeaderLatch {
    client: Client,
    path: String,
    standing: watch::Receiver<LeadershipState>,
    queue_node: Slot,
    entering: watch::Receiver<bool>,
    run_out: RunOut,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// The last term of which a caller has found that its lease had run out.
type RunOut = Arc<watch::Sender<Option<FencingToken>>>;

/// Where the task keeps its place while it waits or leads, for the handles of the latch.
type Slot = Arc<watch::Sender<Option<Arc<QueueNode>>>>;

impl LeaderLatch {
    /// Begins to contend at this path. The id identifies it to the others.
    pub fn start(client: &Client, path: &str, id: &str) -> Self {
        Self::start_with(client, path, id, Suspension::default())
    }

    /// The same, with a choice of what a lost connection means.
    pub fn start_with(client: &Client, path: &str, id: &str, suspension: Suspension) -> Self {
        Self::launch(client, path, id, suspension, false)
    }

    /// The same in the place that this session has in the queue, if it has one: a client that has
    /// [resumed](crate::ClientOptions::resume) the session of another one goes on where that stood,
    /// and leads on with its token if it led. Without this the latch waits for the end of the session.
    pub fn adopt(client: &Client, path: &str, id: &str, suspension: Suspension) -> Self {
        Self::launch(client, path, id, suspension, true)
    }

    fn launch(client: &Client, path: &str, id: &str, suspension: Suspension, adopts: bool) -> Self {
        let (sender, standing) = watch::channel(LeadershipState::Waiting);
        let (stop, stopped) = oneshot::channel();
        let queue_node: Slot = Arc::new(watch::Sender::new(None));
        let (entering_sender, entering) = watch::channel(false);
        let run_out: RunOut = Arc::new(watch::Sender::new(None));
        let contender = Contender {
            client: client.clone(),
            path: path.to_owned(),
            id: id.as_bytes().to_vec(),
            suspension,
            standing: sender,
            queue_node: Arc::clone(&queue_node),
            entering: entering_sender,
            run_out: Arc::clone(&run_out),
        };
        let task = tokio::spawn(contender.run(adopts, stopped));
        let (client, path) = (client.clone(), path.to_owned());
        Self { client, path, standing, queue_node, entering, run_out, stop: Some(stop), task }
    }

    /// Where it stands, now and as it changes. A program that was paused may see here for a moment
    /// that it leads although its lease has run out meanwhile; [`is_leader`](Self::is_leader) and
    /// [`token`](Self::token) look at the clock as well.
    pub fn standing(&self) -> watch::Receiver<LeadershipState> {
        self.standing.clone()
    }

    /// The token of the present term, if it leads. Every term has a higher one than all before it,
    /// those of the same latch too.
    pub fn token(&self) -> Option<FencingToken> {
        self.token_of(&self.standing.borrow())
    }

    /// The token of a standing; `None` too when the lease has run out and the task did not notice
    /// yet, as after a pause of the program.
    fn token_of(&self, standing: &LeadershipState) -> Option<FencingToken> {
        let LeadershipState::Leading { token, .. } = standing else { return None };
        if self.client.remaining().is_zero() {
            // The term is over, also if the lease is renewed before the task has noticed.
            self.run_out.send_replace(Some(*token));
        }
        (*self.run_out.borrow() != Some(*token)).then_some(*token)
    }

    /// Whether it leads: not when its lease has run out, whether or not the program was running at
    /// that moment.
    pub fn is_leader(&self) -> bool {
        self.token().is_some()
    }

    /// Waits until it leads.
    pub async fn lead(&self) -> Result<FencingToken, Error> {
        let mut standing = self.standing.clone();
        loop {
            let now = standing.borrow_and_update().clone();
            if let Some(token) = self.token_of(&now) {
                return Ok(token);
            }
            if let LeadershipState::Ended(kind) = now {
                return Err(kind.into());
            }
            // A task that is gone has reported how it ended.
            standing.changed().await.map_err(|_| Error::from(ErrorKind::Closed))?;
        }
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn lead_timeout(&self, limit: Duration) -> Result<Option<FencingToken>, Error> {
        within(limit, self.lead()).await
    }

    /// Its token if it leads, `None` if another one precedes it. It waits until it is in
    /// the queue and has looked, and for no other contender. It contends on: to leave, close it.
    pub async fn try_lead(&self) -> Result<Option<FencingToken>, Error> {
        let (mut standing, mut queue_node) = (self.standing.clone(), self.queue_node.subscribe());
        loop {
            let now = standing.borrow_and_update().clone();
            if let Some(token) = self.token_of(&now) {
                return Ok(Some(token));
            }
            if let LeadershipState::Ended(kind) = now {
                return Err(kind.into());
            }
            let held = queue_node.borrow_and_update().clone();
            let is_behind = match held {
                Some(held) => self.is_behind(&held).await?,
                None => false,
            };
            // A place that was deleted is taken anew: then the list may have its next znode.
            let is_moving = *self.entering.borrow() || queue_node.has_changed().unwrap_or(false);
            if is_behind && !is_moving {
                return Ok(None);
            }
            tokio::select! {
                // A task that is gone has reported how it ended.
                changed = standing.changed() => {
                    changed.map_err(|_| Error::from(ErrorKind::Closed))?;
                }
                _ = queue_node.changed() => {}
            }
        }
    }

    /// Whether others contend and a place is not the first.
    async fn is_behind(&self, queue_node: &QueueNode) -> Result<bool, Error> {
        let names = children_now(&self.client, &self.path).await?;
        Ok(match latch_turn(&names, queue_node.name()) {
            Turn::Mine => false,
            Turn::Behind(_) => true,
            Turn::Gone => names.iter().any(|name| number(name).is_some()),
        })
    }

    /// Begins a transaction that commits only while it leads; it fails with
    /// [`ErrorKind::LockLost`] when it does not.
    pub fn guarded(&self) -> Result<Transaction<'_>, Error> {
        match &*self.standing.borrow() {
            LeadershipState::Leading { path, .. } => {
                Ok(self.client.transaction().while_held(std::slice::from_ref(path)))
            }
            LeadershipState::Waiting | LeadershipState::Ended(_) => {
                Err(Error::from(ErrorKind::LockLost).at(&self.path))
            }
        }
    }

    /// Writes the data of a znode of this version if it still leads.
    pub async fn write(&self, path: &str, data: &[u8], version: Version) -> Result<Stat, Error> {
        write(self.guarded()?, path, data, version).await
    }

    /// For how long no other can lead, by this client's clock, unless its znode is deleted by
    /// hand. Zero when it does not lead.
    pub fn remaining(&self) -> Duration {
        if self.is_leader() { self.client.remaining() } else { Duration::ZERO }
    }

    /// Waits until it does not lead; at once if it does not now.
    pub async fn lost(&self) {
        let leads =
            |standing: &LeadershipState| matches!(standing, LeadershipState::Leading { .. });
        let mut standing = self.standing.clone();
        tokio::select! {
            // An error means that the task has ended, so it no longer leads.
            _ = standing.wait_for(|standing| !leads(standing)) => {}
            () = self.client.lost() => {}
        }
    }

    /// All who contend, the leader first.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants(&self.client, &self.path, number).await
    }

    /// The leader, if there is one.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        Ok(self.participants().await?.into_iter().next())
    }

    /// Stops contending, and waits until the servers know it.
    pub async fn close(mut self) -> Result<(), Error> {
        if let Some(stop) = self.stop.take() {
            // A task that has ended needs no telling.
            let _ = stop.send(());
        }
        // The task neither panics nor is aborted before the drop.
        let _ = (&mut self.task).await;
        match self.queue_node.send_replace(None).and_then(Arc::into_inner) {
            Some(queue_node) => queue_node.leave().await.map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A place in the queue, and the list of it if that has come with it.
type Entered = (QueueNode, Option<Vec<String>>);

/// How a place was used up.
enum Stay {
    /// Its znode is gone.
    Gone,
    /// It has led, and stepped down.
    Served,
}

/// What the task of a latch knows.
struct Contender {
    client: Client,
    path: String,
    id: Vec<u8>,
    suspension: Suspension,
    standing: watch::Sender<LeadershipState>,
    queue_node: Slot,
    /// Whether a create is under way, so that there may be a znode that is in no slot yet.
    entering: watch::Sender<bool>,
    run_out: RunOut,
}

impl Contender {
    async fn run(self, adopts: bool, stopped: oneshot::Receiver<()>) {
        let stopped = async {
            // A sender that is gone is as good as a word.
            let _ = stopped.await;
            let mut entering = self.entering.subscribe();
            let _ = entering.wait_for(|entering| !entering).await;
        };
        tokio::select! {
            error = self.contend(adopts) => {
                if !error.ends_session() {
                    warn!(path = self.path, %error, "a latch has stopped contending");
                }
                self.standing.send_replace(LeadershipState::Ended(error.kind().clone()));
            }
            () = stopped => {
                self.standing.send_replace(LeadershipState::Ended(ErrorKind::Closed));
            }
        }
    }

    /// Contends until an error ends it.
    async fn contend(&self, adopts: bool) -> Error {
        let Err(error) = self.serve_terms(adopts).await;
        self.keep(None);
        self.entering.send_replace(false);
        error
    }

    /// One term after another, each in a place of its own.
    async fn serve_terms(&self, adopts: bool) -> Result<Infallible, Error> {
        self.entering.send_replace(true);
        let mut entered = if adopts { self.adopt().await? } else { self.enter().await? };
        loop {
            let (queue_node, listed) = (Arc::new(entered.0), entered.1);
            self.keep(Some(&queue_node));
            self.entering.send_replace(false);
            let stay = self.stay(&queue_node, listed).await?;
            self.standing.send_replace(LeadershipState::Waiting);
            self.entering.send_replace(true);
            entered = match stay {
                Stay::Gone => self.enter().await?,
                Stay::Served => self.enter_again(queue_node).await?,
            };
        }
    }

    fn spec<'a>(&'a self, acl: &'a [Acl]) -> QueueNodeSpec<'a> {
        let naming = NodeNaming::Protected(LATCH_BASE);
        QueueNodeSpec { dir: &self.path, naming, data: &self.id, acl, held: &[] }
    }

    async fn enter(&self) -> Result<Entered, Error> {
        QueueNode::enter(&self.client, &self.spec(&Acl::open())).await
    }

    /// Goes to the end of the queue behind a term, in case the session lives on: what is written
    /// under the token of that term must not pass for a write of the next one, so the next one has
    /// another znode.
    async fn enter_again(&self, queue_node: Arc<QueueNode>) -> Result<Entered, Error> {
        let entered = queue_node.enter_again(LATCH_BASE, &self.spec(&Acl::open())).await?;
        // Of the place before nothing is left. Somebody else who looks at it deletes it once more.
        self.keep(None);
        if let Some(mut left) = Arc::into_inner(queue_node) {
            left.disarm();
        }
        Ok(entered)
    }

    /// Takes over the first place that this session has in the queue, or enters it. Others that it
    /// has leave the queue.
    async fn adopt(&self) -> Result<Entered, Error> {
        let mut places =
            QueueNode::adopt(&self.client, &self.path, |name| number(name).is_some()).await?;
        places.sort_by_key(|queue_node| std::cmp::Reverse(queue_node.czxid()));
        let first = places.pop();
        for other in places {
            other.leave().await?;
        }
        match first {
            Some(queue_node) => Ok((queue_node, None)),
            None => self.enter().await,
        }
    }

    /// Waits for the leadership, and leads to the end of the term.
    async fn stay(
        &self,
        queue_node: &QueueNode,
        listed: Option<Vec<String>>,
    ) -> Result<Stay, Error> {
        if !wait_turn(queue_node, listed, latch_turn).await? {
            return Ok(Stay::Gone);
        }
        let path = join(&self.path, queue_node.name());
        let token = FencingToken::new(queue_node.czxid());
        self.standing.send_replace(LeadershipState::Leading { token, path: path.clone() });
        if planted!("latch-keeps-leading") {
            std::future::pending::<()>().await;
        }
        let mut run_out = self.run_out.subscribe();
        let (stay, why) = tokio::select! {
            () = self.client.lost() => (Stay::Served, "the session may have ended"),
            _ = run_out.wait_for(|run_out| *run_out == Some(token)) => {
                (Stay::Served, "its lease had run out when the program asked")
            }
            gone = wait_gone(&self.client, &path, queue_node.czxid()) => {
                gone.map(|()| (Stay::Gone, "its znode was deleted"))?
            }
            () = session::suspended(&self.client),
                if self.suspension == Suspension::StepDown =>
            {
                (Stay::Served, "the connection was lost")
            }
        };
        let session = self.client.session().id;
        warn!(%session, path, %token, why, "the leadership is lost");
        if matches!(stay, Stay::Gone) {
            return Ok(stay);
        }
        self.standing.send_replace(LeadershipState::Waiting);
        session::resumed(&self.client).await;
        Ok(Stay::Served)
    }

    fn keep(&self, queue_node: Option<&Arc<QueueNode>>) {
        self.queue_node.send_replace(queue_node.map(Arc::clone));
    }
}

fn number(name: &str) -> Option<Sequence> {
    Sequence::after(LATCH_BASE, name)
}

fn latch_turn(names: &[String], mine: &str) -> Turn {
    turn(names, mine, number, number)
}

/// How often a queue is listed anew of which a contender goes while it is read.
const LISTS_MAX: usize = 10;

/// All members of a queue and what they wrote on their znodes, the first one first. Who leaves while it
/// is read may have entered again: then it is read anew.
pub(crate) async fn participants(
    client: &Client,
    dir: &str,
    number: impl Fn(&str) -> Option<Sequence>,
) -> Result<Vec<Participant>, Error> {
    let mut lists = 0;
    loop {
        lists += 1;
        let names = in_order(children_now(client, dir).await?, &number);
        let listed = names.len();
        let mut found = Vec::new();
        for name in names {
            let path = join(dir, &name);
            match retry_transient(client, || client.get(&path)).await {
                Ok((data, _)) => {
                    let id = String::from_utf8_lossy(&data).into_owned();
                    found.push(Participant { path, id, leads: found.is_empty() });
                }
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if found.len() == listed || lists == LISTS_MAX {
            return Ok(found);
        }
    }
}
