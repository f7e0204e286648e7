//! P2: the requests of a connection are answered in their order, and each write as the log has it.

use zoolet_jute::{CreateRequest, Encode as _, ErrorCode, Reply, Request};

use super::{Answer, Arrival, Call, Counts, Run, Violation, is_write};
use crate::model::Transaction;

const P2: &str = "P2 replies";

/// Looks at the order of all replies, and at the results of writes.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    order(run, &mut found);
    for call in run.calls.values() {
        let is_logged = is_write(call.request) || !call.transactions.is_empty();
        if is_logged && let Some(answer) = call.answer {
            result(run, call, answer, counts, &mut found);
        }
    }
    found
}

/// Replies come in the order of the calls. Pings alone may be answered out of turn, once a leader has
/// counted them; they come in their own order.
fn order(run: &Run<'_>, found: &mut Vec<Violation>) {
    for link in run.links.values() {
        let is_ping = |call: &&Call<'_>| matches!(call.request, Request::Ping);
        let calls = || link.calls.iter().filter_map(|number| run.calls.get(number));
        let mut waiting = calls().filter(|call| !is_ping(call));
        let mut pings = calls().filter(is_ping);
        for arrival in &link.arrivals {
            let Arrival::Reply(number) = arrival else { continue };
            let Some(call) = run.calls.get(number) else { continue };
            let next = if is_ping(&call) { pings.next() } else { waiting.next() };
            if let (Some(next), Some(answer)) = (next, call.answer)
                && next.number != call.number
            {
                let what = format!(
                    "the reply to {} came while this one had none: {}",
                    run.describe(call),
                    run.describe(next)
                );
                found.push(Violation { promise: P2, at: answer.at, what });
                break;
            }
        }
    }
}

fn result(
    run: &Run<'_>,
    call: &Call<'_>,
    answer: Answer<'_>,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let mut violated = |what: String| {
        found.push(Violation { promise: P2, at: answer.at, what });
    };
    let link = run.links.get(&call.connection);
    if link.and_then(|link| run.attach(link)).is_none() {
        counts.writes_unchecked += 1;
        return;
    }
    let Some(one) = run.transactions_of(call).next() else {
        match answer.result {
            // What was acknowledged and is not in the log is a matter of durability.
            Ok(_) => {}
            Err(code) if may_be_refused(run, call.request, *code) => counts.writes_refused += 1,
            Err(code) => violated(format!(
                "the log has no command of {}, which was answered {code} with zxid {}",
                run.describe(call),
                answer.zxid
            )),
        }
        return;
    };
    counts.writes += 1;
    if answer.zxid != one.zxid {
        violated(format!(
            "the reply to {} has zxid {}, and the log has the command at {}",
            run.describe(call),
            answer.zxid,
            one.zxid
        ));
    } else if !agrees(call, answer.result, one) {
        let (is, expected) = (answer.result, &one.outcome.result);
        violated(format!(
            "{} was answered {is:?}, where the log makes it {expected:?} at {}",
            run.describe(call),
            one.zxid
        ));
    }
}

fn agrees(call: &Call<'_>, is: &Result<Reply, ErrorCode>, one: &Transaction) -> bool {
    match (&one.outcome.result, call.request) {
        (Ok(_), Request::CloseSession) => *is == Ok(Reply::Empty),
        (expected, _) => is == expected,
    }
}

/// Whether a server may refuse a write by itself, without a command in the log, and with this code.
pub(super) fn may_be_refused(run: &Run<'_>, request: &Request, code: ErrorCode) -> bool {
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are the log's to give")]
    match code {
        ErrorCode::MarshallingError => !is_decodable(request),
        ErrorCode::BadArguments => bytes(request) + 4096 > run.options.command_bytes_max,
        ErrorCode::InvalidAcl => names_new_scheme(request),
        ErrorCode::ThrottledOp => run.options.may_throttle,
        // A server that only reads, and a login that is demanded.
        ErrorCode::NotReadOnly | ErrorCode::SessionClosedRequireSaslAuth => true,
        _ => false,
    }
}

/// Whether it may be refused with any code.
pub(super) fn may_vanish(run: &Run<'_>, request: &Request) -> bool {
    [
        ErrorCode::MarshallingError,
        ErrorCode::BadArguments,
        ErrorCode::InvalidAcl,
        ErrorCode::ThrottledOp,
    ]
    .into_iter()
    .any(|code| may_be_refused(run, request, code))
}

fn encoded(request: &Request) -> bytes::Bytes {
    let mut out = bytes::BytesMut::new();
    request.encode(&mut out);
    out.freeze()
}

fn bytes(request: &Request) -> usize {
    encoded(request).len()
}

fn is_decodable(request: &Request) -> bool {
    let mut body = encoded(request);
    Request::decode(request.op_code(), &mut body).is_ok()
}

/// Servers that have not agreed on a feature level refuse ACLs of newer schemes.
fn names_new_scheme(request: &Request) -> bool {
    let mut text = String::new();
    if let Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body) = request
    {
        let CreateRequest { acl, .. } = body;
        text = format!("{acl:?}");
    } else if !matches!(request, Request::Delete(_) | Request::SetData(_)) {
        text = format!("{request:?}");
    }
    text.contains("\"sasl\"") || text.contains("\"x509\"")
}
