//! The `zookeeper-client` crate against an ensemble of three: what a program written with it does
//! on a working day, and on the day a server dies.
//!
//! `ZK_CONNECT` lists the servers; the lines that go to and come from the harness are in
//! `harness.rs`. The client pipelines: connect request, authentication, watches and the first
//! requests leave before the server has said a word.

mod access;
mod failover;
mod harness;
mod locks;
mod sessions;
mod transactions;
mod watches;
mod znodes;

use std::time::Duration;

use harness::Servers;

/// Bounds the whole program: a hang is a failure, not a wait.
const DEADLINE: Duration = Duration::from_secs(120);

#[tokio::main(worker_threads = 2)]
async fn main() {
    harness::give_up_after(DEADLINE);
    let servers = Servers::from_env();
    step("znodes");
    znodes::run(&servers).await;
    step("watches");
    watches::run(&servers).await;
    step("transactions");
    transactions::run(&servers).await;
    step("access control");
    access::run(&servers).await;
    step("locks");
    locks::run(&servers).await;
    step("sessions");
    sessions::run(&servers).await;
    step("loss of the server in use");
    failover::lose_server_in_use(&servers).await;
    step("loss of the leader");
    failover::lose_leader(&servers).await;
    println!("OK {} checks", harness::checks());
}

fn step(name: &str) {
    println!("# {name}");
}
