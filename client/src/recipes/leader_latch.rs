//! Being the leader, as a state that a program looks at.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use zoolet_jute::{Acl, Stat};

use crate::{Client, Error, ErrorKind, Transaction};

use super::guard::{FencingToken, write};
use super::line::{Turn, turn, wait_gone, wait_turn};
use super::name::{Sequence, in_order, join};
use super::place::{Place, Shape, Ticket};
use super::retry::{children_now, insist, is_no_node, within};
use super::session;

const LATCH_BASE: &str = "latch-";

/// When a leader stops to be one that has lost its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suspension {
    /// At once, and again when the session is resumed: Curator's default.
    #[default]
    StepDown,
    /// Only when its session may have ended.
    StayOn,
}

/// Where a contender stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Another one leads, or nobody does at the moment.
    Waiting,
    /// This one leads.
    Leading {
        /// The fencing token of this term.
        token: FencingToken,
        /// The path of the znode that stands for it.
        path: String,
    },
    /// It is over: the session has ended, or a server has refused an operation.
    Ended(ErrorKind),
}

/// One of those who contend, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Debug)]
pub struct LeaderLatch {
    client: Client,
    path: String,
    standing: watch::Receiver<Standing>,
    place: Slot,
    entering: watch::Receiver<bool>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Where the task keeps its place while it waits or leads, for whoever looks or closes the latch.
type Slot = Arc<watch::Sender<Option<Arc<Place>>>>;

impl LeaderLatch {
    /// Begins to contend at this path. The id tells the others who it is.
    pub fn start(client: &Client, path: &str, id: &str) -> Self {
        Self::start_with(client, path, id, Suspension::default())
    }

    /// The same, with a choice of what a lost connection means.
    pub fn start_with(client: &Client, path: &str, id: &str, suspension: Suspension) -> Self {
        let (sender, standing) = watch::channel(Standing::Waiting);
        let (stop, stopped) = oneshot::channel();
        let place: Slot = Arc::new(watch::Sender::new(None));
        let (entering_sender, entering) = watch::channel(false);
        let contender = Contender {
            client: client.clone(),
            path: path.to_owned(),
            id: id.as_bytes().to_vec(),
            suspension,
            standing: sender,
            place: Arc::clone(&place),
            entering: entering_sender,
        };
        let task = tokio::spawn(contender.run(stopped));
        let (client, path) = (client.clone(), path.to_owned());
        Self { client, path, standing, place, entering, stop: Some(stop), task }
    }

    /// Where it stands, now and as it changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// The token of the present term, if it leads.
    pub fn token(&self) -> Option<FencingToken> {
        match &*self.standing.borrow() {
            Standing::Leading { token, .. } => Some(*token),
            Standing::Waiting | Standing::Ended(_) => None,
        }
    }

    /// Whether it leads.
    pub fn is_leader(&self) -> bool {
        self.token().is_some()
    }

    /// Waits until it leads.
    pub async fn lead(&self) -> Result<FencingToken, Error> {
        let mut standing = self.standing.clone();
        let reached = standing.wait_for(|standing| *standing != Standing::Waiting).await;
        match reached.as_deref() {
            Ok(Standing::Leading { token, .. }) => Ok(*token),
            Ok(Standing::Ended(kind)) => Err(kind.clone().into()),
            Ok(Standing::Waiting) | Err(_) => Err(ErrorKind::Closed.into()),
        }
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn lead_timeout(&self, limit: Duration) -> Result<Option<FencingToken>, Error> {
        within(limit, self.lead()).await
    }

    /// Its token if it leads, `None` if another one stands in front of it. It waits until it is in
    /// the queue and has looked, and for no other contender. It contends on: to leave, close it.
    pub async fn try_lead(&self) -> Result<Option<FencingToken>, Error> {
        let (mut standing, mut place) = (self.standing.clone(), self.place.subscribe());
        loop {
            match &*standing.borrow_and_update() {
                Standing::Leading { token, .. } => return Ok(Some(*token)),
                Standing::Ended(kind) => return Err(kind.clone().into()),
                Standing::Waiting => {}
            }
            let held = place.borrow_and_update().clone();
            let is_behind = match held {
                Some(held) => self.is_behind(&held).await?,
                None => false,
            };
            // A place that was deleted is taken anew: then the list may have its next znode.
            let is_moving = *self.entering.borrow() || place.has_changed().unwrap_or(false);
            if is_behind && !is_moving {
                return Ok(None);
            }
            tokio::select! {
                // A task that is gone has told how it ended.
                changed = standing.changed() => {
                    changed.map_err(|_| Error::from(ErrorKind::Closed))?;
                }
                _ = place.changed() => {}
            }
        }
    }

    /// Whether others contend and a place is not the first.
    async fn is_behind(&self, place: &Place) -> Result<bool, Error> {
        let names = children_now(&self.client, &self.path).await?;
        Ok(match latch_turn(&names, place.name()) {
            Turn::Mine => false,
            Turn::Behind(_) => true,
            Turn::Gone => names.iter().any(|name| number(name).is_some()),
        })
    }

    /// Begins a transaction that commits only while it leads; it fails with
    /// [`ErrorKind::LockLost`] when it does not.
    pub fn guarded(&self) -> Result<Transaction<'_>, Error> {
        match &*self.standing.borrow() {
            Standing::Leading { path, .. } => {
                Ok(self.client.transaction().while_held(std::slice::from_ref(path)))
            }
            Standing::Waiting | Standing::Ended(_) => Err(ErrorKind::LockLost.into()),
        }
    }

