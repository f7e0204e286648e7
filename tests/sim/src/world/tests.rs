//! Whole ensembles in the simulated world.

use std::sync::{Arc, Mutex};

use zoolet_client::{ClientOptions, CreateMode, Version};

use super::*;

fn ensemble(seed: u64, servers: u8) -> World {
    let mut world =
        World::new(seed, configs(servers, |config| config.ensemble.tick_time_ms = 1000));
    for server in (1..=servers).map(ServerId) {
        world.start(server);
    }
    world
}

#[test]
fn three_servers_elect_a_leader_and_serve_a_client() {
    let mut world = ensemble(1, 3);
    world.run_until(SimTime::from_ms(3000));
    let leader = world.leader().expect("one leads");
    let done = Arc::new(Mutex::new(0));
    let (count, servers) = (Arc::clone(&done), world.addresses());
    world.start_client(0, move |net| async move {
        let connect: Vec<String> = servers.into_iter().map(|(_, address)| address).collect();
        let options = ClientOptions::new().connector(net).seed(7);
        let client = options.connect(&connect.join(",")).await.unwrap();
        client.create("/a", b"", CreateMode::Persistent).await.unwrap();
        for number in 0_u32..1000 {
            client.set_data("/a", &number.to_be_bytes(), Version::Any).await.unwrap();
            *count.lock().unwrap() += 1;
        }
    });
    world.run_until(SimTime::from_ms(15_000));
    assert_eq!(*done.lock().unwrap(), 1000);
    assert_eq!(world.leader(), Some(leader));
}
