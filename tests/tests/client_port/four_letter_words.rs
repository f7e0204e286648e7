//! Four-letter words (protocol §14), beside those of Apache `ZooKeeper`.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use zoolet_jute::Request;
use zoolet_server::embed::Ensemble;
use zoolet_server::embed::config::FourLetterConfig;
use zoolet_tests::four_letter;
use zoolet_tests::raw::RawConnection;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools;

use crate::support::*;

/// The words that both servers know; `envi` is a test of its own.
const WORDS: [&str; 14] = [
    "ruok", "srvr", "stat", "mntr", "cons", "conf", "dump", "wchs", "wchc", "wchp", "crst", "srst",
    "isro", "dirs",
];

/// An answer without what differs between any two servers: numbers, addresses, paths and times.
fn shape(word: &str, answer: &str) -> Vec<String> {
    let normal = |line: &str| {
        let mut out = String::new();
        let mut was_digit = false;
        for c in line.chars() {
            let is_digit = c.is_ascii_hexdigit() && (c.is_ascii_digit() || was_digit);
            if !is_digit {
                out.push(c);
            } else if !was_digit {
                out.push('N');
            }
            was_digit = is_digit;
        }
        out.replace("NxN", "N").replace("N.N", "N")
    };
    let key = |line: &str| match word {
        // Keys and values: the values are the server's own business.
        "mntr" => line.split('\t').next().unwrap_or(line).to_owned(),
        "conf" => line.split('=').next().unwrap_or(line).to_owned(),
        "srvr" | "stat" if line.starts_with("Zookeeper version: ") => "version".to_owned(),
        _ => normal(line),
    };
    let mut lines: Vec<String> = Vec::new();
    for line in answer.lines().map(key) {
        // Which sessions and connections expire together is chance, and so is whether the one that
        // asked the last word is still there.
        let is_member = |line: &String| line.starts_with("\tip: ") || line == "\tN";
        let is_next_set = line.contains(" expire at ") && lines.last().is_some_and(is_member);
        if !is_next_set && lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn four_letter_words_have_the_form_of_apache() {
    if !tools::require_foreign("client_port", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache().start().unwrap();
    let zoolet = Servers::zoolet().start().unwrap();
    let addresses = [apache.client_address(0).unwrap(), zoolet.client_address(0).unwrap()];
    sessions_without_requests_look_alike(addresses);
    let _witnesses = addresses.map(Witness::open);
    let differences = differences(addresses);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// What the server answers; a list of sessions is asked for again when one was moved within it.
///
/// A session that has just been opened is in the touch table of each of Apache's followers as well
/// (`LearnerSessionTracker.commitSession`), so their next ping may move it to a later set. `dump`
/// reads the times of the sets first: a session that goes to a new one behind that is not listed,
/// though it is counted.
fn answer(address: SocketAddr, word: &str) -> String {
    let start = Instant::now();
    loop {
        let answer = four_letter::ask(address, word).unwrap();
        let counted = answer.lines().find_map(|line| {
            let counts = line.strip_prefix("Session Sets (")?.strip_suffix("):")?;
            counts.split_once(")/(")?.1.parse::<usize>().ok()
        });
        let sessions = answer.split("ephemeral nodes dump:").next().unwrap_or_default();
        let listed = sessions.lines().filter(|line| line.starts_with("\t0x")).count();
        if counted.is_none_or(|counted| counted == listed) {
            return answer;
        }
        assert!(start.elapsed() < ANSWER_MAX, "{listed} sessions are listed: {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is different in the words of Apache and of zoolet.
fn differences(addresses: [SocketAddr; 2]) -> Vec<String> {
    let mut differences = Vec::new();
    for word in WORDS {
        let [expected, found] = addresses.map(|address| shape(word, &answer(address, word)));
        // Apache's monitor and its list of connections have the order of a hash table.
        let sorted = |mut lines: Vec<String>| {
            if matches!(word, "mntr" | "cons" | "stat") {
                lines.sort_unstable();
                lines.dedup();
            }
            lines
        };
        let (expected, found) = (sorted(expected), sorted(found));
        if word == "mntr" && found.len() > 1 {
            let lacks: Vec<_> = not_in(&expected, &found).collect();
            let own: Vec<_> =
                not_in(&found, &expected).filter(|key| !key.starts_with("zk_limit_")).collect();
            let in_ensemble = expected.iter().any(|key| key == "zk_quorum_size");
            let of_ensemble =
                |key: &str| key.starts_with("zk_raft_") || MNTR_OF_ENSEMBLES.contains(&key);
            let known = MNTR_OWN.iter().filter(|key| in_ensemble || !of_ensemble(key));
            if !lacks.is_empty() || !own.iter().eq(known) {
                differences.push(format!("mntr lacks {lacks:?}, and has {own:?} more"));
            }
        } else if expected != found {
            differences.push(format!("{word}\n  apache: {expected:#?}\n  zoolet: {found:#?}"));
        }
    }
    differences
}

/// The leader, a follower, and a server that has lost the others.
#[test]
fn members_of_an_ensemble_answer_as_those_of_apache() {
    if !tools::require_foreign("client_port", &["java", "mvn"]).unwrap() {
        return;
    }
    // Without a leader, zoolet serves reads for this many ticks.
    let ticks = ("syncLimit", "2");
    let mut apache = Servers::apache().servers(3).property(ticks.0, ticks.1).start().unwrap();
    let mut zoolet = Servers::zoolet().servers(3).property(ticks.0, ticks.1).start().unwrap();
    let leaders = [&apache as &Servers, &zoolet].map(|servers| servers.leader().unwrap());
    let followers = leaders.map(|leader| (leader + 1) % 3);
    let address = |servers: &Servers, index| servers.client_address(index).unwrap();
    for members in [leaders, followers] {
        let addresses = [address(&apache, members[0]), address(&zoolet, members[1])];
        let mut witnesses = addresses.map(Witness::open);
        let differences = differences(addresses);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        for witness in &mut witnesses {
            done(&call(&mut witness.connection, &Request::CloseSession));
        }
    }
    let addresses = [address(&apache, followers[0]), address(&zoolet, followers[1])];
    for (servers, stays) in [(&mut apache, followers[0]), (&mut zoolet, followers[1])] {
        for index in (0..3).filter(|index| *index != stays) {
            servers.kill(index).unwrap();
        }
    }
    let start = Instant::now();
    for address in addresses {
        while four_letter::mode(address).is_some() {
            assert!(start.elapsed() < CLOSE_MAX, "{address} serves alone, of {addresses:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let differences = differences(addresses);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A member shows the ensemble as it is in `/zookeeper/config`, with its version.
#[test]
fn a_member_of_an_ensemble_shows_its_configuration_as_apache_does() {
    if !tools::require_foreign("client_port", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache().servers(3).start().unwrap();
    let zoolet = Servers::zoolet().servers(3).start().unwrap();
    let addresses = [apache.client_address(1).unwrap(), zoolet.client_address(1).unwrap()];
    // A leader writes it soon after its election.
    let start = Instant::now();
    while !four_letter::ask(addresses[1], "conf").unwrap().contains("version=") {
        assert!(start.elapsed() < CLOSE_MAX, "no version");
        std::thread::sleep(Duration::from_millis(50));
    }
    let [expected, found] =
        addresses.map(|address| shape("conf", &four_letter::ask(address, "conf").unwrap()));
    assert_eq!(found, expected);
    assert_eq!(found.last().map(String::as_str), Some("version"));
}

/// The handshake alone shows as Apache shows it.
fn sessions_without_requests_look_alike(addresses: [SocketAddr; 2]) {
    let _fresh = addresses.map(|address| RawConnection::open(address, 10_000).unwrap());
    for word in ["cons", "stat"] {
        let [expected, found] = addresses.map(|address| {
            let mut lines = shape(word, &four_letter::ask(address, word).unwrap());
            // Which of the two connections comes first is chance, as is whether the one that asked
            // the word before is still there.
            lines.sort_unstable();
            lines.dedup();
            lines
        });
        assert_eq!(found, expected, "{word}");
    }
}

/// The keys of `mntr` that zoolet has not, for the parts behind them are Apache's own.
const MNTR_ABSENT: [(&str, &str); 9] = [
    (
        "summaries of requests on their way through Apache's processors and queues",
        "avg_ min_ max_ cnt_ sum_ p50_ p95_ p99_ p999_",
    ),
    (
        "queues and throttles between Apache's processors",
        "outstanding_changes_ prep_processor_ request_ requests_not_ sync_processor_ skip_learner_ stale_ large_requests_ add_dead_watcher_ dead_watchers_",
    ),
    (
        "Zab",
        "commit_count diff_count snap_count proposal_count learner_ looking_count quit_leading_ digest_mismatches_ revalidate_count connection_revalidate_ pending_syncs synced_non_voting_",
    ),
    ("connection tokens", "connection_drop_ connection_request_"),
    (
        "TLS and SASL",
        "ensemble_auth_ non_mtls_ tls_ outstanding_tls_ unsuccessful_handshake insecure_admin_",
    ),
    ("caches of encoded replies", "response_packet_"),
    ("snapshots on demand", "restore_ snapshot_"),
    (
        "sizes of what goes through the JVM",
        "bytes_received_ response_bytes last_client_response_ watch_bytes",
    ),
    ("faults that zoolet logs", "auth_failed_ cnxn_closed_ unrecoverable_"),
];

/// The keys of `mntr`, other than those of Raft, that only a server in an ensemble has.
const MNTR_OF_ENSEMBLES: [&str; 6] = [
    "zk_leader_step_downs",
    "zk_state_age_ms",
    "zk_state_age_stops",
    "zk_state_agreed_index",
    "zk_state_differing_servers",
    "zk_state_diverged",
];

/// The keys of `mntr` that Apache has not, in order; those of ensembles only in an ensemble. `zk_max_lock_hold_us` is not among them, because its name begins as Apache's maxima do.
const MNTR_OWN: [&str; 12] = [
    "zk_leader_step_downs",
    "zk_raft_applied_index",
    "zk_raft_last_log_index",
    "zk_raft_snapshot_index",
    "zk_raft_term",
    "zk_state_age_ms",
    "zk_state_age_stops",
    "zk_state_agreed_index",
    "zk_state_differing_servers",
    "zk_state_digest",
    "zk_state_diverged",
    "zk_state_zxid",
];

/// The keys of one answer that the other lacks without one of the reasons above.
fn not_in<'a>(keys: &'a [String], others: &'a [String]) -> impl Iterator<Item = &'a str> {
    let has_reason = |key: &str| {
        let name = key.trim_start_matches("zk_");
        let mut absent = MNTR_ABSENT.iter().flat_map(|(_, starts)| starts.split(' '));
        absent.any(|start| name.starts_with(start))
    };
    let missing = keys.iter().filter(|key| !others.contains(key));
    missing.map(String::as_str).filter(move |key| !has_reason(key))
}

#[test]
fn the_environment_lacks_only_what_is_of_the_jvm() {
    if !tools::require_foreign("client_port", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache().start().unwrap();
    let zoolet = Servers::zoolet().start().unwrap();
    let [expected, found] = [apache.client_address(0), zoolet.client_address(0)].map(|address| {
        let answer = four_letter::ask(address.unwrap(), "envi").unwrap();
        let keys = answer.lines().map(|line| line.split('=').next().unwrap_or(line).to_owned());
        let value = |key: &str| {
            let line = answer.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.to_owned()
        };
        (keys.collect::<Vec<_>>(), value("os.name="), value("os.arch="), value("os.version="))
    });
    // Paths and the heap of the JVM.
    let of_java = |key: &String| {
        ["java.class.path", "java.library.path", "java.compiler"].contains(&key.as_str())
            || key.starts_with("os.memory.")
    };
    let keys: Vec<String> = expected.0.into_iter().filter(|key| !of_java(key)).collect();
    assert_eq!(found.0, keys);
    assert_eq!((found.1, found.2, found.3), (expected.1, expected.2, expected.3));
}

/// Asks a word until it is answered: the place of the connection that asked before may not be free
/// yet. Adds the ones that were turned away.
fn ask_for_sure(server: SocketAddr, word: &str, turned_away: &mut u64) -> String {
    loop {
        match four_letter::ask(server, word) {
            Ok(answer) if !answer.is_empty() => return answer,
            _ => *turned_away += 1,
        }
    }
}

#[test]
fn those_that_are_turned_away_are_counted_until_a_reset() {
    let servers = Servers::zoolet()
        .property("maxClientCnxns", "2")
        .property("nio.sessionlessCnxnTimeout", "1000")
        .start()
        .unwrap();
    let address = servers.client_address(0).unwrap();
    let counts = |turned_away: &mut u64| {
        let answer = ask_for_sure(address, "mntr", turned_away);
        ["zk_connection_rejected\t", "zk_sessionless_connections_expired\t"].map(|key| {
            let value = answer.lines().find_map(|line| line.strip_prefix(key));
            value.unwrap_or_else(|| panic!("no {key}")).parse::<u64>().unwrap()
        })
    };
    ask_for_sure(address, "srst", &mut 0);
    // Two at a time say nothing, and are closed for it; the others are closed at once.
    let all: Vec<_> = (0..8).map(|_| connect(address)).collect();
    for stream in &all {
        assert_eq!(until_closed(stream), Some(Vec::new()));
    }
    let mut asking = 0;
    let [refused, late] = counts(&mut asking);
    assert_eq!(refused + late, 8 + asking);
    assert!(late >= 1 && refused >= 1, "{refused} refused, {late} late");
    assert_eq!(ask_for_sure(address, "srst", &mut 0), "Server stats reset.\n");
    let mut asking = 0;
    assert_eq!(counts(&mut asking), [asking, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_srvr_is_the_only_word() {
    let ensemble = Ensemble::builder()
        .configure(|config| config.four_letter = FourLetterConfig::default())
        .start()
        .await
        .unwrap();
    let address = ensemble.client_addr(0).unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        for word in WORDS.into_iter().chain(["envi"]) {
            let answer = four_letter::ask(address, word).unwrap();
            let refusal = format!("{word} is not executed because it is not in the whitelist.\n");
            assert_eq!(answer == refusal, word != "srvr", "{word}: {answer}");
        }
        // Any other word is the length of a frame that is too long.
        for word in ["nope", "RUOK", "srvR"] {
            let mut stream = connect(address);
            stream.write_all(word.as_bytes()).unwrap();
            assert_eq!(until_closed(&stream), Some(Vec::new()), "{word}");
        }
    });
    asked.await.unwrap();
    ensemble.shutdown().await;
}

#[test]
fn words_outside_the_whitelist_and_words_in_pieces() {
    let servers = Servers::zoolet().property("4lw.commands.whitelist", "ruok").start().unwrap();
    let address = servers.client_address(0).unwrap();
    let refused = four_letter::ask(address, "mntr").unwrap();
    assert_eq!(refused, "mntr is not executed because it is not in the whitelist.\n");
    assert_eq!(four_letter::ask(address, "ruok\n").unwrap(), "imok");
    let mut stream = connect(address);
    stream.set_nodelay(true).unwrap();
    for byte in b"ruok" {
        stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(until_closed(&stream).as_deref(), Some(b"imok".as_slice()));
}

/// The mask does nothing here, but scripts read it.
#[test]
fn the_trace_mask_is_shown_and_set_as_in_apache() {
    if !tools::require_foreign("client_port", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache().start().unwrap();
    let zoolet = Servers::zoolet().start().unwrap();
    let [expected, found] = [apache.client_address(0), zoolet.client_address(0)].map(|address| {
        let address = address.unwrap();
        let ask = |bytes: &[u8]| {
            let mut stream = connect(address);
            stream.write_all(bytes).unwrap();
            String::from_utf8(until_closed(&stream).unwrap()).unwrap()
        };
        let set = [b"stmk".as_slice(), &[0, 0, 0, 0, 0, 0, 1, 2]].concat();
        [ask(b"gtmk"), ask(&set), ask(b"gtmk")]
    });
    assert_eq!(found, expected);
}
