//! HTTP/1.1: CONNECT, and requests with an absolute URI; each request is judged for itself.
//!
//! hyper parses and writes the messages, so that what reaches a host is what was understood here,
//! in one spelling: RFC 9110 sections 7.6 and 9.3.6, RFC 9112. The host of a request is that of its
//! URI; its Host field is replaced.

use crate::destination::{AuthorityError, Destination};
use crate::error::{DialError, UpstreamError};
use crate::proxy::{Client, Proxy, Slot};
use crate::tunnel;
use crate::upstream::Upstream;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a client may take for the head of a request, and be idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a host may take until the head of its response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);
/// Largest head, and memory of a connection for each direction.
const BUFFER_MAX: usize = 64 * 1024;
const HTTP_PORT: u16 = 80;

type Body = BoxBody<Bytes, hyper::Error>;

/// Why a request was not forwarded.
enum Failure {
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

/// Serves one connection.
pub(crate) async fn serve<S: Client>(stream: S, proxy: Arc<Proxy>, slot: Slot) {
    let service = service_fn(|request| {
        let (proxy, slot) = (Arc::clone(&proxy), Arc::clone(&slot));
        async move { Ok::<_, Infallible>(answer::<S>(request, proxy, slot).await) }
    });
    // What goes wrong is the client's doing, and hyper has told it.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

async fn answer<S: Client>(
    request: Request<Incoming>,
    proxy: Arc<Proxy>,
    slot: Slot,
) -> Response<Body> {
    let answered = if request.method() == Method::CONNECT {
        connect::<S>(request, proxy, slot).await
    } else {
        forward(request, &proxy, slot).await
    };
    answered.unwrap_or_else(|failure| failure.response())
}

async fn connect<S: Client>(
    request: Request<Incoming>,
    proxy: Arc<Proxy>,
    slot: Slot,
) -> Result<Response<Body>, Failure> {
    check_framing(request.headers())?;
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    let destination = destination(&proxy, authority, None)?;
    let host = proxy.dial(&destination).await?;
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            match upgraded.downcast::<TokioIo<S>>() {
                Ok(parts) => {
                    let (client, early) = (parts.io.into_inner(), parts.read_buf.to_vec());
                    tunnel::relay(&proxy, &destination, client, early, host).await;
                }
                Err(upgraded) => {
                    let client = TokioIo::new(upgraded);
                    tunnel::relay(&proxy, &destination, client, Vec::new(), host).await;
                }
            }
        }
        drop(slot);
    });
    Ok(Response::new(empty()))
}

async fn forward(
    mut request: Request<Incoming>,
    proxy: &Proxy,
    slot: Slot,
) -> Result<Response<Body>, Failure> {
    check_framing(request.headers())?;
    let uri = request.uri().clone();
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(Failure::Bad("this is a proxy: a request needs an absolute http:// URI"));
    };
    let destination = destination(proxy, authority.as_str(), Some(HTTP_PORT))?;
    let (stream, upstream) = proxy.dial_for_request(&destination).await?;

    let upgrade = requested_upgrade(request.headers());
    let client_side = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    rewrite(&mut request, &uri, &destination, upgrade)?;
    if let Some(authorization) = upstream.and_then(Upstream::takes_requests) {
        address_upstream(&mut request, authorization)?;
    }
    let lost = |error: hyper::Error| Failure::Host(format!("{destination}: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(BUFFER_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(lost)?;
    tokio::spawn(async move {
        // Its end is the end of the response or an error there.
        let _ = connection.with_upgrades().await;
    });
    let sent = timeout(RESPONSE_TIMEOUT, sender.send_request(request)).await;
    let mut response = sent.map_err(|_| Failure::Slow)?.map_err(lost)?;
    if upstream.is_some() && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        return Err(Failure::Host(format!("the upstream proxy: {}", UpstreamError::Credentials)));
    }

    let upgrade = requested_upgrade(response.headers());
    strip_hop_by_hop(response.headers_mut());
    // RFC 9110 section 6.2: its own, not the host's. hyper sees to what the client can take.
    *response.version_mut() = Version::HTTP_11;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(client_side), Some(protocol)) = (client_side, upgrade) else {
            return Err(Failure::Host(format!("{destination}: it switched protocols unasked")));
        };
        let host_side = hyper::upgrade::on(&mut response);
        keep_upgrade(response.headers_mut(), protocol);
        tokio::spawn(async move {
            if let (Ok(client), Ok(host)) = (client_side.await, host_side.await) {
                let (mut client, mut host) = (TokioIo::new(client), TokioIo::new(host));
                let _ = tokio::io::copy_bidirectional(&mut client, &mut host).await;
            }
            drop(slot);
        });
    }
    Ok(response.map(BodyExt::boxed))
}

