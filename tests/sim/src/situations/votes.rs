//! What changes of the ensemble do to the votes of its servers.

use std::collections::BTreeSet;

use zoolet_jute::ReconfigRequest;

/// Whether a server that one of these changes made an observer was made a voter by a later one, and none
/// of them between took it out.
pub(super) fn returned<'a>(changes: impl Iterator<Item = &'a ReconfigRequest>) -> bool {
    let mut observers: BTreeSet<&str> = BTreeSet::new();
    for change in changes {
        let leaving: Vec<&str> = parts(change.leaving_servers.as_deref()).collect();
        observers.retain(|server| !leaving.contains(server));
        if change.new_members.is_some() {
            let listed: Vec<&str> = servers(change.new_members.as_deref()).map(|it| it.0).collect();
            observers.retain(|server| listed.contains(server));
        }
        let joining = servers(change.joining_servers.as_deref());
        for (server, is_observer) in joining.chain(servers(change.new_members.as_deref())) {
            if is_observer {
                observers.insert(server);
            } else if observers.contains(server) {
                return true;
            }
        }
    }
    false
}

/// The servers of a list of lines, and whether each is an observer.
fn servers(lines: Option<&str>) -> impl Iterator<Item = (&str, bool)> {
    parts(lines).filter_map(|line| {
        let (server, address) = line.strip_prefix("server.")?.split_once('=')?;
        Some((server, address.contains(":observer")))
    })
}

fn parts(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.into_iter().flat_map(|list| list.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of `server.2` and `server.3`: `v` is a voter, `o` an observer, a space is none.
    fn lines(roles: &str) -> String {
        let named = (2..).zip(roles.chars()).filter(|(_, role)| *role != ' ');
        let line = |(server, role)| {
            let role = if role == 'o' { "observer" } else { "participant" };
            format!("server.{server}=h:1:2:{role};3")
        };
        named.map(line).collect::<Vec<_>>().join(",")
    }

    fn joins(roles: &str) -> ReconfigRequest {
        ReconfigRequest { joining_servers: Some(lines(roles)), ..change() }
    }

    fn whole(roles: &str) -> ReconfigRequest {
        ReconfigRequest { new_members: Some(lines(roles)), ..change() }
    }

    fn leaves(server: &str) -> ReconfigRequest {
        ReconfigRequest { leaving_servers: Some(server.to_owned()), ..change() }
    }

    fn change() -> ReconfigRequest {
        ReconfigRequest {
            joining_servers: None,
            leaving_servers: None,
            new_members: None,
            config_id: -1,
        }
    }

    #[test]
    fn a_vote_returns_to_an_observer_that_has_stayed() {
        for (changes, is_so) in [
            (vec![joins("o"), joins("v")], true),
            (vec![joins("o"), whole("vv")], true),
            (vec![whole("vo"), joins(" v")], true),
            (vec![joins("o"), leaves("3"), joins("v")], true),
            (vec![joins("v"), joins("o")], false),
            (vec![joins("o"), joins(" v")], false),
            (vec![joins("o"), leaves("2"), joins("v")], false),
            (vec![joins("o"), whole(" v"), joins("v")], false),
        ] {
            assert_eq!(returned(changes.iter()), is_so, "{changes:?}");
        }
    }
}
