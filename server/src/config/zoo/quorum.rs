//! The member list: the lines `server.N=`, `group.N=` and `weight.N=`, in the file itself or in
//! the dynamic file that it points to (protocol, section 15.3).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use zoolet_replica::ServerId;

use super::super::draft::At;
use super::super::error::ConfigError;
use super::super::files::Source;
use super::super::member::{Member, parse_server_id};
use super::ZooCfgReader;
use super::properties::{self, Property};

const PREFIXES: [&str; 3] = ["server.", "group.", "weight."];

/// Whether the key belongs to the member list.
pub(super) fn is_quorum_key(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl ZooCfgReader<'_> {
    /// Fills in the members, from the file itself or from the dynamic file.
    pub(super) fn read_members(&mut self) -> Result<(), ConfigError> {
        self.check_election_algorithm()?;
        let quorum = std::mem::take(&mut self.quorum);
        let Some(pointer) = self.keys.get("dynamicConfigFile").cloned() else {
            return self.add_members(&self.source.file.clone(), &quorum);
        };
        if let Some(property) = quorum.first() {
            let why = "with dynamicConfigFile, the member list must be in that file";
            return Err(self.wrong(property, why));
        }
        if pointer.value.is_empty() {
            return Err(self.expected(&pointer, "a file"));
        }
        let path = Path::new(&pointer.value);
        let bytes = self.files.read(path).map_err(|error| {
            self.wrong(&pointer, &format!("{} cannot be read: {error}", path.display()))
        })?;
        let source = Source::decode(path, bytes)?;
        let (quorum, other): (Vec<_>, Vec<_>) =
            properties::parse(&source)?.into_iter().partition(|p| is_quorum_key(&p.key));
        for property in other {
            if property.key != "version" {
                let why = format!("`{}`: only the member list can be here", property.key);
                return Err(source.error(property.line, why));
            }
            u64::from_str_radix(&property.value, 16).map_err(|_| {
                let why = format!("version = {}: expected a hexadecimal number", property.value);
                source.error(property.line, why)
            })?;
            let why = "not applicable: the ensemble's log knows which member list is the newest";
            self.draft.warn(&At::new(path, property.line), &property.key, why);
        }
        if quorum.is_empty() {
            return Err(source.error(0, "no server line"));
        }
        self.add_members(path, &quorum)
    }

    fn check_election_algorithm(&self) -> Result<(), ConfigError> {
        match self.keys.get("electionAlg") {
            Some(property) if property.value != "3" => Err(self.expected(property, "3")),
            _ => Ok(()),
        }
    }

    fn add_members(&mut self, file: &Path, quorum: &[Property]) -> Result<(), ConfigError> {
        let several = self.flag("multiAddress.enabled")?.unwrap_or(false);
        let mut groups = Vec::new();
        let mut weights = Vec::new();
        for property in quorum {
            let at = At::new(file, property.line);
            let name = property.key.strip_prefix("zookeeper.").unwrap_or(&property.key);
            let wrong = |why: String| at.error(format!("{}: {why}", property.key));
            if let Some(id) = name.strip_prefix("server.") {
                let id = parse_server_id(id).map_err(wrong)?;
                let (member, note) = Member::parse(&property.value, several).map_err(wrong)?;
                if let Some(note) = note {
                    self.draft.warn(&at, &property.key, note);
                }
                self.warn_of_equal_client(&member, &at, property);
                self.draft.add_member(id, member, at)?;
            } else if let Some(id) = name.strip_prefix("weight.") {
                weights.push((parse_server_id(id).map_err(wrong)?, property, at));
            } else {
                groups.push((property, at));
            }
        }
        self.check_groups(&groups)?;
        self.check_weights(&weights)
    }

    /// Warns of a member with the client address of an earlier one, which Apache ZooKeeper accepts.
    fn warn_of_equal_client(&mut self, member: &Member, at: &At, property: &Property) {
        let is_equal = |earlier: &Member| {
            earlier.peer.host == member.peer.host && earlier.client == member.client
        };
        let Some(client) = &member.client else { return };
        let mut earlier = self.draft.config.members.iter().filter(|(_, earlier)| is_equal(earlier));
        if self.draft.has_members()
            && let Some((id, _)) = earlier.next()
        {
            let why = format!(
                "server {id} has the same host and client address {client}: only one of the two \
                 can listen there"
            );
            self.draft.warn(at, &property.key, why);
        }
    }

    /// A hierarchy of groups has other majorities than Raft. One group of all is none.
    fn check_groups(&mut self, groups: &[(&Property, At)]) -> Result<(), ConfigError> {
        let members: BTreeSet<ServerId> = self.draft.config.members.keys().copied().collect();
        for (position, (property, at)) in groups.iter().enumerate() {
            let wrong = |why: String| at.error(format!("{}: {why}", property.key));
            let ids = property.value.split(':').map(|id| parse_server_id(id.trim()));
            let ids: BTreeSet<ServerId> = ids.collect::<Result<_, _>>().map_err(wrong)?;
            if position > 0 || ids != members {
                let why = "a majority of groups is not supported: Raft needs a majority of all \
                           voters, and other majorities could decide differently";
                return Err(wrong(why.to_owned()));
            }
            let why = "not applicable: one group of all servers is the default";
            self.draft.warn(at, &property.key, why);
        }
        Ok(())
    }

    /// Weights change what a majority is, unless all are the same.
    fn check_weights(&mut self, weights: &[(ServerId, &Property, At)]) -> Result<(), ConfigError> {
        let mut given = BTreeMap::new();
        for (id, property, at) in weights {
            let weight: u32 = property.value.parse().map_err(|_| {
                let Property { key, value, .. } = property;
                at.error(format!("{key} = {value}: expected a whole number"))
            })?;
            given.insert(*id, weight);
        }
        // A server without a weight weighs 1.
        let weight_of = |id: &ServerId| given.get(id).copied().unwrap_or(1);
        let all: BTreeSet<u32> = self.draft.config.members.keys().map(weight_of).collect();
        for (_, property, at) in weights {
            if all.len() > 1 || all.contains(&0) {
                let why = format!(
                    "{}: weights that differ are not supported: Raft counts every voter once",
                    property.key
                );
                return Err(at.error(why));
            }
            let why = "not applicable: equal weights are the default";
            self.draft.warn(at, &property.key, why);
        }
        Ok(())
    }
}
