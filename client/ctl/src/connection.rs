//! A session with the servers, each of whose requests has to be answered in time.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use zoolet_client::{Client, ClientOptions, Error};

use crate::args::Options;
use crate::error::{CtlError, Exit};

/// A connected client and how long it may take to answer.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) limit: Duration,
}

impl Connection {
    /// Connects to the servers and gives them the identities of the command line.
    pub(crate) async fn open(options: &Options) -> Result<Self, CtlError> {
        Self::open_to(options, options.connect_string()).await
    }

    /// The same for another connect string.
    pub(crate) async fn open_to(options: &Options, servers: &str) -> Result<Self, CtlError> {
        let mut client = ClientOptions::new()
            .session_timeout(options.session_timeout)
            .connect_timeout(options.timeout)
            .read_only(options.read_only);
        if let Some(connector) = options.tls.connector()? {
            client = client.connector(connector);
        }
        let client = client.connect(servers).await.map_err(|error| {
            let error = CtlError::of_call(&error);
            CtlError { message: format!("{servers}: {}", error.message), ..error }
        })?;
        let connection = Self { client, limit: options.timeout };
        for identity in &options.auth {
            let Some((scheme, id)) = identity.0.split_once(':') else {
                let message =
                    "--auth has no scheme: expected SCHEME:ID, such as digest:user:password";
                return Err(CtlError::new(Exit::Usage, message));
            };
            connection.add_auth(scheme, id).await?;
        }
        Ok(connection)
    }

    /// Adds an identity.
    pub(crate) async fn add_auth(&self, scheme: &str, id: &str) -> Result<(), CtlError> {
        self.ask(scheme, self.client.add_auth(scheme, id.as_bytes())).await
    }

    /// Waits for the answer to a request that concerns this path.
    pub(crate) async fn ask<T>(
        &self,
        path: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, CtlError> {
        match timeout(self.limit, request).await {
            Ok(answer) => answer.map_err(|error| CtlError::of(&error, path)),
            Err(_) => Err(CtlError::unanswered(format!(
                "{path}: no answer within {} ms",
                self.limit.as_millis()
            ))
            .hint("the operation may have happened or not; --timeout waits longer")),
        }
    }

    /// Ends the session. One that cannot be ended in time is left to expire.
    pub(crate) async fn close(self) {
        // The work is done by now, and an unused session goes by itself.
        let _ = timeout(self.limit, self.client.close()).await;
    }
}
