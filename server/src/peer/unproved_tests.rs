//! Callers that do not prove that they know the secret.

use std::time::Duration;

use tokio::time::timeout;

use super::handshake::HandshakeError;
use super::tests::{OURS, THEIRS, secret};
use super::*;
use crate::transport::{Net, RealNet};

/// A server that had been stopped suspected each peer whose call had timed out of another secret.
#[tokio::test]
async fn a_caller_that_hangs_up_is_not_suspected_of_another_secret() {
    let known = secret("the secret of this ensemble");
    let mut listener = RealNet.listen("127.0.0.1:0", 8).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for (caller, hangs_up) in [(&known, true), (&secret("the secret of other servers"), false)] {
        let mut stream = RealNet.connect(&address).await.unwrap();
        let (mut accepted, _) = listener.accept().await.unwrap();
        let wanted = (Target { server: 2, directory: None }, Lane::Request);
        let receiving = handshake::receive(&mut *accepted, THEIRS, false, Some(&known));
        let greeting = handshake::greet(&mut *stream, OURS, wanted, Some(caller));
        if hangs_up {
            // The answer comes only when the called side is polled.
            timeout(Duration::from_millis(50), greeting).await.unwrap_err();
            drop(stream);
            assert!(receiving.await.unwrap_err().error.is_hang_up());
        } else {
            let (greeted, received) = tokio::join!(greeting, receiving);
            assert!(matches!(greeted, Err(HandshakeError::Secret)), "{greeted:?}");
            assert!(matches!(received.unwrap_err().error, HandshakeError::Secret));
        }
    }
}
