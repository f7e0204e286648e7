//! A client that leaves traces in what servers say.

use zoolet_client::{Client, CreateMode, OneshotWatcher, Version};
pub(crate) use zoolet_tests::with_http::{SOON, Three, WithHttp, command, here};

/// A client with an ephemeral znode and a watch.
pub(crate) struct Witness {
    pub(crate) client: Client,
    _watcher: OneshotWatcher,
}

impl Witness {
    pub(crate) async fn connect(servers: &str) -> Self {
        let client = Client::connect(servers).await.unwrap();
        client.create("/http", b"1", CreateMode::Ephemeral).await.unwrap();
        let (_, _, watcher) = client.get_watched("/http").await.unwrap();
        Self { client, _watcher: watcher }
    }

    /// Changes the data, which fires the watch.
    pub(crate) async fn write(&self) {
        self.client.set_data("/http", b"2", Version::Any).await.unwrap();
    }
}
