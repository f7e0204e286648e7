//! `stat`, `cons` and the resets: the connections of this server.

use super::super::context::PortContext;
use super::super::registry::RegisteredConnection;
use super::list::List;
use super::{VERSION, banner, server_lines};
use crate::metrics::{LastOp, Traffic};
use zoolet_jute::OpCode;

pub(in super::super) async fn stat(context: &PortContext) -> String {
    let mut list = List::new(&context.host);
    list.put(format_args!("Zookeeper version: {VERSION}\n{}Clients:\n", banner(context)));
    for entry in context.registry.entries() {
        list.put(format_args!("{})\n", brief(&entry, &entry.outbox.traffic())));
        list.pause().await;
    }
    list.put(format_args!("\n{}", server_lines(context, &context.host.report())));
    list.finish()
}

pub(in super::super) async fn cons(context: &PortContext) -> String {
    let mut list = List::new(&context.host);
    for entry in context.registry.entries() {
        put_connection(&mut list, &entry);
        list.pause().await;
    }
    list.put(format_args!("\n"));
    list.finish()
}

fn put_connection(list: &mut List<'_>, entry: &RegisteredConnection) {
    let traffic = entry.outbox.traffic();
    list.put(format_args!("{}", brief(entry, &traffic)));
    if let Some(accepted) = entry.outbox.accepted() {
        let last_op = last_operation(traffic.last_op);
        list.put(format_args!(",sid={},lop={last_op}", accepted.session));
        list.put(format_args!(",est={},to={}", entry.since_ms, accepted.timeout_ms));
        if let Some(cxid) = traffic.last_cxid.filter(|cxid| cxid.0 >= 0) {
            list.put(format_args!(",lcxid={:#x}", cxid.0));
        }
        list.put(format_args!(
            ",lzxid={},lresp={},llat={},minlat={},avglat={},maxlat={}",
            traffic.last_zxid,
            traffic.last_response_ms,
            traffic.last_latency_ms,
            traffic.latency.min_ms(),
            whole(traffic.latency.average_ms()),
            traffic.latency.max_ms(),
        ));
    }
    list.put(format_args!(")\n"));
}

pub(in super::super) fn reset_connections(context: &PortContext) -> String {
    for entry in context.registry.entries() {
        entry.outbox.count(Traffic::reset);
    }
    "Connection stats reset.\n".to_owned()
}

pub(in super::super) fn reset_server(context: &PortContext) -> String {
    context.host.reset_figures();
    context.registry.reset();
    if let Some(ensemble) = &context.options.server_info.ensemble {
        ensemble.reset();
    }
    "Server stats reset.\n".to_owned()
}

/// What `stat` shows of a connection, and `cons` begins with. The number in brackets is Java's
/// set of selector events: 1 for a connection that is read, 0 for one that only asks a word.
fn brief(entry: &RegisteredConnection, traffic: &Traffic) -> String {
    let interest = u8::from(entry.outbox.accepted().is_some());
    let received = traffic.received.max(1);
    format!(
        " /{}[{interest}](queued={},recved={received},sent={}",
        entry.peer, traffic.queued, traffic.sent
    )
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "milliseconds are few")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// The last operation, in Apache's abbreviation.
pub(in super::super) fn last_operation(last: Option<LastOp>) -> &'static str {
    match last {
        None => "NA",
        Some(LastOp::Session) => "SESS",
        Some(LastOp::Request(op)) => match op {
            OpCode::Ping => "PING",
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                "CREA"
            }
            OpCode::Delete | OpCode::DeleteContainer => "DELE",
            OpCode::Exists => "EXIS",
            OpCode::GetData => "GETD",
            OpCode::SetData => "SETD",
            OpCode::GetAcl => "GETA",
            OpCode::SetAcl => "SETA",
            OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
            OpCode::GetAllChildrenNumber => "GETACN",
            OpCode::Sync => "SYNC",
            OpCode::Multi => "MULT",
            OpCode::MultiRead => "MLTR",
            OpCode::Check => "CHEC",
            OpCode::Reconfig => "RECO",
            OpCode::SetWatches => "SETW",
            OpCode::SetWatches2 => "STW2",
            OpCode::AddWatch => "ADDW",
            OpCode::CheckWatches => "CHKW",
            OpCode::RemoveWatches => "REMW",
            OpCode::GetEphemerals => "GETE",
            OpCode::WhoAmI => "HOMI",
            OpCode::CloseSession => "CLOS",
            OpCode::CreateSession => "SESS",
            OpCode::Notification | OpCode::Auth | OpCode::Sasl | OpCode::Error => "NA",
        },
    }
}
