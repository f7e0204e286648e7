//! Reading znodes, with a time limit for each answer.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::time::timeout;
use zoolet_client::{Client, ErrorCode, Stat};

/// A client, and how long each of its reads may take.
#[derive(Clone, Debug)]
pub struct Reader {
    client: Client,
    answer_max: Duration,
}

/// Why a znode was not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The call has failed.
    #[error("{error}")]
    Failed {
        /// The path of the znode.
        path: String,
        /// What the client says.
        #[source]
        error: zoolet_client::Error,
    },
    /// No answer came in time.
    #[error("{path}: the server did not answer within {} ms", limit.as_millis())]
    Late {
        /// The path of the znode.
        path: String,
        /// How long it was waited for.
        limit: Duration,
    },
}

impl ReadError {
    /// Whether the znode has gone, or may not be read: it is then left out of what is shown.
    pub fn is_passed_over(&self) -> bool {
        match self {
            Self::Failed { error, .. } => {
                matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NoAuth))
            }
            Self::Late { .. } => false,
        }
    }
}

impl Reader {
    /// A reader whose answers may take this long.
    pub fn new(client: Client, answer_max: Duration) -> Self {
        Self { client, answer_max }
    }

    /// Returns the names of a znode's children, and its Stat.
    pub async fn children(&self, path: &str) -> Result<(Vec<String>, Stat), ReadError> {
        self.answer(path, self.client.children(path)).await
    }

    /// Returns a znode's data, and its Stat.
    pub async fn get(&self, path: &str) -> Result<(Bytes, Stat), ReadError> {
        self.answer(path, self.client.get(path)).await
    }

    /// Returns a znode's Stat; `None` if it does not exist.
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, ReadError> {
        self.answer(path, self.client.exists(path)).await
    }

    async fn answer<T>(
        &self,
        path: &str,
        call: impl Future<Output = Result<T, zoolet_client::Error>>,
    ) -> Result<T, ReadError> {
        let path = || path.to_owned();
        match timeout(self.answer_max, call).await {
            Ok(answered) => answered.map_err(|error| ReadError::Failed { path: path(), error }),
            Err(_) => Err(ReadError::Late { path: path(), limit: self.answer_max }),
        }
    }
}
