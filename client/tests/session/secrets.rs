//! What `Debug` shows.

use zoolet_client::ClientOptions;
use zoolet_client::recipes::Mutex;
use zoolet_jute::{AuthPacket, ConnectRequest, ConnectResponse, Request, SessionId, Zxid};

use crate::script::Servers;

/// The debug output of a client, an option or a request showed its passwords.
#[tokio::test(start_paused = true)]
async fn passwords_are_in_no_debug_output() {
    let mut servers = Servers::new();
    let (client, _connection) = servers.client().await;
    let password = "sixteen bytes...";
    let resumed = ClientOptions::new().resume(client.session());
    let _waits = client.add_auth("digest", b"alice:wonderland");
    let mutex = Mutex::new(&client, "/a");
    let auth = AuthPacket {
        auth_type: 0,
        scheme: Some("digest".into()),
        auth: Some("alice:wonderland".into()),
    };
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout_ms: 1,
        session_id: SessionId(7),
        password: Some(password.into()),
        read_only: None,
    };
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 1,
        session_id: SessionId(7),
        password: Some(password.into()),
        read_only: None,
    };
    let sasl = Request::Sasl(Some("alice:wonderland".into()));
    for shown in [
        format!("{client:?}"),
        format!("{resumed:?}"),
        format!("{mutex:?}"),
        format!("{request:?}"),
        format!("{response:?}"),
        format!("{:?} {:?}", auth, Request::Auth(auth.clone())),
        format!("{sasl:?}"),
        format!("{:?}", client.session()),
    ] {
        assert!(!shown.contains("wonderland") && !shown.contains(password), "{shown}");
    }
}
