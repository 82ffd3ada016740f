//! Chunks of JSON, from the task that reads Postgres to whoever answers the client.

use super::reader::Reader;
use crate::{Error, Result};
use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;

/// A chunk is handed over once it has this many bytes.
const CHUNK_BYTES: usize = 128 << 10;
/// Chunks that wait for the client, at most.
const CHUNKS_AHEAD: usize = 2;

/// A JSON text.
pub enum Body {
    /// All of it: it was shorter than a chunk.
    Whole(Bytes),
    /// In chunks. An error in the middle must break the connection, since what was sent is no complete JSON text.
    Stream(JsonStream),
}

/// The chunks of a JSON text. Dropping it stops the reading task and frees its connection.
pub struct JsonStream {
    first: Option<Bytes>,
    rest: mpsc::Receiver<Result<Bytes>>,
    /// Set once the last chunk is under way. Without it, an end of the channel is a breach: the task was cut off before
    /// it could say why.
    complete: Arc<AtomicBool>,
    ended: bool,
}

impl Stream for JsonStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        match ready!(self.rest.poll_recv(context)) {
            None if !self.ended && !self.complete.load(Ordering::Acquire) => {
                self.ended = true;
                Poll::Ready(Some(Err(Error::Corrupt("the list of files was cut off before its end".to_owned()))))
            }
            chunk => Poll::Ready(chunk),
        }
    }
}

/// Where a task writes its JSON.
pub(crate) struct Sink {
    /// What has been written since the last chunk went out.
    pub(crate) buffer: Vec<u8>,
    chunks: mpsc::Sender<Result<Bytes>>,
    patience: Duration,
}

impl Sink {
    /// Hands the buffer over if it has become a chunk. Called after each row.
    pub(crate) async fn row_done(&mut self) -> Result<()> {
        if self.buffer.len() < CHUNK_BYTES { Ok(()) } else { self.flush().await }
    }

    async fn flush(&mut self) -> Result<()> {
        let next = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 8);
        let chunk = Bytes::from(std::mem::replace(&mut self.buffer, next));
        match self.chunks.send_timeout(Ok(chunk), self.patience).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::Corrupt("the client went away, or took no chunk of its answer in time".to_owned())),
        }
    }
}

/// Starts `write` in a task of its own and waits for its first chunk. An error before that is returned; a text that is
/// complete by then comes as a whole.
///
/// `patience` is how long a client may take for one chunk; a slower one loses its answer, and its connection to Postgres
/// serves somebody else.
pub(crate) async fn start<F>(mut reader: Reader, patience: Duration, write: F) -> Result<Body>
where
    F: for<'r> FnOnce(&'r mut Reader, &'r mut Sink) -> BoxFuture<'r, Result<()>> + Send + 'static,
{
    let (chunks, mut rest) = mpsc::channel(CHUNKS_AHEAD);
    let complete = Arc::new(AtomicBool::new(false));
    let completed = Arc::clone(&complete);
    let task = async move {
        let client = chunks.clone();
        let mut sink = Sink { buffer: Vec::with_capacity(4 << 10), chunks, patience };
        let written = tokio::select! {
            biased;
            // Postgres may be sorting and have nothing to send yet; a client that went away is noticed all the same.
            () = client.closed() => return,
            written = write(&mut reader, &mut sink) => written,
        };
        let outcome = match written {
            Ok(()) => reader.finish().await,
            Err(error) => Err(reader.fail(error).await),
        };
        let last = outcome.map(|()| Bytes::from(std::mem::take(&mut sink.buffer)));
        let succeeded = last.is_ok();
        if sink.chunks.send_timeout(last, patience).await.is_ok() && succeeded {
            completed.store(true, Ordering::Release);
        }
    };
    // The span of the request goes along, so that what the task logs carries the request's id.
    tokio::spawn(tracing::Instrument::in_current_span(task));
    match rest.recv().await {
        None => Err(Error::Corrupt("the task that reads files ended without an answer".to_owned())),
        Some(Err(error)) => Err(error),
        // A short chunk is the last one.
        Some(Ok(only)) if only.len() < CHUNK_BYTES => Ok(Body::Whole(only)),
        Some(Ok(first)) => Ok(Body::Stream(JsonStream { first: Some(first), rest, complete, ended: false })),
    }
}
