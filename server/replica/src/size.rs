//! How many bytes requests take, counted without writing them.

use zoolet_jute::{Acl, CreateRequest, CreateTtlRequest, Id, MultiOp, Request};

/// What a command has besides its op and its identities: session, attachment, xid, switches, and
/// the mark and the count of the identities.
pub(super) const COMMAND: usize = 8 + 8 + 4 + 1 + 1 + 4;

/// The header of a part of a multi.
const MULTI_HEADER: usize = 9;

pub(super) fn of_identities(identities: &[Id]) -> usize {
    identities.iter().map(Id::encoded_bytes).sum()
}

/// The body of a write as jute writes it. What is not a write counts nothing.
#[allow(clippy::wildcard_enum_match_arm, reason = "only writes get into the log")]
pub(super) fn of_request(request: &Request) -> usize {
    match request {
        Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body) => {
            of_create(body)
        }
        Request::CreateTtl(body) => of_create_ttl(body),
        Request::Delete(body) => 8 + body.path.len(),
        Request::SetData(body) => 12 + body.path.len() + length(body.data.as_deref()),
        Request::SetAcl(body) => 8 + body.path.len() + of_acl(body.acl.as_deref()),
        Request::Multi(parts) => {
            let part = |op: &MultiOp| MULTI_HEADER + of_part(op);
            parts.0.iter().map(part).sum::<usize>() + MULTI_HEADER
        }
        Request::Reconfig(body) => {
            let text = |text: &Option<String>| 4 + text.as_ref().map_or(0, String::len);
            8 + text(&body.joining_servers) + text(&body.leaving_servers) + text(&body.new_members)
        }
        _ => 0,
    }
}

fn of_part(op: &MultiOp) -> usize {
    match op {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            of_create(body)
        }
        MultiOp::CreateTtl(body) => of_create_ttl(body),
        MultiOp::Delete(body) | MultiOp::Check(body) => 8 + body.path.len(),
        MultiOp::SetData(body) => 12 + body.path.len() + length(body.data.as_deref()),
    }
}

fn of_create(body: &CreateRequest) -> usize {
    12 + body.path.len() + length(body.data.as_deref()) + of_acl(body.acl.as_deref())
}

fn of_create_ttl(body: &CreateTtlRequest) -> usize {
    20 + body.path.len() + length(body.data.as_deref()) + of_acl(body.acl.as_deref())
}

fn of_acl(acl: Option<&[Acl]>) -> usize {
    4 + acl.unwrap_or_default().iter().map(|entry| 4 + entry.id.encoded_bytes()).sum::<usize>()
}

fn length(data: Option<&[u8]>) -> usize {
    data.map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use crate::Term;
    use std::sync::Arc;

    use bytes::Bytes;
    use zoolet_jute::{
        Parts, PathVersionRequest, ReconfigRequest, SessionId, SetAclRequest, SetDataRequest, Xid,
    };

    use super::*;
    use crate::{Batch, Command, FeatureLevel, Op, Origin, Policy, ProposalNumber};

    fn requests() -> Vec<Request> {
        let acl = vec![
            Acl { perms: 31, id: Id::new("world", "anyone") },
            Acl { perms: 1, id: Id { scheme: Some("digest".to_owned()), id: None } },
        ];
        let path = "/a/path".to_owned();
        let data = Some(Bytes::from_static(b"data"));
        let create = |acl: &[Acl], data: &Option<Bytes>| CreateRequest {
            path: path.clone(),
            data: data.clone(),
            acl: Some(acl.to_vec()),
            flags: 0,
        };
        let ttl = CreateTtlRequest {
            path: path.clone(),
            data: data.clone(),
            acl: Some(acl.clone()),
            flags: 5,
            ttl_ms: 7,
        };
        let delete = PathVersionRequest { path: path.clone(), version: 1 };
        let set = SetDataRequest { path: path.clone(), data: data.clone(), version: 1 };
        let parts = vec![
            MultiOp::Create(create(&acl, &data)),
            MultiOp::CreateTtl(ttl.clone()),
            MultiOp::SetData(set.clone()),
            MultiOp::Check(delete.clone()),
        ];
        let reconfig = ReconfigRequest {
            joining_servers: Some("server.4=h:1:2".to_owned()),
            leaving_servers: None,
            new_members: Some(String::new()),
            config_id: -1,
        };
        vec![
            Request::Create(create(&acl, &data)),
            Request::Create2(create(&[], &None)),
            Request::CreateTtl(ttl),
            Request::Delete(delete),
            Request::SetData(set),
            Request::SetAcl(SetAclRequest { path, acl: Some(acl), version: 0 }),
            Request::Multi(Parts(parts)),
            Request::Multi(Parts(Vec::new())),
            Request::Reconfig(reconfig),
        ]
    }

    #[test]
    fn what_is_counted_is_what_is_written() {
        let other = [
            Op::CreateSession { timeout_ms: 1 },
            Op::CloseSession,
            Op::ExpireSession { generation: 3, term: Term(4) },
            Op::DeleteContainer { path: "/c".to_owned() },
            Op::SetConfig { term: Term(4), text: "server.1=h".to_owned(), is_first: false },
            Op::SetLevel { level: FeatureLevel(2), term: Term(4) },
        ];
        let identities: Arc<[Id]> = Arc::from([Id::new("ip", "::1"), Id::new("digest", "a:b")]);
        let writes = requests().into_iter().map(Op::Write);
        let level_2 = requests().into_iter().map(Op::WriteX509);
        let level_3 = requests().into_iter().map(Op::WriteSasl);
        for op in writes.chain(level_2).chain(level_3).chain(other) {
            let command = Command {
                number: ProposalNumber(1),
                session: SessionId(1),
                attachment: ProposalNumber::NONE,
                cxid: Xid(1),
                policy: Policy::default(),
                identities: Arc::clone(&identities),
                op: op.clone(),
            };
            let batch = |commands| Batch { origin: Origin::default(), now_ms: 0, commands };
            let empty = batch(Vec::new()).encode().len();
            let counted = command.encoded_bytes();
            let written = batch(vec![command]).encode();
            assert_eq!(counted, written.len() - empty, "{op:?}");
        }
    }
}
