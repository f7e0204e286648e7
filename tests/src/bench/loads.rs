//! The loads that are measured, and their names.

use std::fmt;

/// Which server of an ensemble the clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The connections are spread over all servers.
    Spread,
    Leader,
    Follower,
}

/// One load. Its name is `SERVERS:OPERATION:CONNECTIONSxDEPTH`, with `:leader` or `:follower`
/// behind it where all clients are at that server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub servers: usize,
    pub operation: &'static str,
    pub connections: usize,
    /// Requests in flight on each connection.
    pub depth: usize,
    pub place: Place,
}

/// All loads, in the order in which they are measured and shown.
pub(super) const LOADS: [Load; 14] = [
    load(3, "set", 1, 1, Place::Leader),
    load(3, "set", 1, 1, Place::Follower),
    load(3, "set", 4, 1, Place::Spread),
    load(3, "set", 16, 1, Place::Spread),
    load(3, "set", 16, 8, Place::Spread),
    load(3, "set", 64, 32, Place::Spread),
    load(3, "lock", 1, 1, Place::Leader),
    load(3, "lock", 4, 1, Place::Spread),
    load(3, "lock", 16, 1, Place::Spread),
    load(3, "get", 16, 8, Place::Spread),
    load(3, "get", 64, 32, Place::Spread),
    load(1, "set", 1, 1, Place::Spread),
    load(1, "set", 16, 8, Place::Spread),
    load(1, "get", 16, 8, Place::Spread),
];

const fn load(
    servers: usize,
    operation: &'static str,
    connections: usize,
    depth: usize,
    place: Place,
) -> Load {
    Load { servers, operation, connections, depth, place }
}

impl Load {
    /// Returns the load in words, for tables and plots.
    pub fn title(&self) -> String {
        let Self { servers, operation, connections, depth, place } = self;
        let servers =
            if *servers == 1 { "1 server".to_owned() } else { format!("{servers} servers") };
        let place = match place {
            Place::Spread => "",
            Place::Leader => " at the leader",
            Place::Follower => " at a follower",
        };
        format!("{servers}, {operation} {connections}×{depth}{place}")
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, operation, connections, depth, place } = self;
        write!(f, "{servers}:{operation}:{connections}x{depth}")?;
        match place {
            Place::Spread => Ok(()),
            Place::Leader => f.write_str(":leader"),
            Place::Follower => f.write_str(":follower"),
        }
    }
}

/// Parses a list of names, separated by commas; `none` is the empty list.
pub(super) fn parse(names: &str) -> Result<Vec<Load>, String> {
    if names == "none" {
        return Ok(Vec::new());
    }
    let wanted = names.split(',').map(str::trim).map(find).collect::<Result<Vec<_>, _>>()?;
    // In the order of the list above, each once.
    Ok(LOADS.into_iter().filter(|load| wanted.contains(load)).collect())
}

fn find(name: &str) -> Result<Load, String> {
    LOADS.into_iter().find(|load| load.to_string() == name).ok_or_else(|| {
        let known: Vec<String> = LOADS.iter().map(Load::to_string).collect();
        format!("unknown load `{name}`; known are none, {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_load_is_found_by_its_name() {
        let loads = parse("1:get:16x8, 3:set:1x1:follower").unwrap();
        let names: Vec<String> = loads.iter().map(Load::to_string).collect();
        assert_eq!(names, ["3:set:1x1:follower", "1:get:16x8"]);
        assert_eq!(loads[0].place, Place::Follower);
        assert_eq!(parse("none").unwrap(), []);
    }

    #[test]
    fn an_unknown_load_is_refused_with_the_names_of_the_others() {
        let error = parse("3:set:1x1:leader,3:put:1x1").unwrap_err();
        assert!(error.contains("`3:put:1x1`") && error.contains("3:lock:16x1"), "{error}");
        assert!(parse("").is_err());
    }

    #[test]
    fn each_load_has_a_name_and_a_title_of_its_own() {
        let names: BTreeSet<String> = LOADS.iter().map(Load::to_string).collect();
        let titles: BTreeSet<String> = LOADS.iter().map(Load::title).collect();
        assert_eq!((names.len(), titles.len()), (LOADS.len(), LOADS.len()));
        assert!(titles.contains("1 server, set 1×1"), "{titles:?}");
    }
}
