//! Faults as they strike a world.

use zoolet_replica::{Role, ServerId};

use super::*;
use crate::world::{World, configs};

const ONE: ServerId = ServerId(1);

fn planned(fault: Fault) -> Planned {
    Planned { number: 0, at: SimTime::default(), span: Duration::from_secs(1), fault }
}

/// Three servers, and a plan that is carried out.
fn world(plan: Vec<Planned>) -> (World, Nemesis) {
    let mut world = World::new(1, configs(3, |config| config.ensemble.tick_time_ms = 1000));
    for server in (1..=3).map(ServerId) {
        world.start(server);
    }
    (world, Nemesis::new(plan))
}

/// Steps until something is so. False if it is not within ten seconds.
fn go_until(
    world: &mut World,
    nemesis: &mut Nemesis,
    is_so: impl Fn(&World, &Nemesis) -> bool,
) -> bool {
    let end = world.now() + Duration::from_secs(10);
    while world.now() < end {
        world.step();
        nemesis.work(world);
        if is_so(world, nemesis) {
            return true;
        }
    }
    false
}

fn runs(world: &World) -> bool {
    world.servers[&ONE].machine.runs()
}

#[test]
fn a_server_ends_in_the_midst_of_its_work_and_is_started_again() {
    for point in [Point::Change(7), Point::Piece(7)] {
        for survival in [None, Some(Survival::Torn { seed: 7 })] {
            let server = Whom::Server(ONE);
            let (mut world, mut nemesis) =
                world(vec![planned(Fault::EndAt { server, point, survival })]);
            let (world, nemesis) = (&mut world, &mut nemesis);
            assert!(go_until(world, nemesis, |world, _| !runs(world)), "{point:?} {survival:?}");
            assert!(go_until(world, nemesis, |world, _| runs(world)), "{point:?} {survival:?}");
            let serves = |world: &World, _: &Nemesis| matches!(world.standing(ONE), crate::Standing::Runs(role) if role != Role::Looking);
            assert!(go_until(world, nemesis, serves), "{point:?} {survival:?}");
            assert!(nemesis.failures.is_empty(), "{:?}", nemesis.failures);
        }
    }
}