    /// Writes the data of a znode of this version, −1 for any, if it still leads.
    pub async fn write(&self, path: &str, data: &[u8], version: i32) -> Result<Stat, Error> {
        write(self.guarded()?, path, data, version).await
    }

    /// For how long nobody else can lead, by this client's clock, unless its znode is deleted by
    /// hand. Zero when it does not lead.
    pub fn remaining(&self) -> Duration {
        if self.is_leader() { self.client.remaining() } else { Duration::ZERO }
    }

    /// Waits until it does not lead; at once if it does not now.
    pub async fn lost(&self) {
        let leads = |standing: &Standing| matches!(standing, Standing::Leading { .. });
        // An error tells that the task is gone, which leads no more.
        let _ = self.standing.clone().wait_for(|standing| !leads(standing)).await;
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
        match self.place.send_replace(None).and_then(Arc::into_inner) {
            Some(place) => place.leave().await.map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the task of a latch knows.
struct Contender {
    client: Client,
    path: String,
    id: Vec<u8>,
    suspension: Suspension,
    standing: watch::Sender<Standing>,
    place: Slot,
    /// Whether a create is under way, so that there may be a znode that is in no slot yet.
    entering: watch::Sender<bool>,
}

impl Contender {
    async fn run(self, stopped: oneshot::Receiver<()>) {
        let stopped = async {
            // A sender that is gone is as good as a word.
            let _ = stopped.await;
            let mut entering = self.entering.subscribe();
            let _ = entering.wait_for(|entering| !entering).await;
        };
        tokio::select! {
            error = self.contend() => {
                self.standing.send_replace(Standing::Ended(error.kind().clone()));
            }
            () = stopped => {
                self.standing.send_replace(Standing::Ended(ErrorKind::Closed));
            }
        }
    }

    /// Contends until an error ends it.
    async fn contend(&self) -> Error {
        loop {
            if let Err(error) = self.serve_term().await {
                self.keep(None);
                return error;
            }
            self.standing.send_replace(Standing::Waiting);
        }
    }

    /// From the end of the queue to the end of the leadership.
    async fn serve_term(&self) -> Result<(), Error> {
        let acl = Acl::open();
        let shape = Shape::Protected(LATCH_BASE);
        let ticket = Ticket { dir: &self.path, shape, data: &self.id, acl: &acl, held: &[] };
        self.entering.send_replace(true);
        let entered = Place::enter(&self.client, &ticket).await;
        let (place, mut listed) = match entered {
            Ok((place, listed)) => (Arc::new(place), listed),
            Err(error) => {
                self.entering.send_replace(false);
                return Err(error);
            }
        };
        self.keep(Some(&place));
        self.entering.send_replace(false);
        while wait_turn(&place, listed.take(), latch_turn).await? {
            let path = join(&self.path, place.name());
            let token = FencingToken::new(place.czxid());
            self.standing.send_replace(Standing::Leading { token, path: path.clone() });
            tokio::select! {
                () = self.client.lost() => {
                    // If it lives on after all, the list tells who leads.
                    self.standing.send_replace(Standing::Waiting);
                    session::resumed(&self.client).await;
                }
                gone = wait_gone(&self.client, &path, place.czxid()) => return gone,
                () = session::suspended(&self.client),
                    if self.suspension == Suspension::StepDown =>
                {
                    self.standing.send_replace(Standing::Waiting);
                    session::resumed(&self.client).await;
                }
            }
        }
        Ok(())
    }

    fn keep(&self, place: Option<&Arc<Place>>) {
        self.place.send_replace(place.map(Arc::clone));
    }
}

fn number(name: &str) -> Option<Sequence> {
    Sequence::after(LATCH_BASE, name)
}

fn latch_turn(names: &[String], mine: &str) -> Turn {
    turn(names, mine, number, number)
}

/// Everybody in a queue and what they wrote on their znodes, the first one first.
pub(crate) async fn participants(
    client: &Client,
    dir: &str,
    number: impl Fn(&str) -> Option<Sequence>,
) -> Result<Vec<Participant>, Error> {
    let mut found = Vec::new();
    for name in in_order(children_now(client, dir).await?, number) {
        let path = join(dir, &name);
        match insist(|| client.get(&path)).await {
            Ok((data, _)) => {
                let id = String::from_utf8_lossy(&data).into_owned();
                found.push(Participant { path, id, leads: found.is_empty() });
            }
            // It left meanwhile.
            Err(error) if is_no_node(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
