//! Informational responses (RFC 9110 section 15.2), as 103 Early Hints, on their way from a host to a client. hyper's
//! server writes final responses alone, so these go around it, where nothing of a response is under way: what a host
//! says never gets into what another one said before.

use crate::answer::BUFFER_MAX;
use crate::headers;
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode, Version};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Where they wait for the client of a connection.
#[derive(Clone, Default)]
pub(crate) struct Interim(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Whole responses, of which the first may be written in part.
    waiting: Vec<u8>,
    /// hyper has written something that it has not flushed: the beginning of a response, perhaps.
    is_written: bool,
    /// The task of the connection, which flushes.
    task: Option<Waker>,
    /// Which request waits for its response: what a host says later, or of another one, is nobody's.
    request: u64,
}

impl Interim {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what comes before the response to `request`, which is as the client sent it, passed on: in HTTP/1.0 there is
    /// nothing of that kind, and 100 is hyper's to say.
    pub(crate) fn of<B>(request: &mut Request<B>) -> Interim {
        let interim = request.extensions_mut().remove::<Interim>().unwrap_or_default();
        interim.state().request += 1;
        let (passed, number) = (interim.clone(), interim.state().request);
        if request.version() == Version::HTTP_11 {
            hyper::ext::on_informational(request, move |response| {
                if response.status() != StatusCode::CONTINUE {
                    passed.add(number, response.status(), response.headers().clone());
                }
            });
        }
        interim
    }

    /// Runs `waiting`, which is until the response is there, in the task that serves the client.
    pub(crate) async fn until<F: Future>(&self, waiting: F) -> F::Output {
        let mut waiting = pin!(waiting);
        let output = poll_fn(|cx| {
            self.state().task = Some(cx.waker().clone());
            waiting.as_mut().poll(cx)
        });
        let output = output.await;
        self.state().request += 1;
        output
    }

    fn add(&self, request: u64, status: StatusCode, mut fields: HeaderMap) {
        headers::strip_hop_by_hop(&mut fields);
        // It has no body.
        fields.remove(header::CONTENT_LENGTH);
        fields.remove(header::TRANSFER_ENCODING);
        let reason = status.canonical_reason().unwrap_or_default();
        let mut text = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
        for (name, value) in &fields {
            text.extend_from_slice(
                &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat(),
            );
        }
        text.extend_from_slice(b"\r\n");
        let mut state = self.state();
        // It may be left out: the final response is what counts.
        let is_between = state.request == request && !state.is_written;
        if is_between && state.waiting.len() + text.len() <= BUFFER_MAX {
            state.waiting.append(&mut text);
            if let Some(task) = state.task.take() {
                task.wake();
            }
        }
    }
}

/// A client's stream, which hyper writes and these responses.
pub(crate) struct WithInterim<S> {
    stream: S,
    interim: Interim,
}

impl<S> WithInterim<S> {
    pub(crate) fn new(stream: S, interim: Interim) -> Self {
        Self { stream, interim }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncWrite + Unpin> WithInterim<S> {
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.interim.state();
        while !state.waiting.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &state.waiting))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            state.waiting.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithInterim<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

/// hyper flushes when all that it has to write is written: before that, and before it begins, something of a response
/// may be under way.
impl<S: AsyncWrite + Unpin> AsyncWrite for WithInterim<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_waiting(cx))?;
        self.interim.state().is_written = true;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_waiting(cx))?;
        self.interim.state().is_written = true;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_waiting(cx))?;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.interim.state().is_written = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_waiting(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
