//! The open connections of a port, of which there is a largest number.
//!
//! One more than that takes the place of the one that has done nothing for the longest time, so that
//! idle connections keep no other client out. One whose request is being answered, or that takes
//! a snapshot, never gives way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::task::{AbortHandle, JoinSet};

use crate::idle_stream::Activity;

/// The open connections. They end with it.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    /// Each ends with its number.
    tasks: JoinSet<u64>,
    open: BTreeMap<u64, OpenConnection>,
    last: u64,
    /// The order in which connections do something.
    turns: Arc<AtomicU64>,
}

#[derive(Debug)]
struct OpenConnection {
    activity: Arc<Activity>,
    task: AbortHandle,
}

/// Whether there is room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Free,
    /// An idle connection has been closed for it.
    Made,
    /// All are busy.
    None,
}

impl Connections {
    /// Makes room for `max` connections.
    pub fn new(max: usize) -> Self {
        let (tasks, open, turns) = Default::default();
        Self { max, tasks, open, last: 0, turns }
    }

    /// Makes room for one more connection.
    pub fn make_room(&mut self) -> Room {
        if self.open.len() < self.max { Room::Free } else { self.close_idle() }
    }

    /// Closes the connection that has been idle for the longest time, to give its descriptor to a new
    /// one.
    pub fn close_idle(&mut self) -> Room {
        let idle = self.open.iter().filter(|(_, connection)| !connection.activity.is_busy());
        let longest = idle.min_by_key(|(_, connection)| connection.activity.last_turn());
        let Some(number) = longest.map(|(number, _)| *number) else { return Room::None };
        if let Some(connection) = self.open.remove(&number) {
            connection.task.abort();
        }
        Room::Made
    }

    /// Serves a connection until it ends or gives way.
    pub fn add<F>(&mut self, serve: impl FnOnce(Arc<Activity>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.last += 1;
        let (number, activity) = (self.last, Arc::new(Activity::new(Arc::clone(&self.turns))));
        let serving = serve(Arc::clone(&activity));
        let task = self.tasks.spawn(async move {
            serving.await;
            number
        });
        self.open.insert(number, OpenConnection { activity, task });
    }

    /// Waits for the end of a connection, and frees its place. Without any it never returns.
    pub async fn next_ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(number)) => drop(self.open.remove(&number)),
            // It has given way or panicked, and did not say its number.
            Some(Err(_)) => self.open.retain(|_, connection| !connection.task.is_finished()),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn add(connections: &mut Connections) -> Arc<Activity> {
        let mut kept = None;
        connections.add(|activity| {
            kept = Some(Arc::clone(&activity));
            // A task that is closed drops what it has.
            async move {
                pending::<()>().await;
                drop(activity);
            }
        });
        kept.unwrap()
    }

    #[tokio::test]
    async fn the_longest_idle_connection_gives_way_and_a_busy_one_never() {
        let mut connections = Connections::new(3);
        let all = [(); 3].map(|()| add(&mut connections));
        all[0].step();
        let answering = all[1].answering();
        assert_eq!(connections.make_room(), Room::Made);
        connections.next_ended().await;
        let open = || all.each_ref().map(|activity| Arc::strong_count(activity) > 1);
        assert_eq!(open(), [true, true, false], "the third has done nothing");
        let streaming = all[0].streaming();
        assert_eq!(connections.make_room(), Room::Free);
        let _newest = add(&mut connections);
        assert_eq!(connections.make_room(), Room::Made);
        connections.next_ended().await;
        assert_eq!(open(), [true, true, false], "the newest was the only idle one");
        let busy = add(&mut connections);
        let _answering = busy.answering();
        assert_eq!(connections.make_room(), Room::None);
        drop((answering, streaming));
        assert_eq!(connections.make_room(), Room::Made);
        connections.next_ended().await;
        assert_eq!(open().iter().filter(|is_open| **is_open).count(), 1);
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed_although_there_is_room() {
        let mut connections = Connections::new(3);
        assert_eq!(connections.close_idle(), Room::None);
        let busy = add(&mut connections);
        let _answering = busy.answering();
        let idle = add(&mut connections);
        assert_eq!(connections.close_idle(), Room::Made);
        connections.next_ended().await;
        assert_eq!((Arc::strong_count(&busy) > 2, Arc::strong_count(&idle)), (true, 1));
        assert_eq!(connections.close_idle(), Room::None);
    }
}
