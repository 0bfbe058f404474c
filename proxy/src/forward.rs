//! Requests to a host that was reached, one after the other; how each is written, and what becomes of
//! the response. hyper writes the messages, so that what reaches a host is what was understood here,
//! in one spelling.

use crate::answer::{BUFFER_MAX, Body, FIELDS_MAX, Failure};
use crate::destination::{Destination, OwnedHost};
use crate::error::UpstreamError;
use crate::headers;
use crate::interim::Interim;
use crate::proxy::{Proxy, Slot};
use crate::relay;
use crate::upstream::Upstream;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// How long a host may take until the head of its response, after the last byte that it took.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a connection is kept for the next request: less than any server waits for it.
const KEPT_MAX: Duration = Duration::from_secs(2);
const HTTP_PORT: u16 = 80;

/// A host that takes requests.
pub(crate) struct Host {
    sender: SendRequest<BoxBody<Bytes, hyper::Error>>,
    destination: Destination,
    /// The connection is to an upstream that takes requests itself: with what authorization.
    upstream: Option<Option<HeaderValue>>,
    used: Instant,
    /// It takes no other request.
    is_used_up: bool,
}

impl Host {
    /// Speaks HTTP on `stream`, which is to `destination` or to an upstream.
    ///
    /// # Errors
    /// Returns [`Failure::Host`] if that is not possible.
    pub(crate) async fn on(
        stream: TcpStream,
        destination: Destination,
        upstream: Option<&Upstream>,
    ) -> Result<Self, Failure> {
        let (sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(BUFFER_MAX)
            .max_headers(FIELDS_MAX)
            .preserve_header_case(true)
            .title_case_headers(true)
            // What curl takes.
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::Host(format!("{destination}: {error}")))?;
        tokio::spawn(async move {
            // Its end is the end of the response or an error there.
            let _ = connection.with_upgrades().await;
        });
        let upstream = upstream.and_then(Upstream::takes_requests).map(|value| value.cloned());
        Ok(Self { sender, destination, upstream, used: Instant::now(), is_used_up: false })
    }

    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Whether no other request can be sent on the same connection.
    pub(crate) fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    /// Whether another request to `destination` can be sent on the same connection.
    pub(crate) async fn takes_more(&mut self, destination: &Destination) -> bool {
        self.destination == *destination
            && !self.is_used_up
            && self.used.elapsed() < KEPT_MAX
            && self.sender.ready().await.is_ok()
    }

    /// Sends `request`, whatever form its target has, and returns the response.
    pub(crate) async fn send(
        &mut self,
        mut request: Request<Incoming>,
        proxy: &Arc<Proxy>,
        slot: Slot,
    ) -> Result<Response<Body>, Failure> {
        // A host that does not read a body takes it for the next request, which nobody has judged.
        self.is_used_up = !request.body().is_end_stream();
        let upgrade = headers::requested_upgrade(request.headers()).filter(|_| !self.is_used_up);
        let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let interim = Interim::of(&mut request);
        self.rewrite(&mut request, upgrade)?;
        if let Some(authorization) = &self.upstream {
            address_upstream(&mut request, authorization.as_ref())?;
        }
        let mut response = interim.until(self.exchange(request)).await?;
        self.used = Instant::now();
        if self.upstream.is_some() && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            let message = format!("the upstream proxy: {}", UpstreamError::Credentials);
            return Err(Failure::Host(message));
        }
        let upgrade = headers::requested_upgrade(response.headers());
        headers::strip_hop_by_hop(response.headers_mut());
        // RFC 9110 section 6.2: its own, not the host's. hyper sees to what the client can take.
        *response.version_mut() = Version::HTTP_11;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let (Some(client), Some(protocol)) = (client, upgrade) else {
                let message = format!("{}: it switched protocols unasked", self.destination);
                return Err(Failure::Host(message));
            };
            let host = hyper::upgrade::on(&mut response);
            headers::keep_upgrade(response.headers_mut(), protocol);
            let (proxy, destination) = (Arc::clone(proxy), self.destination.clone());
            tokio::spawn(async move { switch(&proxy, &destination, client, host, slot).await });
        }
        Ok(response.map(BodyExt::boxed))
    }

    /// Waits for the response as long as there is progress: an upload may take hours.
    async fn exchange(
        &mut self,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Failure> {
        let progress = Arc::new(Mutex::new(Instant::now()));
        let noted = Arc::clone(&progress);
        let request = request.map(|body| {
            body.map_frame(move |frame| {
                if let Ok(mut last) = noted.lock() {
                    *last = Instant::now();
                }
                frame
            })
            .boxed()
        });
        let limit =
            || progress.lock().map_or_else(|_| Instant::now(), |last| *last) + RESPONSE_TIMEOUT;
        let mut sending = pin!(self.sender.send_request(request));
        loop {
            match timeout_at(limit(), sending.as_mut()).await {
                Ok(sent) => {
                    let lost = |error| Failure::Host(format!("{}: {error}", self.destination));
                    return sent.map_err(lost);
                }
                Err(_) if limit() > Instant::now() => {}
                Err(_) => return Err(Failure::Slow),
            }
        }
    }

    /// Makes the request one to the host itself.
    fn rewrite(
        &self,
        request: &mut Request<Incoming>,
        upgrade: Option<HeaderValue>,
    ) -> Result<(), Failure> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path = match path {
            // RFC 9112 section 3.2.4.
            "/" | "" if *request.method() == Method::OPTIONS => "*".to_owned(),
            "" => "/".to_owned(),
            // RFC 3986 section 3.3 lets the path be empty, a request's target does not.
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        };
        let host = self.host_field(request)?;
        *request.uri_mut() = path.parse().map_err(|_| Failure::Bad("the path is none"))?;
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        let trailers = headers.get(header::TE).is_some_and(|value| {
            value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("trailers"))
        });
        headers::strip_hop_by_hop(headers);
        // Answered here: hyper asks for the body when the host takes it.
        headers.remove(header::EXPECT);
        headers.insert(header::HOST, host);
        if trailers {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        if let Some(protocol) = upgrade {
            headers::keep_upgrade(headers, protocol);
        }
        if self.is_used_up {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(())
    }

    /// The host that was asked for and judged, in the one spelling. Behind a literal there may be many
    /// names: one that is in the request was judged as well.
    fn host_field(&self, request: &Request<Incoming>) -> Result<HeaderValue, Failure> {
        let named = match (&self.destination.host, request.uri().authority()) {
            (OwnedHost::Address(_), None) => request.headers().get(header::HOST),
            _ => None,
        };
        let host = match named {
            Some(named) => judged_host(named, self.destination.port)?,
            None => spelled(&self.destination),
        };
        HeaderValue::try_from(host).map_err(|_| Failure::Bad("the host is invalid"))
    }
}

