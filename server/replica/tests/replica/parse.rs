//! The words of the scripts, read.

use bytes::Bytes;
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CreateRequest, ErrorCode, Id, MultiOp,
    NullablePathRequest, Parts, PathRequest, PathVersionRequest, PathWatchRequest, ReconfigRequest,
    Request, SetAclRequest, SetDataRequest, SetWatches2Request, SetWatchesRequest, WatcherType,
    WatchesRequest, Zxid,
};
use zoolet_replica::{BadRequest, Role};

pub(crate) fn outcome(word: &str) -> Result<(), ErrorCode> {
    match word {
        "done" => Ok(()),
        "noquorum" => Err(ErrorCode::NewConfigNoQuorum),
        word => panic!("outcome {word}"),
    }
}

pub(crate) fn parse_request(words: &[&str]) -> Result<Request, BadRequest> {
    let path_watch = |path: &str, watch: bool| PathWatchRequest { path: path.to_owned(), watch };
    let (words, watch) = match words.split_last() {
        Some((&"watch", rest)) => (rest, true),
        _ => (words, false),
    };
    Ok(match words {
        ["bad", "body"] => return Err(BadRequest::Body),
        ["bad", "op"] => return Err(BadRequest::Op),
        ["throttled"] => return Err(BadRequest::Throttled),
        ["create", path, rest @ ..] => Request::Create(create(path, rest)),
        ["container", path] => Request::CreateContainer(create(path, &["container"])),
        ["delete", path] => Request::Delete(version(path)),
        ["set", path, data] => Request::SetData(set(path, data)),
        ["setacl", path, acl @ ..] => Request::SetAcl(SetAclRequest {
            path: (*path).to_owned(),
            acl: Some(parse_acl(acl)),
            version: -1,
        }),
        ["multi", ops @ ..] => Request::Multi(Parts(ops.iter().map(|op| part(op)).collect())),
        ["exists", path] => Request::Exists(path_watch(path, watch)),
        ["get", path] => Request::GetData(path_watch(path, watch)),
        ["ls", path] => Request::GetChildren(path_watch(path, watch)),
        ["ls2", path] => Request::GetChildren2(path_watch(path, watch)),
        ["count", path] => Request::GetAllChildrenNumber(PathRequest { path: (*path).to_owned() }),
        ["sync", path] => Request::Sync(NullablePathRequest { path: Some((*path).to_owned()) }),
        ["ephemerals"] => Request::GetEphemerals(NullablePathRequest { path: None }),
        ["addwatch", path, mode] => Request::AddWatch(AddWatchRequest {
            path: (*path).to_owned(),
            mode: match *mode {
                "persistent" => AddWatchMode::Persistent,
                "recursive" => AddWatchMode::PersistentRecursive,
                mode => panic!("mode {mode}"),
            },
        }),
        ["check", path, kind] => Request::CheckWatches(watches(path, kind)),
        ["remove", path, kind] => Request::RemoveWatches(watches(path, kind)),
        ["setwatches", since, lists @ ..] => set_watches(since, lists),
        ["auth", scheme, auth] => Request::Auth(AuthPacket {
            auth_type: 0,
            scheme: Some((*scheme).to_owned()),
            auth: Some(Bytes::copy_from_slice(auth.as_bytes())),
        }),
        ["sasl"] => Request::Sasl(Some(Bytes::new())),
        ["whoami"] => Request::WhoAmI,
        ["reconfig", joining] => Request::Reconfig(ReconfigRequest {
            joining_servers: Some((*joining).to_owned()),
            leaving_servers: None,
            new_members: None,
            config_id: -1,
        }),
        ["ping"] => Request::Ping,
        ["close"] => Request::CloseSession,
        words => panic!("request {words:?}"),
    })
}

pub(crate) fn create(path: &str, words: &[&str]) -> CreateRequest {
    let mut request = CreateRequest {
        path: path.to_owned(),
        data: Some(Bytes::new()),
        acl: Some(Acl::open()),
        flags: 0,
    };
    for word in words {
        match *word {
            "ephemeral" => request.flags = 1,
            "sequential" => request.flags = 2,
            "container" => request.flags = 4,
            acl => request.acl = Some(parse_acl(&[acl])),
        }
    }
    request
}

pub(crate) fn version(path: &str) -> PathVersionRequest {
    PathVersionRequest { path: path.to_owned(), version: -1 }
}

pub(crate) fn set(path: &str, data: &str) -> SetDataRequest {
    SetDataRequest {
        path: path.to_owned(),
        data: Some(Bytes::copy_from_slice(data.as_bytes())),
        version: -1,
    }
}

pub(crate) fn part(text: &str) -> MultiOp {
    let (op, path) = text.split_once(':').unwrap();
    match op {
        "create" => MultiOp::Create(create(path, &[])),
        "delete" => MultiOp::Delete(version(path)),
        "set" => MultiOp::SetData(set(path, "x")),
        "check" => MultiOp::Check(version(path)),
        op => panic!("part {op}"),
    }
}

/// `PERMS=SCHEME:ID`, the permissions as a number.
pub(crate) fn parse_acl(words: &[&str]) -> Vec<Acl> {
    let entry = |word: &&str| {
        let (perms, id) = word.split_once('=').unwrap();
        let (scheme, id) = id.split_once(':').unwrap();
        Acl { perms: perms.parse().unwrap(), id: Id::new(scheme, id) }
    };
    words.iter().map(entry).collect()
}

pub(crate) fn watches(path: &str, kind: &str) -> WatchesRequest {
    let watcher_type = match kind {
        "children" => WatcherType::Children,
        "data" => WatcherType::Data,
        "any" => WatcherType::Any,
        "persistent" => WatcherType::Persistent,
        "recursive" => WatcherType::PersistentRecursive,
        kind => panic!("kind {kind}"),
    };
    WatchesRequest { path: path.to_owned(), watcher_type }
}

/// `d=` data, `e=` exist, `c=` child, `p=` persistent, `r=` recursive. Without the last two it is
/// the older operation.
pub(crate) fn set_watches(since: &str, lists: &[&str]) -> Request {
    let of = |key: &str| -> Vec<String> {
        lists.iter().filter_map(|list| list.strip_prefix(key)).map(str::to_owned).collect()
    };
    let relative_zxid = Zxid::new(1, since.parse().unwrap());
    let old = SetWatchesRequest {
        relative_zxid,
        data_watches: of("d="),
        exist_watches: of("e="),
        child_watches: of("c="),
    };
    let (persistent, recursive) = (of("p="), of("r="));
    if persistent.is_empty() && recursive.is_empty() {
        return Request::SetWatches(old);
    }
    Request::SetWatches2(SetWatches2Request {
        persistent_watches: persistent,
        persistent_recursive_watches: recursive,
        ..old.into()
    })
}

pub(crate) fn parse_role(role: &str) -> Role {
    match role {
        "leader" => Role::Leader,
        "follower" => Role::Follower,
        "observer" => Role::Observer,
        "looking" => Role::Looking,
        role => panic!("role {role}"),
    }
}

/// Servers are counted from 1.
pub(crate) fn index(server: &str) -> usize {
    server.parse::<usize>().unwrap() - 1
}
