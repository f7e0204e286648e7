//! The torture over languages: Curator, kazoo, Go and this client's recipes in processes of their
//! own on the same paths, while processes and servers are stopped and killed.
//!
//! Every kind of fault comes once; `ZOOLET_TORTURE_SECS` makes the run longer, `ZOOLET_FAULTS_SEED`
//! repeats one, and `ZOOLET_TORTURE_SERVERS=apache` runs it on Apache `ZooKeeper`.

use std::env;
use std::process::Command;
use std::time::Duration;

use zoolet_tests::apache::Apache;
use zoolet_tests::contenders::programs::{go, java, kazoo, recipes};
use zoolet_tests::contenders::{FAULTS, Side, crowd, left_behind};
use zoolet_tests::faults::Seed;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError, announce};
use zoolet_tests::zoolet::Zoolet;

/// Curator's and Go's mutexes exclude each other, and this client's; so do bilingual ones.
const CURATOR_S: &str = "/beside/curator";
/// Only bilingual mutexes exclude kazoo's.
const KAZOO_S: &str = "/beside/kazoo";

#[test]
fn mutexes_of_four_languages_exclude_each_other_under_faults() {
    let suite = "the torture beside others";
    if !tools::require_foreign(suite, &["java", "mvn", "python3", "go"]).unwrap() {
        return;
    }
    let foreign = || -> Result<[Command; 3], ToolError> {
        Ok([java("curator-5.9", &["../curator/Curated.java"], "Curated")?, go()?, kazoo()?])
    };
    let [curator, go, kazoo] = match foreign() {
        Err(error) => return tools::skip_unless_required(suite, error).unwrap(),
        Ok(programs) => programs,
    };
    let own = recipes().unwrap();
    let side = |name, program: &Command, contenders| Side {
        name,
        program: tools::copy(program),
        contenders,
    };
    let sides = [
        side("Curator", &curator, vec![("mutex", CURATOR_S), ("mutex", CURATOR_S)]),
        side("Go", &go, vec![("mutex", CURATOR_S)]),
        side("kazoo", &kazoo, vec![("mutex", KAZOO_S), ("mutex", KAZOO_S)]),
        side("this client", &own, vec![("mutex", CURATOR_S), ("bilingual", KAZOO_S)]),
        side("this client", &own, vec![("bilingual", CURATOR_S), ("bilingual", KAZOO_S)]),
    ];
    let seed = Seed::of("beside_others", "crowd::");
    let seconds = env::var("ZOOLET_TORTURE_SECS").map_or(0, |text| text.parse().unwrap());
    let run = |servers: &mut Servers| {
        let shown = crowd(&sides, servers, &seed, Duration::from_secs(seconds)).unwrap();
        announce(&format!("torture: seed {}, {shown:?}", seed.number));
        assert!(FAULTS.iter().all(|fault| shown.faults.contains_key(fault)), "{:?}", shown.faults);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let left = runtime.block_on(left_behind(&servers.connect_string())).unwrap();
        assert_eq!(left, Vec::<String>::new(), "ephemerals of programs that have ended");
    };
    if env::var("ZOOLET_TORTURE_SERVERS").is_ok_and(|kind| kind == "apache") {
        run(&mut Apache::builder().servers(3).start().unwrap());
    } else {
        run(&mut Zoolet::builder().servers(3).start().unwrap());
    }
}
