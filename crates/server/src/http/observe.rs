//! What is known of every request when it is over: metrics by operation and status, and a log line.

use super::drain::drained;
use super::request_id::{self, RequestId};
use crate::operation::OperationId;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tracing::{Instrument, Span};

/// Gives the request its id and follows it until its answer is sent or abandoned.
pub(super) async fn observe(mut request: Request, next: Next) -> Response {
    let request_id = RequestId::of(request.headers());
    let span = tracing::info_span!(target: "hoglake.http", "request", request_id = request_id.as_str());
    let method = request.method().clone();
    request.extensions_mut().insert(request_id.clone());
    metrics::gauge!("hoglake_http_requests_in_flight").increment(1);
    let mut exchange = Exchange {
        operation: "unmatched",
        method,
        status: 0,
        sent: 0,
        complete: false,
        start: Instant::now(),
        span: span.clone(),
    };

    let mut response = next.run(drained(request)).instrument(span).await;
    if let Some(OperationId(operation)) = response.extensions().get() {
        exchange.operation = operation;
    }
    exchange.status = response.status().as_u16();
    if let Some(value) = request_id.header_value() {
        response.headers_mut().insert(&request_id::HEADER, value);
    }
    response.map(|inner| {
        exchange.complete = inner.is_end_stream();
        Body::new(Observed { inner, exchange })
    })
}

/// One request and its answer; counted when it is dropped, which also covers clients that went away.
struct Exchange {
    operation: &'static str,
    method: Method,
    status: u16,
    sent: u64,
    complete: bool,
    start: Instant,
    span: Span,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let duration = self.start.elapsed();
        // 499, as nginx has it: the client went away before the answer.
        let status = if self.status == 0 { 499 } else { self.status };
        let labels = [("operation", self.operation.to_owned()), ("status", status.to_string())];
        metrics::counter!("hoglake_http_requests_total", &labels).increment(1);
        metrics::histogram!("hoglake_http_request_duration_seconds", "operation" => self.operation)
            .record(duration.as_secs_f64());
        metrics::gauge!("hoglake_http_requests_in_flight").decrement(1);
        self.span.in_scope(|| {
            tracing::debug!(
                target: "hoglake.http",
                operation = self.operation,
                method = self.method.as_str(),
                status,
                complete = self.complete,
                sent_bytes = self.sent,
                duration_ms = duration.as_secs_f64() * 1e3,
                "request finished"
            );
        });
    }
}

/// A body that tells its [`Exchange`] how much of it was sent.
struct Observed {
    inner: Body,
    exchange: Exchange,
}

impl HttpBody for Observed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.exchange.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                self.exchange.complete = self.inner.is_end_stream();
            }
            Poll::Ready(None) => self.exchange.complete = true,
            Poll::Ready(Some(Err(error))) => {
                let _entered = self.exchange.span.enter();
                tracing::error!(target: "hoglake.http", operation = self.exchange.operation, %error, "answer broke off");
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
