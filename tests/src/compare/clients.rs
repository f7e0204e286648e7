//! The versions of the clients that the programs are built with.

const GO: &str = include_str!("../../interop/compare/go/go.mod");
const CURATOR: &str = include_str!("../../interop/compare/curator/pom.xml");

/// The clients and their versions, as a sentence.
pub(super) fn clients() -> String {
    let curator = CURATOR
        .split_once("curator-recipes")
        .and_then(|(_, rest)| Some(rest.split_once("<version>")?.1.split_once("</version>")?.0));
    let own = format!("zoolet-client {}", env!("CARGO_PKG_VERSION"));
    let all = [own, format!("Curator {}", curator.unwrap_or("unknown"))];
    let all: Vec<String> = all.into_iter().chain(of_go(GO)).collect();
    format!("Clients: {}.", all.join(", "))
}

/// The direct requirements of a `go.mod`.
fn of_go(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| !line.contains("// indirect"));
    let pairs = lines.filter_map(|line| line.strip_prefix('\t')?.split_once(' '));
    // The log that is turned off is not a client.
    pairs
        .filter(|(name, _)| !name.contains("zap"))
        .map(|(name, version)| format!("{name} {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direct_requirement_is_named() {
        let text = clients();
        assert!(text.contains(", Curator 5."), "{text}");
        assert!(text.contains("go.etcd.io/etcd/client/v3 v3."), "{text}");
        assert!(!text.contains("unknown") && !text.contains("indirect"), "{text}");
    }
}
