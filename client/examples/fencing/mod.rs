//! What the examples have in common: a holder that is paused for too long, and the next one.

use std::env;
use std::time::Duration;

use zoolet_client::recipes::{LockGuard, Mutex};
use zoolet_client::{Client, ClientOptions, Error};

/// Somebody who thinks that they hold the lock, and somebody who does.
pub(crate) struct Holders {
    /// Its session has ended, as after a long pause of its process. It does not know it yet.
    pub(crate) paused: LockGuard,
    /// It was granted the lock afterwards, with a higher token.
    pub(crate) current: LockGuard,
}

impl Holders {
    /// Has two clients of these servers take the lock in turn.
    pub(crate) async fn meet(path: &str) -> Result<Self, Error> {
        let servers = servers();
        let options = ClientOptions::new().session_timeout(Duration::from_secs(5));
        let one = options.clone().connect(&servers).await?;
        let paused = Mutex::new(&one, path).acquire().await?;

        // What a server does when it has heard nothing of a session for too long. The holder may
        // fight for its session: who resumes it last has it.
        loop {
            let ended = match options.clone().resume(one.session()).connect(&servers).await {
                Ok(session) => session.close().await.is_ok(),
                Err(error) if error.ends_session() => true,
                Err(error) => return Err(error),
            };
            if ended {
                break;
            }
        }

        let other = Client::connect(&servers).await?;
        let current = Mutex::new(&other, path).acquire().await?;
        Ok(Self { paused, current })
    }
}

/// The connect string from the command line.
fn servers() -> String {
    env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned())
}
