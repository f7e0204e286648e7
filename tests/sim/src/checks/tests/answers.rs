//! What is neither read nor written: credentials, watches, reconfigurations.

use bytes::Bytes;
use zoolet_jute::{
    AddWatchMode, AddWatchRequest, AuthPacket, ErrorCode, ReconfigRequest, Reply, Request,
    SessionId, SetWatchesRequest, Zxid,
};
use zoolet_replica::{Op, Policy, ServerId, Term};

use super::{Options, Story, accepted, all, get_data, lie, refused};
use crate::history::{CallNumber, History, What};
use crate::load::{SUPER_CREDENTIALS, SUPER_DIGEST};
use crate::model::path::CONFIG;

fn auth(scheme: &str) -> Request {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: Some(scheme.to_owned()),
        auth: Some(Bytes::from_static(b"ann:secret")),
    })
}

#[test]
fn an_answer_that_depends_on_no_state_and_is_another_is_found() {
    let mut story = Story::new();
    let client = story.connect(0, 1);
    let add = AddWatchRequest { path: "/a".to_owned(), mode: AddWatchMode::Persistent };
    let set = SetWatchesRequest {
        relative_zxid: Zxid(0),
        data_watches: Vec::new(),
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
    };
    let calls = [
        story.answered(client, auth("digest"), Reply::Empty),
        story.answered(client, Request::AddWatch(add), Reply::AddWatch(0)),
        story.answered(client, Request::SetWatches(set), Reply::Empty),
        story.ping(client),
    ];
    let (wrong, _) = story.call(client, auth("unknown"));
    story.returned(wrong, Zxid(0), Err(ErrorCode::AuthFailed));
    let good = story.end();
    assert_eq!(accepted(&good).answers, 5);
    for call in calls {
        refused(
            &lie(&good, call, |_, result| *result = Err(ErrorCode::BadArguments)),
            "P2 replies",
        );
    }
    refused(&lie(&good, calls[1], |_, result| *result = Ok(Reply::AddWatch(1))), "P2 replies");
    refused(&lie(&good, wrong, |_, result| *result = Ok(Reply::Empty)), "P2 replies");
}

#[test]
fn a_connection_that_is_served_behind_refused_credentials_is_found() {
    let mut story = Story::new();
    let client = story.connect(0, 1);
    let (call, _) = story.call(client, auth("unknown"));
    story.returned(call, Zxid(0), Err(ErrorCode::AuthFailed));
    story.read(client, get_data("/"));
    refused(&story.end(), "P2 replies");
}

/// The ensemble's configuration becomes this one, whose version it returns.
fn configure(story: &mut Story, servers: &str) -> i64 {
    let is_first = story.index == 0;
    let text = servers.replace(',', "\n");
    let op = Op::SetConfig { term: Term(story.term), text, is_first };
    let mut command = story.command(ServerId(1), SessionId::NONE, op);
    command.policy = Policy { reconfig: true, ..command.policy };
    story.apply(ServerId(1), command).zxid.0
}

fn is_done(story: &mut Story, call: CallNumber) {
    let config = story.state.tree.get(CONFIG).unwrap();
    let reply = Reply::Data(config.data.clone(), config.stat());
    story.returned(call, story.state.last_zxid, Ok(reply));
}

const TWO: &str = "server.1=a:1:2:participant;3,server.2=b:1:2:participant;3";
const ONE: &str = "server.1=a:1:2:participant;3";

fn super_user() -> Request {
    let auth = Some(Bytes::from_static(SUPER_CREDENTIALS.as_bytes()));
    Request::Auth(AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth })
}

/// A client takes one of two servers out, over the version that is in force.
fn removal(is_super: bool) -> (Story, CallNumber) {
    let mut story = Story::new();
    let config_id = configure(&mut story, TWO);
    let client = story.connect(0, 1);
    if is_super {
        story.answered(client, super_user(), Reply::Empty);
    }
    let leaving_servers = Some("2".to_owned());
    let (joining_servers, new_members) = (None, None);
    let body = ReconfigRequest { joining_servers, leaving_servers, new_members, config_id };
    let (call, _) = story.call(client, Request::Reconfig(body));
    (story, call)
}

/// What the checks find, where the superuser is known.
fn found(history: &History) -> Vec<&'static str> {
    let super_digest = Some(SUPER_DIGEST.to_owned());
    let report = all(history, &Options { super_digest, ..Options::default() });
    report.violations.iter().map(|violation| violation.promise).collect()
}

const WRONG: [&str; 1] = ["P2 reconfig"];

#[test]
fn a_reconfiguration_that_is_answered_as_done_and_is_not_is_found() {
    let (mut story, call) = removal(true);
    configure(&mut story, ONE);
    is_done(&mut story, call);
    let good = story.end();
    assert_eq!(found(&good), [""; 0]);
    let another = lie(&good, call, |_, result| {
        let Ok(Reply::Data(data, _)) = result else { panic!("{result:?}") };
        *data = Some(Bytes::from_static(b"server.2=b:1:2:participant;3"));
    });
    assert_eq!(found(&another), WRONG);
    let (mut story, call) = removal(true);
    is_done(&mut story, call);
    assert_eq!(found(&story.end()), WRONG, "the server is still there");
    let (mut story, call) = removal(false);
    configure(&mut story, ONE);
    is_done(&mut story, call);
    assert_eq!(found(&story.end()), WRONG, "the client may not do that");
}

#[test]
fn only_a_version_that_was_in_force_permits_a_change_and_only_another_refuses_it() {
    let (mut story, call) = removal(true);
    story.returned(call, story.state.last_zxid, Err(ErrorCode::BadVersion));
    assert_eq!(found(&story.end()), WRONG, "the version was in force");
    let (mut story, call) = removal(true);
    configure(&mut story, ONE);
    story.returned(call, story.state.last_zxid, Err(ErrorCode::BadVersion));
    assert_eq!(found(&story.end()), [""; 0]);
    let (mut story, call) = removal(true);
    configure(&mut story, ONE);
    is_done(&mut story, call);
    let mut history = story.end();
    for record in &mut history.records {
        if let What::Called { request: Request::Reconfig(body), .. } = &mut record.what {
            body.config_id -= 1;
        }
    }
    assert_eq!(found(&history), WRONG, "the version was an old one");
}

#[test]
fn a_refusal_with_a_wrong_reason_is_found() {
    for (code, is_right) in [
        (ErrorCode::NoAuth, false),
        (ErrorCode::ReconfigDisabled, false),
        (ErrorCode::NewConfigNoQuorum, true),
    ] {
        let (mut story, call) = removal(true);
        story.returned(call, story.state.last_zxid, Err(code));
        assert_eq!(found(&story.end()).is_empty(), is_right, "{code}");
    }
    let (mut story, call) = removal(false);
    story.returned(call, story.state.last_zxid, Err(ErrorCode::NoAuth));
    assert_eq!(found(&story.end()), [""; 0]);
}
