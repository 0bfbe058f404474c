//! HTTP/1.1: CONNECT, and requests with an absolute URI; each request is judged for itself.
//!
//! hyper parses the messages: RFC 9110 sections 7.6 and 9.3.6, RFC 9112. The host of a request is that
//! of its URI; its Host field is replaced.

use crate::answer::{self, Body, Failure};
use crate::destination::{AuthorityError, Destination};
use crate::error::DialError;
use crate::forward::Host;
use crate::headers;
use crate::interim::WithInterim;
use crate::proxy::{Client, Proxy, Slot};
use crate::relay::TLS_PORT;
use crate::tunnel;
use hyper::body::Incoming;
use hyper::header;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::Mutex;

const HTTP_PORT: u16 = 80;

/// The host of a connection's last request.
type Kept = Mutex<Option<Host>>;

/// Serves one connection.
pub(crate) async fn serve<S: Client>(stream: S, proxy: Arc<Proxy>, slot: Slot) {
    let kept = Arc::new(Kept::default());
    let service = service_fn(|request| {
        let (proxy, kept, slot) = (Arc::clone(&proxy), Arc::clone(&kept), Arc::clone(&slot));
        async move { Ok::<_, Infallible>(respond::<S>(request, proxy, &kept, slot).await) }
    });
    answer::serve(stream, service, false).await;
}

async fn respond<S: Client>(
    request: Request<Incoming>,
    proxy: Arc<Proxy>,
    kept: &Kept,
    slot: Slot,
) -> Response<Body> {
    let answered = if request.method() == Method::CONNECT {
        connect::<S>(request, proxy, slot).await
    } else {
        forward(request, &proxy, kept, slot).await
    };
    answered.unwrap_or_else(Failure::response)
}

async fn connect<S: Client>(
    request: Request<Incoming>,
    proxy: Arc<Proxy>,
    slot: Slot,
) -> Result<Response<Body>, Failure> {
    headers::check_framing(request.headers())?;
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    let destination = proxy.by_name(destination(&proxy, authority, None)?);
    let host = match proxy.dial(&destination).await {
        Err(error) if error.is_refusal() && asks_again(&request) => {
            tokio::spawn(answer::refuse_in_tls(hyper::upgrade::on(request), slot));
            return Ok(Response::new(answer::empty()));
        }
        dialled => dialled?,
    };
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        match upgraded.downcast::<TokioIo<WithInterim<S>>>() {
            Ok(parts) => {
                let (client, early) = (parts.io.into_inner().into_inner(), parts.read_buf.to_vec());
                tunnel::serve(proxy, destination, client, early, host, slot).await;
            }
            Err(upgraded) => {
                let client = TokioIo::new(upgraded);
                tunnel::serve(proxy, destination, client, Vec::new(), host, slot).await;
            }
        }
    });
    Ok(Response::new(answer::empty()))
}

/// Whether the client takes every answer to CONNECT but success for a network that is away for the moment: Yarn 1 asks
/// five times then, three seconds apart, which no setting changes. What TLS says ends it at once.
fn asks_again(request: &Request<Incoming>) -> bool {
    let agent = request.headers().get(header::USER_AGENT);
    agent.is_some_and(|agent| agent.as_bytes().starts_with(b"yarn/1."))
}

async fn forward(
    request: Request<Incoming>,
    proxy: &Arc<Proxy>,
    kept: &Kept,
    slot: Slot,
) -> Result<Response<Body>, Failure> {
    headers::check_framing(request.headers())?;
    let uri = request.uri();
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(Failure::Bad("this is a proxy: a request needs an absolute http:// URI"));
    };
    let destination = destination(proxy, authority.as_str(), Some(HTTP_PORT))?;
    if destination.port == TLS_PORT {
        return Err(Failure::Bad("plain HTTP does not go to port 443"));
    }
    let upgrades = headers::requested_upgrade(request.headers()).is_some();
    // One after the other: the next request is read when this one is answered.
    let mut kept = kept.lock().await;
    let mut host = match kept.take() {
        Some(mut host) => match !upgrades && host.takes_more(&destination).await {
            // It was judged for the same host and port, by the same rules.
            true => host,
            false => reach(proxy, destination, upgrades).await?,
        },
        None => reach(proxy, destination, upgrades).await?,
    };
    let response = host.send(request, proxy, slot).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        *kept = Some(host);
    }
    Ok(response)
}

/// Connects to the host, or to an upstream that takes requests. What may come after a switch of
/// protocols is for the host alone: an upstream is asked for a tunnel then.
async fn reach(proxy: &Proxy, destination: Destination, upgrades: bool) -> Result<Host, Failure> {
    let (stream, upstream) = match upgrades {
        true => (proxy.dial(&destination).await?, None),
        false => proxy.dial_for_request(&destination).await?,
    };
    Host::on(stream, destination, upstream).await
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
            let (host, port) = proxy_hosts::domain::split_port(authority);
            let port = port.and_then(proxy_hosts::domain::parse_port).or(default_port).unwrap_or(0);
            proxy.report(host, port);
            Failure::Dial(DialError::Spelling(host.to_owned(), error))
        }
    })
}
