//! A connection that gives up on a client that takes no more of its answer, and has a word for every refusal.

use super::unparsable;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail once the other side has taken nothing for `patience`.
pub(super) struct PatientStream {
    stream: TcpStream,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// What is written in place of a bare refusal, and how much of it has been.
    instead: Option<(Vec<u8>, usize)>,
}

impl PatientStream {
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, stalled: None, instead: None }
    }

    /// Writes the answer that stands in for `written`, all of it; then `written` counts as written.
    fn write_instead(&mut self, context: &mut Context<'_>, written: usize) -> Poll<io::Result<usize>> {
        while let Some((answer, done)) = &mut self.instead {
            if *done == answer.len() {
                break;
            }
            match ready!(Pin::new(&mut self.stream).poll_write(context, &answer[*done..])) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => *done += more,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.instead = None;
        Poll::Ready(Ok(written))
    }

    /// Starts the clock when a write has to wait, stops it when one goes through.
    fn judge<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        stalled.as_mut().reset(Instant::now() + patience);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no more of its answer")))
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            self.instead = unparsable::in_words(bytes).map(|answer| (answer, 0));
        }
        let polled = match self.instead {
            Some(_) => self.write_instead(context, bytes.len()),
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        };
        self.judge(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next())
            && (self.instead.is_some() || unparsable::in_words(only).is_some())
        {
            return self.poll_write(context, only);
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