/// The host and port to judge, in the one spelling; what has none is refused and reported.
fn destination(
    proxy: &Proxy,
    authority: &str,
    default_port: Option<u16>,
) -> Result<Destination, Failure> {
    Destination::parse(authority, default_port).map_err(|error| match error {
        AuthorityError::Port => Failure::Bad("the port is missing or none"),
        AuthorityError::Host(error) => {
            let (host, port) = common::domain::split_port(authority);
            let port = port.and_then(common::domain::parse_port).or(default_port).unwrap_or(0);
            proxy.report(host, port);
            Failure::Dial(DialError::Spelling(host.to_owned(), error))
        }
    })
}

/// What two readers could understand in two ways is not forwarded (RFC 9112 sections 3.2 and 6.3).
fn check_framing(headers: &HeaderMap) -> Result<(), Failure> {
    let count = |name: HeaderName| headers.get_all(name).iter().count();
    if count(header::HOST) > 1 {
        return Err(Failure::Bad("more than one Host field"));
    }
    let lengths = count(header::CONTENT_LENGTH);
    if lengths > 1 || (lengths > 0 && count(header::TRANSFER_ENCODING) > 0) {
        return Err(Failure::Bad("ambiguous length of the body"));
    }
    Ok(())
}

/// Makes the request to a proxy one to the host itself.
fn rewrite(
    request: &mut Request<Incoming>,
    uri: &Uri,
    destination: &Destination,
    upgrade: Option<HeaderValue>,
) -> Result<(), Failure> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = match path {
        // RFC 9112 section 3.2.4.
        "/" | "" if *request.method() == Method::OPTIONS => "*",
        "" => "/",
        path => path,
    };
    *request.uri_mut() = path.parse().map_err(|_| Failure::Bad("the path is none"))?;
    *request.version_mut() = Version::HTTP_11;
    let host = match destination.port {
        HTTP_PORT => destination.host.to_string(),
        _ => destination.to_string(),
    };
    let host = HeaderValue::try_from(host).map_err(|_| Failure::Bad("the host is none"))?;
    let headers = request.headers_mut();
    let trailers = headers.get(header::TE).is_some_and(|value| {
        value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("trailers"))
    });
    strip_hop_by_hop(headers);
    // Answered here: hyper asks for the body when the host takes it.
    headers.remove(header::EXPECT);
    headers.insert(header::HOST, host);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = upgrade {
        keep_upgrade(headers, protocol);
    }
    Ok(())
}

/// Makes the request to the host one to the upstream proxy (RFC 9112 section 3.2.2).
fn address_upstream(
    request: &mut Request<Incoming>,
    authorization: Option<&HeaderValue>,
) -> Result<(), Failure> {
    if request.method() == Method::TRACE {
        // It can be answered by the upstream itself, with what it was sent (RFC 9110 section 9.3.8):
        // the credentials.
        return Err(Failure::Bad("TRACE does not go through an upstream proxy"));
    }
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let uri = match (host, request.uri().path()) {
        (None, _) => return Err(Failure::Bad("the host is none")),
        (Some(host), "*") => format!("http://{host}"),
        (Some(host), _) => format!("http://{host}{}", request.uri()),
    };
    *request.uri_mut() = uri.parse().map_err(|_| Failure::Bad("the path is none"))?;
    if let Some(value) = authorization {
        request.headers_mut().insert(header::PROXY_AUTHORIZATION, value.clone());
    }
    Ok(())
}

/// Removes what is for the next hop only (RFC 9110 section 7.6.1), except what frames the body:
/// hyper sees to that.
fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Nobody may take the framing away.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::TRANSFER_ENCODING)
        .collect();
    let always = [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("proxy-authentication-info"),
    ];
    for name in named.into_iter().chain(always) {
        headers.remove(name);
    }
}

/// The protocol that the message asks to switch to.
fn requested_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = headers.get_all(header::CONNECTION).iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
        })
    });
    headers.get(header::UPGRADE).filter(|_| asks).cloned()
}

fn keep_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

impl Failure {
    fn response(self) -> Response<Body> {
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

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}
