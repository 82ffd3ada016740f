//! A request body whose rest is taken when nobody wants it.
//!
//! An answer may come before the body is read: a missing token, a wrong route, too large a body. Closing the
//! connection on a client that is still sending would make it lose that answer, so the rest is read and thrown away,
//! within reason.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// Most that is thrown away.
const MOST_BYTES: usize = 256 << 20;
/// Longest that it may take.
const LONGEST: Duration = Duration::from_secs(10);
/// A client that pauses for so long has stopped.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes sure that the rest of the request's body is taken.
pub(super) fn drained(request: Request) -> Request {
    // A client that asks before it sends must not be told to go on.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return request;
    }
    request.map(|body| Body::new(Drained(body)))
}

struct Drained(Body);

impl HttpBody for Drained {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let body = std::mem::take(&mut self.0);
        if !body.is_end_stream()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(timeout(LONGEST, discard(body)));
        }
    }
}

async fn discard(mut body: Body) {
    let mut taken = 0;
    while let Ok(Some(Ok(frame))) = timeout(PAUSE, body.frame()).await {
        taken += frame.data_ref().map_or(0, Bytes::len);
        if taken > MOST_BYTES {
            return;
        }
    }
}
