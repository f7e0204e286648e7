//! The order of calls, and what is known of those whose replies are lost.

use zoolet_client::{CreateMode, ErrorKind, Version};
use zoolet_tests::scenes::{Scene, options, soon};
use zoolet_torture::proxy::{Fault, Proxy};

pub(crate) async fn calls_keep_their_order_over_handles(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    let prefix = format!("{path}/n-");
    let other = client.clone();
    let calls: Vec<_> = (0..2000)
        .map(|number| {
            let handle = if number % 2 == 0 { &client } else { &other };
            handle.create(&prefix, b"", CreateMode::PersistentSequential)
        })
        .collect();
    let count = client.all_children_number(&path);
    assert_eq!(count.await.unwrap(), 2000, "a read sees what was asked for in front of it");
    // They are awaited from the last to the first.
    for (number, call) in calls.into_iter().enumerate().rev() {
        assert_eq!(call.await.unwrap().0, format!("{prefix}{number:010}"));
    }
}

pub(crate) async fn a_lost_reply_and_a_lost_request_may_have_happened(scene: &Scene) {
    for (fault, happens) in [(Fault::Reply, true), (Fault::Request, false)] {
        let (proxy, path) = (Proxy::start(&scene.servers).await.unwrap(), scene.path());
        let client = options().connect(&proxy.connect_string()).await.unwrap();
        proxy.strike(fault, 0);
        let lost = client.create(&path, b"", CreateMode::Persistent).await.unwrap_err();
        assert_eq!(lost.kind(), &ErrorKind::ConnectionLoss);
        assert!(lost.may_have_happened() && !lost.ends_session());
        scene.catch_up(&client).await;
        assert_eq!(client.exists(&path).await.unwrap().is_some(), happens, "{fault:?}");
    }
}

pub(crate) async fn a_call_that_is_too_big_does_not_end_the_session(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let big = vec![0; 2 * 1024 * 1024];
    let error = client.set_data(&path, &big, Version::Any).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::RequestTooLong { .. }), "{error}");
    assert!(!error.may_have_happened());
    client.set_data(&path, b"small", Version::Any).await.unwrap();
    assert_eq!(client.get(&path).await.unwrap().0, b"small".as_ref());

    // Servers take what the limit admits; beyond theirs they close the connection.
    let most = vec![0; 1_048_575 - 8 - 4 - path.len() - 4 - 4];
    client.set_data(&path, &most, Version::Any).await.unwrap();
    let options = options().request_bytes_max(3 * 1024 * 1024);
    let careless = options.connect(&scene.servers).await.unwrap();
    let error = careless.set_data(&path, &big, Version::Any).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ConnectionLoss);
    soon("an answer", async || careless.set_data(&path, b"small", Version::Any).await.is_ok())
        .await;
}
