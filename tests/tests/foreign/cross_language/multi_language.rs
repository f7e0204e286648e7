//! The torture over languages: Curator, kazoo, Go and this client's recipes in processes of their
//! own on the same paths, while processes, their connections and servers are struck.
//!
//! Every kind of fault comes once; `ZOOLET_TORTURE_SECS` makes the run longer, `ZOOLET_FAULTS_SEED`
//! repeats one, `ZOOLET_TORTURE_SERVERS=apache` runs it on Apache `ZooKeeper`, and a report and
//! pictures go to `ZOOLET_TORTURE_OUT`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use zoolet_tests::contenders::programs::{go, java, kazoo, recipes};
use zoolet_tests::contenders::{ContentionReport, FAULTS, Fault, Side, contend, left_behind};
use zoolet_tests::faults::Seed;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError, announce};

/// Curator's and Go's mutexes exclude each other, and this client's; so do bilingual ones.
const CURATOR_S: &str = "/beside/curator";
/// Only bilingual mutexes exclude kazoo's.
const KAZOO_S: &str = "/beside/kazoo";
/// As many families as contend for one lock: after this many rounds each kind of fault has hit each.
const WHOLE_ROUNDS: usize = 3;

#[test]
fn mutexes_of_four_languages_exclude_each_other_under_faults() {
    let suite = "the torture across languages";
    if !tools::require_foreign(suite, &["java", "mvn", "python3", "go"]).unwrap() {
        return;
    }
    let sides = match sides() {
        Err(error) => return tools::skip_unless_required(suite, error).unwrap(),
        Ok(sides) => sides,
    };
    let seed = Seed::of("foreign", "cross_language::multi_language::");
    let seconds = env::var("ZOOLET_TORTURE_SECS").map_or(0, |text| text.parse().unwrap());
    let run = |kind: &str, servers: &mut Servers| {
        let report = contend(&sides, servers, &seed, Duration::from_secs(seconds)).unwrap();
        announce(&format!("torture across languages on {kind}: {report}"));
        write_report(kind, &report);
        if let Err(error) = &report.outcome {
            panic!("{error}");
        }
        proves_something(&report);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let left = runtime.block_on(left_behind(&servers.connect_string())).unwrap();
        assert_eq!(left, Vec::<String>::new(), "ephemerals of programs that have ended");
    };
    if env::var("ZOOLET_TORTURE_SERVERS").is_ok_and(|kind| kind == "apache") {
        run("apache", &mut Servers::apache().servers(3).start().unwrap());
    } else {
        run("zoolet", &mut Servers::zoolet().servers(3).start().unwrap());
    }
}

/// The programs that contend.
fn sides() -> Result<Vec<Side>, ToolError> {
    // A program that cannot be built here is not a foreign one that is missing.
    let own = recipes().unwrap();
    let curator = java("curator-5.9", &["../curator/Curated.java"], "Curated")?;
    let side = |name, program: &Command, contenders| Side {
        name,
        program: tools::copy(program),
        contenders,
        survives_lost_replies: true,
    };
    Ok(vec![
        side("Curator", &curator, vec![("mutex", CURATOR_S), ("mutex", CURATOR_S)]),
        Side {
            // Behind a lost reply Go's create looks for its znode without a sync. At a server that
            // lags it finds none, and creates another: the first one stays at the head of the queue
            // for the life of the session (go-zookeeper/zk, conn.go, CreateProtectedEphemeralSequential).
            // A server of zoolet does not lag then, since a session is resumed through the log.
            survives_lost_replies: false,
            ..side("Go", &go()?, vec![("mutex", CURATOR_S)])
        },
        side("kazoo", &kazoo()?, vec![("mutex", KAZOO_S), ("mutex", KAZOO_S)]),
        side("this client", &own, vec![("mutex", CURATOR_S), ("bilingual", KAZOO_S)]),
        side("this client", &own, vec![("bilingual", CURATOR_S), ("bilingual", KAZOO_S)]),
    ])
}

/// Every kind of fault has struck, every family has had a holder that outlived its session, and what
/// such a holder wrote was refused.
fn proves_something(report: &ContentionReport) {
    let families: BTreeSet<&str> = report.grants.keys().copied().collect();
    for fault in FAULTS {
        let struck = |family: &&str| report.struck(fault, family) > 0;
        let expected = if fault == Fault::ReplyLost {
            families.iter().filter(|family| **family != "Go").all(struck)
        } else if !fault.strikes_processes() {
            struck(&"servers")
        } else if report.rounds >= WHOLE_ROUNDS {
            families.iter().all(struck)
        } else {
            families.iter().any(struck)
        };
        assert!(expected, "{fault}: {:?}", report.faults);
    }
    for family in families {
        let outlived = FAULTS
            .into_iter()
            .filter(|fault| matches!(fault, Fault::Long(_)))
            .map(|fault| report.struck(fault, family))
            .sum::<usize>();
        assert!(outlived > 0, "no holder of {family} outlived its session: {:?}", report.faults);
        let refused = usize::try_from(report.refused[family]).unwrap();
        assert!(
            refused >= outlived,
            "{family}: {outlived} stale holders, {refused} refused writes"
        );
    }
}

/// Writes what a run has report, also if it has failed.
fn write_report(kind: &str, report: &ContentionReport) {
    let Some(directory) = env::var_os("ZOOLET_TORTURE_OUT").map(PathBuf::from) else { return };
    fs::create_dir_all(&directory).unwrap();
    let stem = format!("beside-others-{kind}-{}", report.seed);
    fs::write(directory.join(format!("{stem}.json")), report.json().to_string()).unwrap();
    for (lock, svg) in report.svgs() {
        fs::write(directory.join(format!("{stem}-{lock}.svg")), svg).unwrap();
    }
}
