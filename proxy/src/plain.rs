//! Plain HTTP inside of a tunnel: what is passed on is what was understood here, and each request must
//! be for the host that the tunnel leads to.

use crate::answer::{self, Body, Failure};
use crate::destination::Destination;
use crate::error::DialError;
use crate::forward::Host;
use crate::headers;
use crate::proxy::{Client, Proxy, Slot};
use crate::relay;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::io::Cursor;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, join, split};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Serves a tunnel in which the client sends requests, `early` first.
pub(crate) async fn serve<C: Client>(
    proxy: Arc<Proxy>,
    destination: Destination,
    client: C,
    early: Vec<u8>,
    host: TcpStream,
    slot: Slot,
) {
    let Ok(host) = Host::on(host, destination, None).await else { return };
    let host = Arc::new(Mutex::new(host));
    let service = service_fn(|request| {
        let (proxy, host, slot) = (Arc::clone(&proxy), Arc::clone(&host), Arc::clone(&slot));
        async move {
            let answered = pass_on(request, &proxy, &mut *host.lock().await, slot).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(Failure::response))
        }
    });
    let (reading, writing) = split(client);
    // As a tunnel of bytes, it ends in each direction by itself.
    answer::serve(join(Cursor::new(early).chain(reading), writing), service, true).await;
}

async fn pass_on(
    request: Request<Incoming>,
    proxy: &Arc<Proxy>,
    host: &mut Host,
    slot: Slot,
) -> Result<Response<Body>, Failure> {
    headers::check_framing(request.headers())?;
    let host_field = request.headers().get(header::HOST).map(|value| value.to_str());
    let host_field =
        host_field.transpose().map_err(|_| Failure::Bad("the Host field is not a name"))?;
    let asked = host.destination().clone();
    let named = [request.uri().authority().map(|authority| authority.as_str()), host_field];
    // HTTP/1.0 may name none: then it is for whatever the tunnel leads to.
    for text in named.into_iter().flatten().filter(|text| !text.is_empty()) {
        // A host and perhaps a port, and nothing else: a server may read a list, or what `@` or a blank parts, from
        // its end.
        let permitted = Destination::parse(text, Some(asked.port))
            .is_ok_and(|named| relay::permits(proxy, &asked, &named.host));
        if !permitted {
            proxy.report(proxy_hosts::domain::split_port(text).0, asked.port);
            let asked = asked.host.to_string();
            return Err(DialError::Fronting { host: text.to_owned(), asked }.into());
        }
    }
    let mut response = host.send(request, proxy, slot).await?;
    if host.is_used_up() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
