//! Four-letter words (protocol §14), beside those of Apache `ZooKeeper`.

use std::io::Write;
use std::time::Duration;

use zoolet_tests::apache::Apache;
use zoolet_tests::four_letter;
use zoolet_tests::tools;
use zoolet_tests::zoolet::Zoolet;

use crate::support::*;

/// The words that both servers know, and the keys that only Apache's answers have, since they tell
/// of its JVM or of parts that zoolet does not have.
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
        // Which connections expire together is chance, and so is whether the one that asked the
        // last word is still there.
        let is_next_set = line.contains(" expire at ")
            && lines.last().is_some_and(|last| last.starts_with("\tip: "));
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
    let apache = Apache::builder().start().unwrap();
    let zoolet = Zoolet::builder().start().unwrap();
    let mut differences = Vec::new();
    let addresses = [apache.client_address(0).unwrap(), zoolet.client_address(0).unwrap()];
    let _witnesses = addresses.map(Witness::open);
    for word in WORDS {
        let [expected, found] =
            addresses.map(|address| shape(word, &four_letter::ask(address, word).unwrap()));
        // Apache's monitor and its list of connections have the order of a hash table.
        let sorted = |mut lines: Vec<String>| {
            if matches!(word, "mntr" | "cons" | "stat") {
                lines.sort_unstable();
                lines.dedup();
            }
            lines
        };
        let (expected, found) = (sorted(expected), sorted(found));
        let of_interest = |lines: Vec<String>, others: &[String]| -> Vec<String> {
            if matches!(word, "mntr" | "conf") {
                // zoolet answers in Apache's order what it answers of Apache's keys.
                lines.into_iter().filter(|line| others.contains(line)).collect()
            } else {
                lines
            }
        };
        let (left, right) =
            (of_interest(expected.clone(), &found), of_interest(found.clone(), &expected));
        if left != right {
            differences.push(format!("{word}\n  apache: {left:#?}\n  zoolet: {right:#?}"));
        }
        if word == "mntr" {
            let known = [
                "zk_version",
                "zk_server_state",
                "zk_znode_count",
                "zk_watch_count",
                "zk_ephemerals_count",
                "zk_approximate_data_size",
                "zk_open_file_descriptor_count",
                "zk_max_file_descriptor_count",
                "zk_avg_latency",
                "zk_max_latency",
                "zk_min_latency",
                "zk_packets_received",
                "zk_packets_sent",
                "zk_num_alive_connections",
                "zk_outstanding_requests",
            ];
            for key in known {
                assert!(found.iter().any(|line| line == key), "mntr lacks {key}");
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn words_outside_the_whitelist_and_words_in_pieces() {
    let servers = Zoolet::builder().property("4lw.commands.whitelist", "ruok").start().unwrap();
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
