//! Random operations, several at a time.

use crate::load::operations::{Mix, Operations};
use crate::load::worker::Worker;

/// Sends operations in bursts, and disturbs the session while they are in flight.
pub(in crate::load) async fn random(worker: &mut Worker, paths: &[String], mix: &Mix) {
    let chance = worker.chance.fork();
    let mut operations = Operations::new(worker.client, paths.to_vec(), mix.clone(), chance);
    while !worker.is_stopped() {
        let burst = if worker.chance.one_in(2) { 1 } else { worker.chance.between(2..=12) };
        let mut in_flight = Vec::new();
        for _ in 0..burst {
            let request = operations.draw();
            in_flight.push((worker.session.send(request.clone()), request));
            worker.disturb();
        }
        for (pending, request) in in_flight {
            let outcome = worker.finish(pending).await;
            operations.learn(&request, &outcome);
        }
        worker.drop_events();
        worker.think().await;
    }
}
