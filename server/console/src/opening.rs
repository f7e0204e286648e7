//! How an HTTP connection begins: with TLS, with a request, or with something else. It is for the ports
//! of servers too, which show a console (`zoolet-http`).

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use zoolet_client::Transport;
use zoolet_tls::{
    Accepted, CertificatesInForce, HandshakeError, Insider, LoadedTls, TlsAcceptor, TlsError,
    TlsSettings, VerifiedCertificate, is_hello,
};

/// What is read behind an answer: closing a socket that has unread bytes would take the answer back.
const REST_BYTES_MAX: u64 = 16 << 10;
const REST_TIME_MAX: Duration = Duration::from_secs(1);

/// What an HTTP port does about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTls {
    /// Keys, trusted authorities, and whether clients are asked for certificates.
    pub settings: TlsSettings,
    /// Whether plain HTTP is spoken too; the first byte decides.
    pub accepts_plain: bool,
    /// Whether the files are loaded again when they change.
    pub reload: bool,
}

/// Opens the connections of a port. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Opener {
    tls: Option<watch::Receiver<TlsAcceptor>>,
    refuses_plain: bool,
}

/// A connection that speaks HTTP from here on.
pub struct Opened {
    /// The plain text.
    pub stream: Box<dyn Transport>,
    /// Whether TLS is below it.
    pub is_secure: bool,
    /// The certificate that the client has shown.
    pub certificate: Option<VerifiedCertificate>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Opened");
        shown.field("is_secure", &self.is_secure).field("certificate", &self.certificate);
        shown.finish_non_exhaustive()
    }
}

/// Why a connection was refused before its first request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotOpened {
    /// The client speaks TLS.
    #[error("TLS hello: this port speaks plain HTTP, use http://")]
    TlsHello,
    /// The client does not speak TLS.
    #[error("plain HTTP: this port speaks TLS alone, use https://")]
    PlainHttp,
    /// The client speaks something else.
    #[error("this is not HTTP: it begins with the byte {0:#04x}")]
    NotHttp(u8),
    /// The certificate of the client is refused, or another rule of TLS is broken.
    #[error(transparent)]
    Tls(#[from] HandshakeError),
}

impl NotOpened {
    /// Returns the kind of the reason: a log that is limited in its lines should be so for each kind,
    /// or one hides the other.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TlsHello => "hello",
            Self::PlainHttp => "plain HTTP",
            Self::NotHttp(_) => "not HTTP",
            Self::Tls(error) => error.kind(),
        }
    }
}

/// Looks after the files of a port's TLS.
#[derive(Debug)]
pub struct Reloads {
    loaded: LoadedTls,
    reload: bool,
}

impl Reloads {
    /// Returns the certificates of the port, as they change.
    pub fn certificates(&self) -> watch::Receiver<CertificatesInForce> {
        self.loaded.certificates()
    }

    /// Warns of certificates that expire, and loads the files again if that is wanted.
    pub async fn follow(self) {
        self.loaded.follow(self.reload).await;
    }
}

impl Opener {
    /// Loads the files of TLS. [`Reloads::follow`] watches them; `port` is the port's name in the log.
    pub async fn load(
        tls: Option<PortTls>,
        port: &'static str,
    ) -> Result<(Self, Option<Reloads>), TlsError> {
        let Some(PortTls { settings, accepts_plain, reload }) = tls else {
            return Ok((Self::default(), None));
        };
        let loading = spawn_blocking(move || LoadedTls::load(port, settings, None));
        let loaded = loading.await.map_err(|error| TlsError::Setting(error.to_string()))??;
        let opener = Self { tls: Some(loaded.acceptor()), refuses_plain: !accepts_plain };
        Ok((opener, Some(Reloads { loaded, reload })))
    }

    /// Returns whether TLS is spoken.
    pub fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Opens a connection; none if the client has left. One that does not speak what the port does gets
    /// an answer in HTTP that says so, which hyper would not send.
    pub async fn open(&self, stream: TcpStream, peer: IpAddr) -> Result<Option<Opened>, NotOpened> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Ok(None),
        }
        let [first] = first;
        let refused = match (&self.tls, first) {
            (Some(acceptor), first) if is_hello(first) => {
                let acceptor = acceptor.borrow().clone();
                return opened_by_tls(acceptor, stream, peer).await;
            }
            (None, first) if is_hello(first) => NotOpened::TlsHello,
            (_, first) if !begins_request(first) => NotOpened::NotHttp(first),
            (Some(_), _) if self.refuses_plain => NotOpened::PlainHttp,
            _ => return Ok(Some(Opened::plain(stream))),
        };
        answer(stream, &refused).await;
        Err(refused)
    }
}

impl Opened {
    /// The connection of a part of this program. The TLS that a certificate was shown in ends there.
    pub fn inside(insider: Insider) -> Self {
        let certificate = insider.certificate;
        Self { stream: Box::new(insider.stream), is_secure: true, certificate }
    }

    fn plain(stream: TcpStream) -> Self {
        Self { stream: Box::new(stream), is_secure: false, certificate: None }
    }
}

async fn opened_by_tls(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: IpAddr,
) -> Result<Option<Opened>, NotOpened> {
    match acceptor.accept(stream, peer, &[]).await {
        Ok(Accepted { stream, certificate }) => {
            Ok(Some(Opened { stream: Box::new(stream), is_secure: true, certificate }))
        }
        // A browser opens connections in advance, and gives them up.
        Err(HandshakeError::Io(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether it is a character of a method's name, or of an empty line before it.
fn begins_request(first: u8) -> bool {
    first.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~\r\n".contains(&first)
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, refused: &NotOpened) {
    let body = format!("{refused}\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    // The client may have left, which changes nothing.
    if stream.write_all(answer.as_bytes()).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut rest = stream.take(REST_BYTES_MAX);
        let mut nowhere = tokio::io::sink();
        let reading = tokio::io::copy(&mut rest, &mut nowhere);
        let _ = timeout(REST_TIME_MAX, reading).await;
    }
}
