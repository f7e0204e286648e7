//! What there is in place of TLS in a program that was built without it: no acceptor and no connector
//! can be made, so there is never a stream either.

use std::convert::Infallible;
use std::future::Pending;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::accepted::Accepted;
use crate::error::{HandshakeError, TlsError};
use crate::settings::TlsSettings;
use crate::stored::StoredCertificate;

/// Accepts TLS connections; there is none without the feature `rustls`.
#[derive(Clone, Debug)]
pub struct TlsAcceptor(Infallible);

/// Makes TLS connections; there is none without the feature `rustls`.
#[derive(Clone, Debug)]
pub struct TlsConnector(Infallible);

/// A TLS connection; there is none without the feature `rustls`.
#[derive(Debug)]
pub struct TlsStream<S>(Infallible, PhantomData<S>);

/// The threads that compute handshakes; none without the feature `rustls`.
#[derive(Clone, Debug, Default)]
pub struct HandshakeThreads(());

/// This server's certificates; there are none without the feature `rustls`.
#[derive(Clone, Debug)]
pub(crate) struct OwnChain(Infallible);

impl OwnChain {
    /// Returns [`TlsError::NotBuilt`].
    pub(crate) fn load(_: &TlsSettings, _: Vec<String>) -> Result<Self, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Cannot be called.
    pub(crate) fn refusals(&self) -> Vec<String> {
        match self.0 {}
    }

    /// Cannot be called.
    pub(crate) fn load_again(&self, _: &TlsSettings) -> Result<Self, TlsError> {
        match self.0 {}
    }
}

impl TlsSettings {
    /// Returns [`TlsError::NotBuilt`].
    pub fn acceptor(&self, _: HandshakeThreads) -> Result<TlsAcceptor, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Returns [`TlsError::NotBuilt`].
    pub fn connector(&self, _: Option<HandshakeThreads>) -> Result<TlsConnector, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Returns [`TlsError::NotBuilt`].
    pub fn certificates(&self) -> Result<Vec<StoredCertificate>, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Returns [`TlsError::NotBuilt`].
    pub fn peer_refusals(&self, _: &[String]) -> Result<Vec<String>, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Checks nothing: which cipher suites are known is not known here.
    pub fn check_cipher_suites(_: &[String]) -> Result<(), String> {
        Ok(())
    }
}

impl TlsAcceptor {
    /// Cannot be called.
    pub fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        _: S,
        _: IpAddr,
        _: &[u8],
    ) -> Pending<Result<Accepted<S>, HandshakeError>> {
        match self.0 {}
    }
}

impl TlsConnector {
    /// Cannot be called.
    pub fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        _: S,
        _: &str,
    ) -> Pending<Result<TlsStream<S>, HandshakeError>> {
        match self.0 {}
    }
}

/// Returns no time: there are no certificates.
pub(crate) fn now_s() -> i64 {
    0
}

/// Returns why there is no name.
pub fn subject_name(_: &[u8]) -> Result<String, String> {
    Err(TlsError::NotBuilt.to_string())
}

impl<S: Unpin> TlsStream<S> {
    /// Cannot be called.
    pub fn poll_write_records(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.0 {}
    }
}

impl<S: Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}

impl<S: Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match self.0 {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}
