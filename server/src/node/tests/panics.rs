//! Tasks of a whole server that panic, where a panic unwinds.

use tokio::task::yield_now;

use super::*;
use crate::transport::{BoxFuture, Listener, Stream};

/// Loopback, where no listener accepts.
#[derive(Debug)]
struct PanickingNet;

#[derive(Debug)]
struct PanickingListener(Box<dyn Listener>);

impl Net for PanickingNet {
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = RealNet.listen(address, backlog).await?;
            Ok(Box::new(PanickingListener(listener)) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        RealNet.connect(address)
    }
}

impl Listener for PanickingListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async {
            yield_now().await;
            panic!("the test's panic");
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn config() -> ServerConfig {
    let ports = [LoopbackPorts { client: 1, peer: 2 }];
    let configs = ServerConfig::loopback_ensemble(&ports, "d".as_ref());
    let mut config = configs.unwrap().remove(0);
    config.client_bind = HostPort::new("127.0.0.1", 0);
    config
}

async fn failure(node: &Node) -> String {
    timeout(PATIENCE, node.fatal()).await.expect("it is not reported")
}

/// Its clients were never served again, and no session ended.
#[tokio::test]
async fn a_panic_in_the_session_clock_is_fatal() {
    let clock = Arc::new(SkewedClock::default());
    let disk = Arc::new(MemoryDisk::default());
    let seams = Seams { disk, clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Seams::real() };
    let node = Node::start(config(), seams).await.unwrap();
    let mut role = node.role();
    timeout(PATIENCE, role.wait_for(|role| *role == Role::Leader)).await.unwrap().unwrap();
    clock.panics.store(true, Ordering::SeqCst);
    let why = failure(&node).await;
    assert!(why.contains("has panicked: "), "{why}");
    node.kill().await;
}

#[tokio::test]
async fn a_panic_in_the_client_port_is_fatal() {
    let seams = Seams {
        disk: Arc::new(MemoryDisk::default()),
        net: Arc::new(PanickingNet),
        ..Seams::real()
    };
    let node = Node::start(config(), seams).await.unwrap();
    let why = failure(&node).await;
    let expected = "the task \"client port\" has panicked: the test's panic; ";
    assert!(why.starts_with(expected), "{why}");
    node.kill().await;
}
