//! Runs the examples in the documentation of `zoolet-client` against a server in their process.
//!
//! The examples call it in lines that rustdoc hides. The package depends on the client that it is a
//! dev-dependency of, which cargo allows: both are one library.

use std::error::Error;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;
use zoolet_client::Client;
use zoolet_server::embed::Ensemble;

/// How long an example may take. One that waits for what does not come fails.
const LIMIT: Duration = Duration::from_mins(1);

/// What an example fails with.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Runs an example with the connect string of a server of its own, whose tree is empty.
pub fn with_server(example: impl AsyncFnOnce(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    Runtime::new()?.block_on(async {
        let ensemble = Ensemble::builder().start().await?;
        timeout(LIMIT, example(&ensemble.connect_string())).await??;
        ensemble.shutdown().await;
        Ok(())
    })
}

/// Runs an example with a client of such a server.
pub fn with_client(
    example: impl AsyncFnOnce(Client) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_server(async |servers| example(Client::connect(servers).await?).await)
}
