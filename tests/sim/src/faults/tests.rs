//! Faults as they strike a world.

use zoolet_replica::{Role, ServerId};

use super::*;
use crate::trace::{self, Mark};
use crate::world::{World, configs};

const ONE: ServerId = ServerId(1);

fn planned(fault: Fault) -> Planned {
    Planned { number: 0, at: SimTime::default(), span: Duration::from_secs(1), fault, wait: None }
}

impl Planned {
    fn behind(self, event: Event, behind: Duration) -> Self {
        Self { wait: Some(Wait { event, behind }), ..self }
    }
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

#[test]
fn a_fault_that_waits_strikes_just_behind_its_event_and_there() {
    // Events are lines of the servers' logs. Another test may have asked for them before.
    let _ = tracing::subscriber::set_global_default(trace::Logs);
    let behind = Duration::from_millis(3);
    let fault = Fault::Kill { server: Whom::There, turns: 0 };
    let waiting = planned(fault).behind(Event::Leads, behind);
    let (mut world, mut nemesis) = world(vec![waiting]);
    assert!(go_until(&mut world, &mut nemesis, |world, _| world.leader().is_some()));
    let (elected_at, leader) = (world.now(), world.leader().unwrap());
    assert!(go_until(&mut world, &mut nemesis, |_, nemesis| !nemesis.begun.is_empty()));
    let begun = &nemesis.begun[0];
    assert_eq!(begun.fault, Fault::Kill { server: Whom::Server(leader), turns: 0 });
    assert!(begun.at - elected_at <= behind + Duration::from_millis(1), "{}", begun.at);
    assert!(!world.servers[&leader].machine.runs());
}

#[test]
fn a_server_that_ends_at_a_change_behind_its_start_ends_in_its_recovery() {
    let server = Whom::There;
    let point = Point::Change(2);
    let fault = Fault::EndAt { server, point, survival: None };
    let waiting = planned(fault).behind(Event::Starts, Duration::ZERO);
    let kill = Fault::Kill { server: Whom::Server(ONE), turns: 0 };
    let at = SimTime::from_ms(2000);
    let plan = vec![Planned { at, ..waiting }, Planned { at, ..planned(kill) }];
    let (mut world, mut nemesis) = world(plan);
    assert!(go_until(&mut world, &mut nemesis, |_, nemesis| nemesis.begun.len() == 2));
    let started_at = world.now();
    assert!(go_until(&mut world, &mut nemesis, |world, _| !runs(world)));
    assert!(world.now() - started_at <= Duration::from_millis(200), "{}", world.now());
    assert!(go_until(&mut world, &mut nemesis, |world, _| {
        matches!(world.standing(ONE), crate::Standing::Runs(role) if role != Role::Looking)
    }));
}

fn serves(world: &World) -> bool {
    matches!(world.standing(ONE), crate::Standing::Runs(role) if role != Role::Looking)
}

#[test]
fn a_server_does_not_run_in_another_ones_directory_and_goes_on_in_its_own() {
    let fault = Fault::WrongDisk { server: ONE, of: ServerId(2) };
    let (mut world, mut nemesis) =
        world(vec![Planned { at: SimTime::from_ms(3000), ..planned(fault) }]);
    let (world, nemesis) = (&mut world, &mut nemesis);
    assert!(go_until(world, nemesis, |_, nemesis| !nemesis.failures.is_empty()));
    assert!(go_until(world, nemesis, |world, _| serves(world)));
    for (_, server, why) in &nemesis.failures {
        assert!(*server == ONE && why.contains(OF_ANOTHER), "{server}: {why}");
    }
    let exchanges = exchange::Exchanges::default();
    assert!(!exchanges.may_begin(ONE, ServerId(4), world), "server 4 has no directory");
}

#[test]
fn a_disk_that_is_lost_within_an_exchange_does_not_come_back() {
    let _ = tracing::subscriber::set_global_default(trace::Logs);
    let at = |ms, fault| Planned {
        at: SimTime::from_ms(ms),
        span: Duration::from_secs(2),
        ..planned(fault)
    };
    let wrong = at(3000, Fault::WrongDisk { server: ONE, of: ServerId(2) });
    let lost = at(3500, Fault::DiskLoss { server: ONE });
    let (mut world, mut nemesis) = world(vec![wrong, lost]);
    let (world, nemesis) = (&mut world, &mut nemesis);
    let identity = |world: &World| {
        world.servers[&ONE].disk().image().contents(std::path::Path::new("data/identity")).unwrap()
    };
    assert!(go_until(world, nemesis, |world, _| serves(world)));
    let before = identity(world);
    assert!(go_until(world, nemesis, |_, nemesis| nemesis.begun.len() == 2));
    assert!(go_until(world, nemesis, |world, _| serves(world)));
    assert_ne!(identity(world), before);
}

#[test]
fn a_server_that_has_lost_its_log_or_its_end_does_not_run_until_it_has_an_empty_disk() {
    let _ = tracing::subscriber::set_global_default(trace::Logs);
    let end = |is_cut| Lost::LogEnd { sectors: 8, is_cut };
    for (lost, text) in [
        (end(false), DAMAGED),
        (end(true), DAMAGED),
        (Lost::Segments, LOG_MISSING),
        (Lost::AllButIdentity, LOG_MISSING),
    ] {
        let fault = Fault::LostFile { server: Whom::Server(ONE), lost };
        let (mut world, mut nemesis) =
            world(vec![Planned { at: SimTime::from_ms(3000), ..planned(fault) }]);
        let (world, nemesis) = (&mut world, &mut nemesis);
        assert!(go_until(world, nemesis, |_, nemesis| !nemesis.failures.is_empty()), "{lost:?}");
        assert!(go_until(world, nemesis, |world, _| serves(world)), "{lost:?}");
        let [(_, ONE, why)] = &*nemesis.failures else { panic!("{:?}", nemesis.failures) };
        assert!(why.contains(text), "{lost:?}: {why}");
        let [loss] = &*nemesis.losses.all else { panic!("{:?}", nemesis.losses) };
        assert_eq!((loss.lost, loss.ran_at, loss.is_replaced), (lost, None, true));
    }
}

#[test]
fn a_stalled_disk_holds_a_start_up() {
    let at = |ms, fault, span_ms| Planned {
        at: SimTime::from_ms(ms),
        span: Duration::from_millis(span_ms),
        ..planned(fault)
    };
    let kill = at(3000, Fault::Kill { server: Whom::Server(ONE), turns: 0 }, 100);
    let stall = at(3050, Fault::Stall { server: Whom::Server(ONE) }, 2000);
    let (mut world, mut nemesis) = world(vec![kill, stall]);
    let (world, nemesis) = (&mut world, &mut nemesis);
    assert!(go_until(world, nemesis, |world, _| world.now() >= SimTime::from_ms(5000)));
    assert_eq!(world.standing(ONE), crate::Standing::Starts);
    assert!(go_until(world, nemesis, |world, _| serves(world)));
}

#[test]
fn a_server_that_cannot_read_its_directory_ends_and_is_started_again() {
    let waiting = planned(Fault::ReadError { server: Whom::There, read: 2 });
    let waiting = waiting.behind(Event::Starts, Duration::ZERO);
    let kill = Fault::Kill { server: Whom::Server(ONE), turns: 0 };
    let at = SimTime::from_ms(3000);
    let plan = vec![Planned { at, ..waiting }, Planned { at, ..planned(kill) }];
    let (mut world, mut nemesis) = world(plan);
    let (world, nemesis) = (&mut world, &mut nemesis);
    assert!(go_until(world, nemesis, |_, nemesis| !nemesis.failures.is_empty()));
    assert!(go_until(world, nemesis, |world, _| serves(world)));
    let [(_, ONE, why)] = &*nemesis.failures else { panic!("{:?}", nemesis.failures) };
    assert!(why.contains("injected fault"), "{why}");
}

#[test]
fn a_machine_with_little_processor_time_loses_no_time() {
    let (mut world, mut nemesis) =
        world(vec![planned(Fault::SlowCpu { server: Whom::Server(ONE), every: 20 })]);
    let serves = |world: &World, _: &Nemesis| matches!(world.standing(ONE), crate::Standing::Runs(role) if role != Role::Looking);
    assert!(go_until(&mut world, &mut nemesis, serves));
    assert_eq!(nemesis.counts[&Kind::SlowCpu], 1);
}

#[test]
fn a_fault_strikes_its_server_and_perhaps_as_the_leader() {
    let strikes = |fault: &Fault| [1, 2].map(|server| fault.may_strike(ServerId(server)));
    assert_eq!(strikes(&Fault::DiskLoss { server: ServerId(2) }), [false, true]);
    assert_eq!(strikes(&Fault::Stop { server: Whom::Server(ServerId(1)) }), [true, false]);
    assert_eq!(strikes(&Fault::Stop { server: Whom::Leader }), [true, true]);
    assert_eq!(strikes(&Fault::StopClient { client: 1 }), [false, false]);
}

#[test]
fn a_line_is_about_the_server_that_says_it_or_that_it_names() {
    let about = |who: &str, text: &str| {
        let (who, text) = (who.to_owned(), text.to_owned());
        Mark { at: SimTime::default(), who, text }.about()
    };
    assert_eq!(about("server 3", "INFO role from=Looking to=Leader"), Some(ServerId(3)));
    assert_eq!(about("nemesis", "server 2 starts"), Some(ServerId(2)));
    assert_eq!(about("nemesis", "links are mended: []"), None);
}
