//! What a server says of itself in answer to the four-letter word `srvr`.

/// The beginning of the answer of a server that serves.
const FIRST_LINE: &str = "Zookeeper version: ";

/// A server that serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The release, up to the date of its build.
    pub version: String,
    /// `leader`, `follower`, `observer`, `standalone`, `read-only` or `looking`.
    pub mode: String,
    /// The zxid of the last write.
    pub zxid: i64,
    /// Connections of clients.
    pub connections: u64,
    /// Requests that are not answered yet.
    pub outstanding: u64,
    /// How long requests took on average, in milliseconds.
    pub latency_ms: f64,
    /// Znodes of the tree.
    pub znodes: u64,
    /// The limits that are reached, as lines for an operator. Apache ZooKeeper has none.
    pub limits_reached: Vec<ReachedLimit>,
}

/// A limit of a server that is reached, so that it refuses clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedLimit {
    /// Its name, use, maximum and setting.
    pub text: String,
    /// Whether it is one of all clients. Otherwise it is reached by one address or identity.
    pub is_total: bool,
}

impl ReachedLimit {
    /// Reads a line of the answer.
    pub fn parse(line: &str) -> Option<Self> {
        let (whose, text) = line.strip_prefix("Limit reached")?.split_once(": ")?;
        Some(Self { text: text.trim_end().to_owned(), is_total: whose.is_empty() })
    }
}

impl Served {
    /// Reads the answer; `None` if it is none of a server that serves.
    pub fn parse(answer: &str) -> Option<Self> {
        let value = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name));
        let number = |name: &str| value(name)?.trim().parse().ok();
        let version = value(FIRST_LINE)?.split(',').next()?.to_owned();
        let zxid = u64::from_str_radix(value("Zxid: 0x")?.trim(), 16).ok()?.cast_signed();
        let latency = value("Latency min/avg/max: ")?.split('/').nth(1)?;
        Some(Self {
            version,
            mode: value("Mode: ")?.trim().to_owned(),
            zxid,
            connections: number("Connections: ")?,
            outstanding: number("Outstanding: ")?,
            latency_ms: latency.trim().parse().ok()?,
            znodes: number("Node count: ")?,
            limits_reached: answer.lines().filter_map(ReachedLimit::parse).collect(),
        })
    }

    /// Whether it leads, be it itself alone.
    pub fn is_leader(&self) -> bool {
        matches!(self.mode.as_str(), "leader" | "standalone")
    }

    /// Whether it leads without an ensemble.
    pub fn is_standalone(&self) -> bool {
        self.mode == "standalone"
    }

    /// Whether it follows without a vote.
    pub fn is_observer(&self) -> bool {
        self.mode == "observer"
    }

    /// Whether it takes part in an ensemble with a leader. One that looks for a leader answers as well.
    pub fn takes_writes(&self) -> bool {
        self.is_leader() || matches!(self.mode.as_str(), "follower" | "observer")
    }

    /// Whether it serves reads alone.
    pub fn is_read_only(&self) -> bool {
        self.mode == "read-only"
    }

    /// The term of the last write: the high half of its zxid.
    pub fn term(&self) -> i64 {
        self.zxid >> 32
    }

    /// Returns how many writes of `leader` this server has not applied; `None` if its last one is of
    /// another term, so that they cannot be counted.
    pub fn behind(&self, leader: &Self) -> Option<i64> {
        (self.term() == leader.term()).then(|| (leader.zxid - self.zxid).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "Zookeeper version: 3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, \
                          built on 2025-08-19 19:53 UTC\nLatency min/avg/max: 0/0.25/7\n\
                          Received: 34\nSent: 33\nConnections: 2\nOutstanding: 0\n\
                          Zxid: 0x200000007\nMode: follower\nNode count: 12\n";

    #[test]
    fn the_answer_of_a_server_is_read() {
        let served = Served::parse(ANSWER).unwrap();
        assert_eq!(served.version, "3.9.4-7246445ec281f3dbf53dc54e970c914f39713903");
        assert_eq!((served.mode.as_str(), served.term()), ("follower", 2));
        assert_eq!((served.connections, served.outstanding, served.znodes), (2, 0, 12));
        assert!((served.latency_ms - 0.25).abs() < 1e-9);
        assert!(served.takes_writes() && !served.is_leader() && !served.is_read_only());
        let looking = Served::parse(&ANSWER.replace("follower", "looking")).unwrap();
        assert!(!looking.takes_writes());
    }

    #[test]
    fn limits_that_are_reached_are_read() {
        assert_eq!(Served::parse(ANSWER).unwrap().limits_reached, []);
        let of_all = "sessions 5 of 5, 2 refused (limits.sessions_max)";
        let of_one = "sessions_per_address 3 of 3, 0 refused (limits.sessions_per_address_max)";
        let lines = format!(
            "Limit reached: {of_all}\nLimit reached for one address or identity: {of_one}\n"
        );
        let served = Served::parse(&(ANSWER.to_owned() + &lines)).unwrap();
        let reached = |text: &str, is_total| ReachedLimit { text: text.to_owned(), is_total };
        assert_eq!(served.limits_reached, [reached(of_all, true), reached(of_one, false)]);
    }

    #[test]
    fn an_answer_without_a_figure_is_none() {
        for left_out in ["Zookeeper", "Zxid", "Mode", "Connections", "Node"] {
            let rest = ANSWER.lines().filter(|line| !line.starts_with(left_out));
            assert_eq!(Served::parse(&rest.collect::<Vec<_>>().join("\n")), None, "{left_out}");
        }
        let negative = ANSWER.replace("Connections: 2", "Connections: -2");
        assert_eq!(Served::parse(&negative), None);
    }

    #[test]
    fn writes_behind_are_counted_within_a_term() {
        let at = |zxid| Served { zxid, ..Served::parse(ANSWER).unwrap() };
        assert_eq!(at(0x2_0000_0003).behind(&at(0x2_0000_0007)), Some(4));
        assert_eq!(at(0x2_0000_0009).behind(&at(0x2_0000_0007)), Some(0), "asked later");
        assert_eq!(at(0x1_0000_0009).behind(&at(0x2_0000_0007)), None);
    }
}