/// The host in a Host field as it was judged: at the port where the connection leads, whatever port it says. An empty
/// one names none.
fn judged_host(named: &HeaderValue, port: u16) -> Result<String, Failure> {
    let none = || Failure::Bad("the host is invalid");
    match named.to_str().map_err(|_| none())? {
        "" => Ok(String::new()),
        text => {
            let named = Destination::parse(text, Some(port)).map_err(|_| none())?;
            Ok(spelled(&Destination { port, ..named }))
        }
    }
}

/// `destination` as a Host field has it.
fn spelled(destination: &Destination) -> String {
    match destination.port {
        HTTP_PORT => destination.host.to_string(),
        _ => destination.to_string(),
    }
}

/// Relays what follows a switch of protocols.
async fn switch(
    proxy: &Proxy,
    destination: &Destination,
    client: OnUpgrade,
    host: OnUpgrade,
    slot: Slot,
) {
    let (Ok(client), Ok(host)) = (client.await, host.await) else { return };
    let mut client = TokioIo::new(client);
    let Ok(host) = host.downcast::<TokioIo<TcpStream>>() else { return };
    if client.write_all(&host.read_buf).await.is_ok() {
        // Requests have no place behind a switch.
        let host = host.io.into_inner();
        let _ = relay::relay(proxy, destination, client, Vec::new(), host, &slot).await;
    }
}

/// Makes the request to the host one to the upstream proxy (RFC 9112 section 3.2.2).
fn address_upstream(
    request: &mut Request<Incoming>,
    authorization: Option<&HeaderValue>,
) -> Result<(), Failure> {
    // Some proxies take methods in any case.
    if request.method().as_str().eq_ignore_ascii_case(Method::TRACE.as_str()) {
        // It can be answered by the upstream itself, with what it was sent (RFC 9110 section 9.3.8):
        // the credentials.
        return Err(Failure::Bad("TRACE does not go through an upstream proxy"));
    }
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let uri = match (host, request.uri().path()) {
        (None, _) => return Err(Failure::Bad("the host is invalid")),
        (Some(host), "*") => format!("http://{host}"),
        (Some(host), _) => format!("http://{host}{}", request.uri()),
    };
    *request.uri_mut() = uri.parse().map_err(|_| Failure::Bad("the path is none"))?;
    if let Some(value) = authorization {
        request.headers_mut().insert(header::PROXY_AUTHORIZATION, value.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_passed_on_as_it_was_judged() {
        for (named, port, expected) in [
            ("good.test:8080", 8080, Some("good.test:8080")),
            ("good.test", 8080, Some("good.test:8080")),
            ("127.0.0.1:9", 8080, Some("127.0.0.1:8080")),
            ("GOOD.test.:9", 80, Some("good.test")),
            ("[::1]", 8080, Some("[::1]:8080")),
            ("", 8080, Some("")),
            ("good.test@bad.test", 8080, None),
            ("good.test:0", 8080, None),
        ] {
            let spelled = judged_host(&HeaderValue::from_static(named), port).ok();
            assert_eq!(spelled.as_deref(), expected, "{named}");
        }
    }
}
