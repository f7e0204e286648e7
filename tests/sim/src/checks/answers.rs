//! P2: what neither reads nor writes has one right answer, too: credentials, watches, pings.

use zoolet_jute::{AuthPacket, ErrorCode, Reply, Request};

use super::{Arrival, Counts, Link, Run, Violation};

const P2: &str = "P2 replies";

/// Looks at all answers, of those that follow from the request alone, and at what comes behind refused
/// credentials.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in run.calls.values() {
        let Some(answer) = call.answer else { continue };
        let Some(expected) = expected(call.request) else { continue };
        let is_limit = *answer.result == Err(ErrorCode::ThrottledOp) && run.options.may_throttle;
        counts.answers += 1;
        if *answer.result != expected && !is_limit {
            let (is, call) = (answer.result, run.describe(call));
            let what = format!("{call} was answered {is:?}, where it must be {expected:?}");
            found.push(Violation { promise: P2, at: answer.at, what });
        }
    }
    for link in run.links.values() {
        found.extend(served_when_refused(run, link));
    }
    found
}

/// The answer to a request that reads no state (protocol §2.7, §2.12, §2.13); `None` if it does, or
/// writes.
fn expected(request: &Request) -> Option<Result<Reply, ErrorCode>> {
    match request {
        Request::Ping | Request::SetWatches(_) | Request::SetWatches2(_) => Some(Ok(Reply::Empty)),
        Request::AddWatch(_) => Some(Ok(Reply::AddWatch(0))),
        Request::Sync(body) => Some(Ok(Reply::Sync(body.path.clone()))),
        Request::Auth(packet) => {
            Some(if is_proof(packet) { Ok(Reply::Empty) } else { Err(ErrorCode::AuthFailed) })
        }
        Request::Create(_)
        | Request::Create2(_)
        | Request::CreateContainer(_)
        | Request::CreateTtl(_)
        | Request::Delete(_)
        | Request::Exists(_)
        | Request::GetData(_)
        | Request::SetData(_)
        | Request::GetAcl(_)
        | Request::SetAcl(_)
        | Request::GetChildren(_)
        | Request::GetChildren2(_)
        | Request::Multi(_)
        | Request::MultiRead(_)
        | Request::Reconfig(_)
        | Request::CheckWatches(_)
        | Request::RemoveWatches(_)
        | Request::GetEphemerals(_)
        | Request::GetAllChildrenNumber(_)
        | Request::WhoAmI
        | Request::Sasl(_)
        | Request::CloseSession => None,
    }
}

/// Whether a server believes it: any digest is an identity, and each connection has its address.
fn is_proof(packet: &AuthPacket) -> bool {
    match packet.scheme.as_deref() {
        Some("digest") => packet.auth.is_some(),
        scheme => scheme == Some("ip"),
    }
}

/// A connection whose credentials were refused is closed: nothing is answered behind that.
fn served_when_refused(run: &Run<'_>, link: &Link<'_>) -> Option<Violation> {
    let replies = link.arrivals.iter().filter_map(|arrival| match arrival {
        Arrival::Reply(number) => run.calls.get(number),
        Arrival::Event(_) => None,
    });
    let mut behind = replies.skip_while(|call| {
        !call.answer.is_some_and(|answer| *answer.result == Err(ErrorCode::AuthFailed))
    });
    let (refused, next) = (behind.next()?, behind.next()?);
    let (next, at, refused) = (run.describe(next), next.answer?.at, run.describe(refused));
    let what = format!("{next} was answered behind {refused}, which was refused");
    Some(Violation { promise: P2, at, what })
}
