//! The classic lock programs, each over the library that its readers would use: `interop/contest`.
//!
//! They contend on an ensemble of three; a holder of all locks is killed, and then the leader
//! (see `src/contenders`). `ZOOLET_TIER=lock_programs` runs them on Apache `ZooKeeper` as well.

use std::process::Command;

use zoolet_tests::contenders::programs::{c, go, java, kazoo, recipes};
use zoolet_tests::contenders::{Group, Loss, Outcome, contest, left_behind};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};

/// The five lock recipes of Curator.
const CURATOR: [Group; 5] = [
    Group::exclusive("mutex", "/curator/mutex"),
    Group::exclusive("semaphore-mutex", "/curator/semaphore-mutex"),
    Group::read_write("/curator/read-write"),
    Group::semaphore("/curator/semaphore"),
    Group::exclusive("multi", "/curator/multi"),
];

#[test]
fn plain_java() {
    let groups = [Group::exclusive("one-node", "/one-node"), Group::exclusive("mutex", "/queue")];
    let program = || java("plain", &["Plain.java"], "Plain");
    run("plain_java", &["java", "mvn"], &program, &groups);
}

#[test]
fn zkclient() {
    let program = || java("zkclient", &["WithZkClient.java"], "WithZkClient");
    let groups = [Group::exclusive("mutex", "/zkclient/mutex")];
    run("zkclient", &["java", "mvn"], &program, &groups);
}

#[test]
fn curator_2_10_with_zookeeper_3_4_6() {
    let program = || java("curator-2.10", &["../curator/Curated.java"], "Curated");
    // Its semaphores may stay closed for ever when a connection is lost under them, on Apache
    // ZooKeeper too.
    run_with(Loss::Nothing, "curator-2.10", &["java", "mvn"], &program, &CURATOR);
}

#[test]
fn curator_5_9() {
    let program = || java("curator-5.9", &["../curator/Curated.java"], "Curated");
    run("curator-5.9", &["java", "mvn"], &program, &CURATOR);
}

#[test]
fn asynchronous_c() {
    let groups = [Group::exclusive("mutex", "/c")];
    run("lock_programs (C)", &["gcc"], &c, &groups);
}

#[test]
fn over_kazoo() {
    let groups = [
        Group::exclusive("mutex", "/kazoo/mutex"),
        Group::read_write("/kazoo/read-write"),
        Group::semaphore("/kazoo/semaphore"),
        Group::exclusive("election", "/kazoo/election"),
    ];
    run("lock_programs (kazoo)", &["python3"], &kazoo, &groups);
}

#[test]
fn over_go() {
    let groups = [Group::exclusive("mutex", "/go/mutex")];
    run("lock_programs (Go)", &["go"], &go, &groups);
}

/// The client's own recipes: they have to stand the same.
#[test]
fn own_recipes() {
    let groups = [
        Group::exclusive("mutex", "/own/mutex"),
        Group::exclusive("bilingual", "/own/bilingual"),
        Group::exclusive("simple", "/own/simple"),
        Group::exclusive("semaphore-mutex", "/own/semaphore-mutex"),
        Group::exclusive("election", "/own/election"),
        Group::read_write("/own/read-write"),
        Group::semaphore("/own/semaphore"),
    ];
    // A program that cannot be built here is not a foreign one that is missing.
    recipes().unwrap();
    run("lock_programs (own recipes)", &[], &recipes, &groups);
}

fn run(
    suite: &str,
    needs: &[&str],
    program: &dyn Fn() -> Result<Command, ToolError>,
    groups: &[Group],
) {
    run_with(Loss::Leader, suite, needs, program, groups);
}

/// Runs the contest on zoolet, and on Apache `ZooKeeper` when that is asked for.
fn run_with(
    last: Loss,
    suite: &str,
    needs: &[&str],
    program: &dyn Fn() -> Result<Command, ToolError>,
    groups: &[Group],
) {
    if !tools::require_foreign(suite, needs).unwrap() {
        return;
    }
    let command = match program() {
        Err(error) => return tools::skip_unless_required(suite, error).unwrap(),
        Ok(command) => command,
    };
    let started = || tools::copy(&command);
    let mut servers = Servers::zoolet().servers(3).start().unwrap();
    report(suite, "zoolet", contest(&started, groups, &mut servers, last).unwrap(), &servers);
    drop(servers);
    if tools::is_tier("lock_programs") {
        let mut servers = Servers::apache().servers(3).start().unwrap();
        report(suite, "apache", contest(&started, groups, &mut servers, last).unwrap(), &servers);
    }
}

/// Prints what was seen, and checks that no session has left anything behind.
fn report(suite: &str, kind: &str, outcome: Outcome, servers: &Servers) {
    let Outcome { grants, handed_over } = outcome;
    eprintln!("{suite} on {kind}: {grants} grants, the dead holder's after {handed_over:.1?}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let left = runtime.block_on(left_behind(&servers.connect_string())).unwrap();
    assert_eq!(left, Vec::<String>::new(), "ephemerals of programs that have ended");
}
