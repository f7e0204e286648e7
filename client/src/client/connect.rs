//! How options become a client.

use crate::{Client, ClientOptions, Error};

impl ClientOptions {
    /// Connects to one of the servers of `host:port,host:port,…/chroot` and waits for the session.
    /// Without a port it is 2181; an IPv6 address is in brackets; the
    /// [chroot](Client::chrooted) may be left out.
    pub async fn connect(self, connect_string: &str) -> Result<Client, Error> {
        Client::start(connect_string, self).await
    }
}
