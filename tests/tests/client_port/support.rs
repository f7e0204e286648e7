//! What the tests share: raw bytes, and a session that must not notice anything.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zoolet_jute::{
    Acl, CreateRequest, Encode, PathWatchRequest, Request, SetDataRequest, Xid, frame,
};
use zoolet_tests::four_letter;
use zoolet_tests::raw::{self, Incoming, RawConnection};
use zoolet_tests::servers::Servers;

/// How long a server may take to close a connection.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(10);
/// How long an answer may take beside a flood that keeps every core of a busy machine from the server.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// `jute.maxbuffer`, the longest frame of a client.
pub(crate) const FRAME_BYTES_MAX: usize = 0xf_ffff;
/// By how much the memory of a server may grow under hostile clients that send little.
pub(crate) const GROWTH_KIB_MAX: u64 = 64 * 1024;

/// A session that must not notice anything.
pub(crate) struct Witness {
    pub(crate) connection: RawConnection,
    server: SocketAddr,
}

impl Witness {
    pub(crate) fn open(server: SocketAddr) -> Self {
        let mut connection = RawConnection::open(server, 10_000).unwrap();
        done(&call(&mut connection, &create("/witness", b"", 1)));
        let look = PathWatchRequest { path: "/witness-fires".into(), watch: true };
        assert!(matches!(call(&mut connection, &Request::Exists(look)), Incoming::Reply(..)));
        Self { connection, server }
    }

    /// It is answered at once, and its ephemeral znode is there.
    pub(crate) fn lives(&mut self) {
        let start = Instant::now();
        done(&call(&mut self.connection, &exists("/witness")));
        assert!(start.elapsed() < ANSWER_MAX, "{:?}", start.elapsed());
    }

    /// Its watch is there as well.
    pub(crate) fn ends_well(mut self) {
        self.lives();
        let mut other = RawConnection::open(self.server, 10_000).unwrap();
        done(&call(&mut other, &create("/witness-fires", b"", 0)));
        assert!(matches!(self.connection.receive().unwrap(), Incoming::Event(..)));
        assert_eq!(four_letter::mode(self.server).as_deref(), Some("standalone"));
    }
}

pub(crate) fn server() -> (Servers, SocketAddr) {
    let servers = Servers::zoolet().start().unwrap();
    let address = servers.client_address(0).unwrap();
    (servers, address)
}

pub(crate) fn create(path: &str, data: &[u8], flags: i32) -> Request {
    let (path, data) = (path.to_owned(), Some(Bytes::copy_from_slice(data)));
    Request::Create(CreateRequest { path, data, acl: Some(Acl::open()), flags })
}

pub(crate) fn set_data(path: &str, data: &[u8]) -> Request {
    let data = Some(Bytes::copy_from_slice(data));
    Request::SetData(SetDataRequest { path: path.into(), data, version: -1 })
}

pub(crate) fn exists(path: &str) -> Request {
    Request::Exists(PathWatchRequest { path: path.into(), watch: false })
}

pub(crate) fn call(connection: &mut RawConnection, request: &Request) -> Incoming {
    connection.call(Xid(1), request).unwrap().1
}

pub(crate) fn done(incoming: &Incoming) {
    assert!(matches!(incoming, Incoming::Reply(header, _) if header.err.is_none()), "{incoming:?}");
}

pub(crate) fn handshake() -> Vec<u8> {
    framed(|out| raw::new_session(10_000).encode(out))
}

pub(crate) fn framed(payload: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame::put(&mut out, payload);
    out.to_vec()
}

pub(crate) fn request(xid: i32, request: &Request) -> Vec<u8> {
    framed(|out| request.encode_with(Xid(xid), out))
}

pub(crate) fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(CLOSE_MAX)).unwrap();
    stream.set_write_timeout(Some(CLOSE_MAX)).unwrap();
    stream
}

/// What the server still sends before it closes the connection; `None` if it does not close it.
pub(crate) fn until_closed(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => Some(received),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Some(received),
        Err(_) => None,
    }
}

/// The frames of some bytes.
pub(crate) fn frames(bytes: &[u8]) -> Vec<Bytes> {
    let mut buffer = BytesMut::from(bytes);
    let mut frames = Vec::new();
    while let Some(payload) = frame::split(&mut buffer, usize::MAX >> 1).unwrap() {
        frames.push(payload);
    }
    frames
}

pub(crate) fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A figure of `mntr`.
pub(crate) fn mntr(address: SocketAddr, name: &str) -> u64 {
    let answer = four_letter::ask(address, "mntr").unwrap();
    let value = answer.lines().find_map(|line| {
        let (key, value) = line.split_once('\t')?;
        (key.strip_prefix("zk_") == Some(name)).then(|| value.parse().unwrap())
    });
    value.unwrap_or_else(|| panic!("{answer} has no zk_{name}"))
}
