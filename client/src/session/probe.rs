//! Looking for a server that writes while one that only reads serves the session (protocol §7.9).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::timeouts::Timeouts;
use crate::Connector;
use crate::hosts::Hosts;

/// How long a server may take to say what it is.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Asks one server after another until one writes; answers its address.
pub(crate) async fn find_writer(mut hosts: Hosts, connector: Arc<dyn Connector>) -> String {
    let mut looks = 0;
    loop {
        sleep(Timeouts::look_for_writer(looks)).await;
        looks = looks.saturating_add(1);
        let (address, _) = hosts.next();
        if let Ok(Ok(true)) = timeout(ANSWER_MAX, writes(&*connector, &address)).await {
            return address;
        }
    }
}

async fn writes(connector: &dyn Connector, address: &str) -> io::Result<bool> {
    let mut transport = connector.connect(address).await?;
    transport.write_all(b"isro").await?;
    transport.flush().await?;
    let mut answer = [0; 2];
    transport.read_exact(&mut answer).await?;
    Ok(&answer == b"rw")
}
