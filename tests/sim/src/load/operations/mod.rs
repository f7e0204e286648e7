//! Random operations over a few paths, on which all clients meet.

mod kinds;
mod multi;
mod parts;
mod quota;
mod wrong;

use std::collections::{BTreeMap, VecDeque};

use zoolet_jute::{
    AddWatchMode, AddWatchRequest, CreateMode, NullablePathRequest, PathRequest,
    PathVersionRequest, PathWatchRequest, Reply, Request, SetAclRequest, SetDataRequest,
    SetWatches2Request, SetWatchesRequest, WatcherType, WatchesRequest, Zxid,
};

pub use self::kinds::{Mix, OperationKind};
use self::parts::{ANY_ACL, acl, create_request, identity, ttl_request};
use super::chance::Chance;
use super::data::Data;
use super::session::Outcome;
use crate::history::ClientNumber;

/// How many sequential znodes a client leaves behind.
const OWN_MAX: usize = 12;

/// The root of the paths of random operations.
pub const LOAD_ROOT: &str = "/load";

/// The paths of a run: a tree below [`LOAD_ROOT`], its root first.
pub fn draw_paths(count: usize, chance: &mut Chance) -> Vec<String> {
    const DEPTH_MAX: usize = 5;
    let mut paths = vec![LOAD_ROOT.to_owned()];
    while paths.len() < count {
        let number = paths.len();
        let parent = chance.pick(&paths).filter(|it| it.matches('/').count() < DEPTH_MAX);
        let parent = parent.map_or(LOAD_ROOT, String::as_str);
        paths.push(format!("{parent}/n{number}"));
    }
    paths
}

/// The versions of a znode that a client has seen last.
#[derive(Clone, Copy, Debug, Default)]
struct Versions {
    data: i32,
    acl: i32,
}

/// What one client asks for.
#[derive(Debug)]
pub struct Operations {
    paths: Vec<String>,
    mix: Mix,
    chance: Chance,
    versions: BTreeMap<String, Versions>,
    /// Sequential znodes of this client, the oldest first.
    own: VecDeque<String>,
    data: Data,
    last_zxid: Zxid,
}

impl Operations {
    /// The operations of a client. There should be at least one path.
    pub fn new(client: ClientNumber, paths: Vec<String>, mix: Mix, mut chance: Chance) -> Self {
        let data = Data::new(client, chance.fork());
        let versions = BTreeMap::new();
        let own = VecDeque::new();
        Self { paths, mix, chance, versions, own, data, last_zxid: Zxid(0) }
    }

    /// The next request.
    pub fn draw(&mut self) -> Request {
        if self.own.len() > OWN_MAX {
            return self.delete_own();
        }
        let kind = self.mix.next(&mut self.chance);
        self.request(kind)
    }

    /// A request of a kind.
    pub fn request(&mut self, kind: OperationKind) -> Request {
        match kind {
            OperationKind::CreatePersistent => self.create(CreateMode::Persistent),
            OperationKind::CreateEphemeral => self.create(CreateMode::Ephemeral),
            OperationKind::CreateSequential => self.create(CreateMode::PersistentSequential),
            OperationKind::CreateEphemeralSequential => {
                self.create(CreateMode::EphemeralSequential)
            }
            OperationKind::CreateContainer => self.create(CreateMode::Container),
            OperationKind::CreateTtl => self.create_ttl(),
            OperationKind::Delete => {
                Request::Delete(PathVersionRequest { path: self.path(), version: -1 })
            }
            OperationKind::DeleteVersion => Request::Delete(self.path_version()),
            OperationKind::DeleteOwn => self.delete_own(),
            OperationKind::SetData => self.set_data(false),
            OperationKind::SetDataVersion => self.set_data(true),
            OperationKind::GetData => Request::GetData(self.read(false)),
            OperationKind::GetDataWatch => Request::GetData(self.read(true)),
            OperationKind::Exists => Request::Exists(self.read(false)),
            OperationKind::ExistsWatch => Request::Exists(self.read(true)),
            OperationKind::GetChildren => Request::GetChildren(self.read(false)),
            OperationKind::GetChildrenWatch => Request::GetChildren(self.read(true)),
            OperationKind::GetChildren2 => Request::GetChildren2(self.read(false)),
            OperationKind::GetChildren2Watch => Request::GetChildren2(self.read(true)),
            OperationKind::GetAcl => Request::GetAcl(PathRequest { path: self.path() }),
            OperationKind::SetAcl => self.set_acl(),
            OperationKind::AddAuth => Request::Auth(identity(&mut self.chance)),
            OperationKind::Sync => Request::Sync(self.nullable_path()),
            OperationKind::Multi => self.multi(),
            OperationKind::MultiRead => self.multi_read(),
            OperationKind::AddWatch => self.add_watch(AddWatchMode::Persistent),
            OperationKind::AddWatchRecursive => self.add_watch(AddWatchMode::PersistentRecursive),
            OperationKind::RemoveWatches => Request::RemoveWatches(self.watches()),
            OperationKind::CheckWatches => Request::CheckWatches(self.watches()),
            OperationKind::SetWatches => self.set_watches(),
            OperationKind::GetEphemerals => Request::GetEphemerals(self.nullable_path()),
            OperationKind::GetAllChildrenNumber => {
                Request::GetAllChildrenNumber(PathRequest { path: self.path() })
            }
            OperationKind::WhoAmI => Request::WhoAmI,
            OperationKind::Quota => self.quota(),
            OperationKind::Wrong => self.wrong(),
        }
    }

