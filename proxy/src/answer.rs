//! What a client of HTTP is answered, and how its connection is read.

use crate::error::DialError;
use crate::interim::{Interim, WithInterim};
use crate::proxy::Slot;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may take for the head of a request, and be idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest head, and memory of a connection for each direction.
pub(crate) const BUFFER_MAX: usize = 64 * 1024;
/// Most fields of a head.
pub(crate) const FIELDS_MAX: usize = 1000;

pub(crate) type Body = BoxBody<Bytes, hyper::Error>;

/// Reads requests from `stream` and has `service` answer them, one after the other. A client may have
/// stopped sending before it gets the last answer if that `outlives_end`.
pub(crate) async fn serve<S, A>(stream: S, service: A, outlives_end: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    let interim = Interim::default();
    let stream = WithInterim::new(stream, interim.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(interim.clone());
        service.call(request)
    });
    // What goes wrong is the client's doing, and hyper has told it.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_MAX)
        .max_headers(FIELDS_MAX)
        .half_close(outlives_end)
        .preserve_header_case(true)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// Why a request was not forwarded.
pub(crate) enum Failure {
    /// It is none that a proxy can serve.
    Bad(&'static str),
    /// The destination was not reached.
    Dial(DialError),
    /// The host, or the upstream, does not speak HTTP, or broke off.
    Host(String),
    /// The host took too long.
    Slow,
}

impl From<DialError> for Failure {
    fn from(error: DialError) -> Self {
        Self::Dial(error)
    }
}

impl Failure {
    /// Says so to the client.
    pub(crate) fn response(self) -> Response<Body> {
        let (status, reason, message) = match &self {
            Self::Bad(message) => (StatusCode::BAD_REQUEST, "bad-request", (*message).to_owned()),
            Self::Dial(error) if error.is_refusal() => {
                (StatusCode::FORBIDDEN, "blocked-by-allowlist", error.to_string())
            }
            Self::Dial(error @ DialError::Timeout(_)) => {
                (StatusCode::GATEWAY_TIMEOUT, "timeout", error.to_string())
            }
            Self::Dial(error) => (StatusCode::BAD_GATEWAY, "unreachable", error.to_string()),
            Self::Host(message) => (StatusCode::BAD_GATEWAY, "bad-response", message.clone()),
            Self::Slow => {
                (StatusCode::GATEWAY_TIMEOUT, "timeout", "the host did not answer".to_owned())
            }
        };
        let text = format!("landstrip: {message}\n");
        let mut response =
            Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert("x-proxy-error", HeaderValue::from_static(reason));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    }
}

/// Says no where the client begins with TLS, in a tunnel that leads nowhere.
pub(crate) async fn refuse_in_tls(tunnel: OnUpgrade, slot: Slot) {
    // The alert access_denied, fatal (RFC 8446 section 6, in a record of section 5.1).
    const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
    let Ok(client) = tunnel.await else { return };
    let mut client = TokioIo::new(client);
    // All of a ClientHello at once: what is left unread would have the kernel drop the alert.
    let mut hello = vec![0; BUFFER_MAX];
    if let Ok(Ok(1..)) = timeout(HEAD_TIMEOUT, client.read(&mut hello)).await {
        let _ = client.write_all(&ALERT).await;
    }
    drop(slot);
}

/// A body of nothing.
pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}
