//! Suites of scenes, which are played on servers of zoolet and on servers of Apache `ZooKeeper`.

use std::future::Future;
use std::io;

/// Defines suites: of each a test on zoolet and one on Apache `ZooKeeper`. Its user defines the
/// functions `on_zoolet(suite)` and `on_apache(name, suite)`, which start servers and give the suite
/// its scene; a scene has a method `play(name, scene)`.
#[macro_export]
macro_rules! suites {
    ($($suite:ident / $apache:ident: $($scene:path),+;)+) => {$(
        #[test]
        fn $suite() {
            on_zoolet(async |scene| {
                $(scene.play(stringify!($scene), $scene).await;)+
            });
        }

        #[test]
        fn $apache() {
            on_apache(stringify!($apache), async |scene| {
                $(scene.play(stringify!($scene), $scene).await;)+
            });
        }
    )+};
}

/// Runs a suite on two threads: contenders have to meet, and scenes may block while proxies and
/// clients run beside them.
pub fn run(suite: impl Future<Output = ()>) -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(suite);
    Ok(())
}