    /// Takes versions and new znodes from what became of a request.
    pub fn learn(&mut self, request: &Request, outcome: &Outcome) {
        let Outcome::Done(zxid, reply) = outcome else { return };
        self.last_zxid = self.last_zxid.max(*zxid);
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others name no path")]
        let asked = match request {
            Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body) => {
                &body.path
            }
            Request::CreateTtl(body) => &body.path,
            Request::GetData(body) | Request::Exists(body) | Request::GetChildren2(body) => {
                &body.path
            }
            Request::SetData(body) => &body.path,
            Request::GetAcl(body) => &body.path,
            Request::SetAcl(body) => &body.path,
            Request::Delete(body) => {
                self.versions.remove(&body.path);
                return;
            }
            _ => return,
        };
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others have neither")]
        let (path, stat) = match reply {
            Reply::Path(path) => (path, None),
            Reply::PathStat(path, stat) => (path, Some(stat)),
            Reply::Stat(stat)
            | Reply::Data(_, stat)
            | Reply::Acl(_, stat)
            | Reply::ChildrenStat(_, stat) => (asked, Some(stat)),
            _ => return,
        };
        if path != asked {
            self.own.push_back(path.clone());
            return;
        }
        let versions = stat.map(|stat| Versions { data: stat.version, acl: stat.aversion });
        self.versions.insert(path.clone(), versions.unwrap_or_default());
    }

    /// One of the paths, or now and then a sequential znode.
    fn path(&mut self) -> String {
        if self.chance.one_in(8) {
            let place = self.chance.place(self.own.len());
            if let Some(path) = self.own.get(place) {
                return path.clone();
            }
        }
        self.chance.pick(&self.paths).cloned().unwrap_or_else(|| LOAD_ROOT.to_owned())
    }

    /// The version that was seen last, mostly.
    fn version(&mut self, path: &str) -> i32 {
        let known = self.versions.get(path).copied().unwrap_or_default().data;
        self.near(known)
    }

    /// A version, or one beside it.
    fn near(&mut self, known: i32) -> i32 {
        match self.chance.between(0..=9) {
            0 => known.wrapping_add(1),
            1 => 0,
            _ => known,
        }
    }

    fn path_version(&mut self) -> PathVersionRequest {
        let path = self.path();
        let version = self.version(&path);
        PathVersionRequest { path, version }
    }

    fn read(&mut self, watch: bool) -> PathWatchRequest {
        PathWatchRequest { path: self.path(), watch }
    }

    fn create(&mut self, mode: CreateMode) -> Request {
        let body = create_request(self.path(), self.data.next(), mode, &mut self.chance);
        match mode {
            CreateMode::Container => Request::CreateContainer(body),
            _ if self.chance.one_in(2) => Request::Create2(body),
            CreateMode::Persistent
            | CreateMode::Ephemeral
            | CreateMode::PersistentSequential
            | CreateMode::EphemeralSequential
            | CreateMode::PersistentWithTtl
            | CreateMode::PersistentSequentialWithTtl => Request::Create(body),
        }
    }

    fn create_ttl(&mut self) -> Request {
        Request::CreateTtl(ttl_request(self.path(), self.data.next(), &mut self.chance))
    }

    fn delete_own(&mut self) -> Request {
        let path = self.own.pop_front();
        let path = path.unwrap_or_else(|| self.path());
        Request::Delete(PathVersionRequest { path, version: -1 })
    }

    fn set_data(&mut self, is_versioned: bool) -> Request {
        let path = self.path();
        let version = if is_versioned { self.version(&path) } else { -1 };
        Request::SetData(SetDataRequest { path, data: self.data.next(), version })
    }

    /// The root stays open: without it, nothing could be created any more.
    fn set_acl(&mut self) -> Request {
        let path = Some(self.path()).filter(|path| path != LOAD_ROOT);
        let path = path.or_else(|| self.paths.last().cloned()).unwrap_or_default();
        let known = self.versions.get(&path).copied().unwrap_or_default().acl;
        let version = if self.chance.one_in(2) { -1 } else { self.near(known) };
        let acl = if path == LOAD_ROOT { acl(0) } else { acl(self.chance.between(0..=ANY_ACL)) };
        Request::SetAcl(SetAclRequest { path, acl: Some(acl), version })
    }

    fn nullable_path(&mut self) -> NullablePathRequest {
        let path = match self.chance.between(0..=9) {
            0 => None,
            1..=3 => Some("/".to_owned()),
            _ => Some(self.path()),
        };
        NullablePathRequest { path }
    }

    fn add_watch(&mut self, mode: AddWatchMode) -> Request {
        Request::AddWatch(AddWatchRequest { path: self.path(), mode })
    }

    fn watches(&mut self) -> WatchesRequest {
        const KINDS: [WatcherType; 5] = [
            WatcherType::Children,
            WatcherType::Data,
            WatcherType::Any,
            WatcherType::Persistent,
            WatcherType::PersistentRecursive,
        ];
        let watcher_type = self.chance.pick(&KINDS).copied().unwrap_or(WatcherType::Any);
        WatchesRequest { path: self.path(), watcher_type }
    }

    fn set_watches(&mut self) -> Request {
        let relative_zxid =
            if self.chance.one_in(2) { self.last_zxid } else { Zxid(self.last_zxid.0 / 2) };
        let request = SetWatchesRequest {
            relative_zxid,
            data_watches: self.some_paths(),
            exist_watches: self.some_paths(),
            child_watches: self.some_paths(),
        };
        if self.chance.one_in(2) {
            return Request::SetWatches(request);
        }
        Request::SetWatches2(SetWatches2Request {
            persistent_watches: self.some_paths(),
            persistent_recursive_watches: self.some_paths(),
            ..SetWatches2Request::from(request)
        })
    }

    fn some_paths(&mut self) -> Vec<String> {
        (0..self.chance.between(0..=3)).map(|_| self.path()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use zoolet_jute::OpCode;

    fn operations(seed: u64) -> Operations {
        let mut chance = Chance::new(seed, 0);
        let paths = draw_paths(20, &mut chance);
        Operations::new(ClientNumber(3), paths, Mix::even(), chance)
    }

    #[test]
    fn a_seed_gives_the_same_operations() {
        let of = |seed| {
            let mut operations = operations(seed);
            (0..500).map(|_| operations.draw()).collect::<Vec<Request>>()
        };
        assert!(of(5) == of(5));
        assert!(of(5) != of(6));
    }

    #[test]
    fn every_operation_of_the_protocol_occurs() {
        let mut operations = operations(1);
        let seen: BTreeSet<OpCode> = (0..5000).map(|_| operations.draw().op_code()).collect();
        // The others are the session's own, another load's, or no client's.
        let absent = [
            OpCode::Notification,
            OpCode::Ping,
            OpCode::Check,
            OpCode::Reconfig,
            OpCode::DeleteContainer,
            OpCode::Sasl,
            OpCode::CreateSession,
            OpCode::CloseSession,
            OpCode::Error,
        ];
        let expected = OpCode::ALL.iter().filter(|op| !absent.contains(op)).copied();
        assert_eq!(seen, expected.collect());
    }

    #[test]
    fn paths_are_as_many_as_asked_for_and_each_has_its_parent() {
        for seed in 0..50 {
            let paths = draw_paths(50, &mut Chance::new(seed, 0));
            let all: BTreeSet<&String> = paths.iter().collect();
            assert_eq!(all.len(), 50);
            for path in &paths[1..] {
                let parent = path.rsplit_once('/').unwrap().0.to_owned();
                assert!(all.contains(&parent), "{path}");
            }
        }
    }
}
