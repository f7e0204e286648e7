//! What servers reply to tokens, and to clients that have not logged in: byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet_jute::{
    AuthPacket, ConnectResponse, Decode, Encode, PathWatchRequest, ReplyHeader, Request, Xid, frame,
};
use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::raw::new_session;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools;

use super::with_users;

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const FRAME_BYTES_MAX: usize = 1 << 20;

/// A connection that shows all of a reply.
struct Wire {
    stream: TcpStream,
    incoming: BytesMut,
}

impl Wire {
    fn open(server: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&server, ANSWER_LIMIT).unwrap();
        stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
        let mut wire = Self { stream, incoming: BytesMut::new() };
        wire.send(|out| new_session(10_000).encode(out));
        let mut answer = wire.frame().unwrap();
        ConnectResponse::decode(&mut answer, "connect").unwrap();
        wire
    }

    fn send(&mut self, encode: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        frame::put(&mut out, encode);
        self.stream.write_all(&out).unwrap();
    }

    /// The next frame; `None` at the end of the stream.
    fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(payload) = frame::split(&mut self.incoming, FRAME_BYTES_MAX).unwrap() {
                return Some(payload);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk).unwrap() {
                0 => return None,
                bytes => self.incoming.extend_from_slice(&chunk[..bytes]),
            }
        }
    }

    /// Sends a request, and returns what comes back as words.
    fn ask(&mut self, request: &Request) -> String {
        let xid = if let Request::Ping = request {
            Xid::PING
        } else if let Request::Auth(_) = request {
            Xid::AUTH
        } else {
            Xid(7)
        };
        self.send(|out| request.encode_with(xid, out));
        let Some(mut payload) = self.frame() else { return "closed".to_owned() };
        let header = ReplyHeader::decode(&mut payload, "header").unwrap();
        assert_eq!(header.xid, xid);
        if let Some(code) = header.err {
            // Java's client reads a token behind the error of a login.
            let body: &[u8] = if let Request::Sasl(_) = request { &[0xff; 4] } else { &[] };
            assert_eq!(&payload[..], body);
            let end = if self.frame().is_none() { "closed" } else { "open" };
            return format!("{} {end}", code as i32);
        }
        if let Request::Sasl(_) = request {
            return token(Option::<Bytes>::decode(&mut payload, "token").unwrap());
        }
        "ok".to_owned()
    }
}

/// A token without its nonce.
fn token(token: Option<Bytes>) -> String {
    let Some(token) = token else { return "null".to_owned() };
    let text = String::from_utf8(token.to_vec()).unwrap();
    let part = |part: &str| {
        if part.starts_with("nonce=\"") { "nonce".to_owned() } else { part.to_owned() }
    };
    text.split(',').map(part).collect::<Vec<_>>().join(",")
}

fn sasl(token: &'static [u8]) -> Request {
    Request::Sasl(Some(Bytes::from_static(token)))
}

fn exists() -> Request {
    Request::Exists(PathWatchRequest { path: "/".into(), watch: false })
}

fn digest() -> Request {
    let auth = Bytes::from_static(b"alice:secret");
    Request::Auth(AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth: Some(auth) })
}

const CHALLENGE: &str = "realm=\"zk-sasl-md5\",nonce,charset=utf-8,algorithm=md5-sess";
const AUTH_FAILED: &str = "-115 closed";
const REQUIRES_AUTH: &str = "-124 closed";

/// A conversation: what is asked for, and the answer.
type Conversation = Vec<(Request, &'static str)>;

/// Each conversation has a connection of its own, to servers of both kinds with these properties.
fn converse(properties: &[(&str, &str)], conversations: &[Conversation]) {
    if !tools::require_foreign("SASL beside Apache", &["java", "mvn"]).unwrap() {
        return;
    }
    for servers in [Servers::zoolet(), Servers::apache()] {
        let with_property =
            |servers: ServersBuilder, (key, value): &(&str, &str)| servers.property(key, value);
        let servers = properties.iter().fold(with_users(servers), with_property).start().unwrap();
        for conversation in conversations {
            let mut wire = Wire::open(servers.client_address(0).unwrap());
            for (at, (request, expected)) in conversation.iter().enumerate() {
                let answered = wire.ask(request);
                assert_eq!(&answered, expected, "{:?}: {at} of {conversation:?}", servers.kind());
            }
        }
    }
}

#[test]
fn a_login_that_fails_ends_the_connection() {
    converse(
        &[],
        &[
            vec![(exists(), "ok"), (sasl(b""), CHALLENGE), (exists(), "ok")],
            vec![(sasl(b""), CHALLENGE), (sasl(b"nonsense"), AUTH_FAILED)],
            vec![(sasl(b""), CHALLENGE), (sasl(b""), AUTH_FAILED)],
            vec![(sasl(b"nonsense"), CHALLENGE), (sasl(b"username=\"bob\""), AUTH_FAILED)],
        ],
    );
}

#[test]
fn a_login_that_fails_is_forgiven_where_that_is_allowed() {
    let failed = vec![
        (sasl(b""), CHALLENGE),
        (sasl(b"nonsense"), "null"),
        (exists(), "ok"),
        (sasl(b""), "null"),
        (exists(), "ok"),
    ];
    converse(&[("allowSaslFailedClients", "true")], &[failed]);
}

#[test]
fn a_login_is_required_before_anything_else() {
    let session = ("sessionRequireClientSASLAuth", "true");
    let conversations = [
        vec![(exists(), REQUIRES_AUTH)],
        vec![(Request::Ping, REQUIRES_AUTH)],
        vec![(Request::CloseSession, REQUIRES_AUTH)],
        // An identity of another scheme does not count.
        vec![(digest(), "ok"), (exists(), REQUIRES_AUTH)],
        vec![(sasl(b""), CHALLENGE), (exists(), REQUIRES_AUTH)],
        vec![(sasl(b""), CHALLENGE), (sasl(b"nonsense"), REQUIRES_AUTH)],
    ];
    converse(&[session], &conversations);
    // It counts before these.
    let others = [
        session,
        ("allowSaslFailedClients", "true"),
        ("enforce.auth.enabled", "true"),
        ("enforce.auth.schemes", "digest"),
    ];
    converse(&others, &conversations);
}

#[test]
fn any_of_the_schemes_is_enough() {
    let enforced = ("enforce.auth.enabled", "true");
    converse(
        &[enforced, ("enforce.auth.schemes", "sasl, digest")],
        &[
            vec![(exists(), REQUIRES_AUTH)],
            vec![(digest(), "ok"), (exists(), "ok")],
            vec![(digest(), "ok"), (sasl(b""), CHALLENGE), (sasl(b"nonsense"), REQUIRES_AUTH)],
        ],
    );
    converse(
        &[enforced, ("enforce.auth.schemes", "digest")],
        &[
            vec![(sasl(b""), CHALLENGE), (exists(), REQUIRES_AUTH)],
            vec![(digest(), "ok"), (sasl(b""), CHALLENGE), (sasl(b"nonsense"), AUTH_FAILED)],
        ],
    );
    // Every client has an address.
    converse(&[enforced, ("enforce.auth.schemes", "ip")], &[vec![(exists(), "ok")]]);
}
