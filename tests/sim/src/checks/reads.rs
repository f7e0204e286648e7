//! Every read returns what the model has at the zxid in its reply's header.

use zoolet_jute::{ErrorCode, Reply, Request};

use super::{Answer, Call, Counts, Run, Violation};
use crate::model::{Reader, in_order};

/// Compares all reads with the model.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut reads: Vec<(&Call<'_>, Answer<'_>)> = Vec::new();
    for call in run.calls.values() {
        let Some(answer) = call.answer else { continue };
        if is_read(call.request) {
            reads.push((call, answer));
        } else if *call.request == Request::WhoAmI {
            counts.reads += 1;
            let expected = Ok(in_order(Reply::WhoAmI(call.who.shown())));
            let has_address = call.who.has_no_other;
            let is = answer.result.clone();
            let is = if has_address { is.map(in_order) } else { without_address(is) };
            if is != expected {
                let what = format!(
                    "{} was answered {:?}, where the connection has {expected:?}{}",
                    run.describe(call),
                    answer.result,
                    if has_address { "" } else { " beside its address" }
                );
                found.push(Violation { promise: "reads", at: answer.at, what });
            }
        }
    }
    reads.sort_by_key(|(call, answer)| (answer.zxid, call.number));
    let mut replay = run.model.replay();
    for (call, answer) in reads {
        let session = run.links.get(&call.connection).and_then(|link| link.granted);
        let Some(granted) = session else {
            counts.reads_unchecked += 1;
            continue;
        };
        let reader = Reader { session: granted.session, who: &call.who };
        let state = replay.to(answer.zxid);
        let expected = state.tree.read(call.request, reader);
        let is_limit = matches!(
            answer.result,
            Err(ErrorCode::ThrottledOp | ErrorCode::SessionClosedRequireSaslAuth)
        );
        // A multiRead of much data is refused as a whole.
        let is_too_long = matches!(call.request, Request::MultiRead(_))
            && *answer.result == Err(ErrorCode::MarshallingError);
        let Some(expected) = expected.filter(|_| !is_limit && !is_too_long) else {
            counts.reads_unchecked += 1;
            continue;
        };
        counts.reads += 1;
        let (is, expected) = (answer.result.clone().map(in_order), expected.map(in_order));
        if is != expected {
            let what = format!(
                "{} was answered {is:?} with zxid {}, where the log makes it {expected:?}",
                run.describe(call),
                answer.zxid
            );
            found.push(Violation { promise: "reads", at: answer.at, what });
        }
    }
    found
}

/// What `whoAmI` shows beside the one address, which is not known.
fn without_address(result: Result<Reply, ErrorCode>) -> Result<Reply, ErrorCode> {
    let Ok(Reply::WhoAmI(mut all)) = result else { return result };
    if let Some(at) = all.iter().position(|one| one.auth_scheme == "ip") {
        all.remove(at);
    }
    Ok(in_order(Reply::WhoAmI(all)))
}

fn is_read(request: &Request) -> bool {
    matches!(
        request,
        Request::Exists(_)
            | Request::GetData(_)
            | Request::GetAcl(_)
            | Request::GetChildren(_)
            | Request::GetChildren2(_)
            | Request::MultiRead(_)
            | Request::GetEphemerals(_)
            | Request::GetAllChildrenNumber(_)
    )
}
