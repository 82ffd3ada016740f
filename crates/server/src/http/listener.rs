//! Accepts connections, serves them, and stops without losing what was accepted.

use super::patience::PatientStream;
use crate::config::http::HttpConfig;
use axum::Router;
use futures::FutureExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// How the serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Every accepted request was answered.
    Complete,
    /// Some were still going on when time was up, and were cut off.
    CutOff,
}

/// Serves `router` on `listener` until `stop` resolves; then answers what was accepted, for at most the configured
/// time.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    config: &HttpConfig,
    stop: impl Future<Output = ()>,
) -> Shutdown {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(config.header_timeout_ms);
    let connections =
        Connections { builder, service: TowerToHyperService::new(router), patience: config.write_timeout_ms };
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.as_mut() => break,
        };
        match accepted {
            Ok((stream, _)) => connections.spawn(stream, graceful.watcher()),
            Err(error) => pause_after(&error).await,
        }
    }
    // What the kernel has accepted for us counts as accepted.
    while let Some(Ok((stream, _))) = listener.accept().now_or_never() {
        connections.spawn(stream, graceful.watcher());
    }
    drop(listener);
    tracing::info!(connections = graceful.count(), "stopping: no new connections, answering what was accepted");
    match tokio::time::timeout(config.shutdown_timeout_ms, graceful.shutdown()).await {
        Ok(()) => Shutdown::Complete,
        Err(_elapsed) => {
            tracing::warn!(timeout_ms = config.shutdown_timeout_ms.as_millis() as u64, "some requests were cut off");
            Shutdown::CutOff
        }
    }
}

struct Connections {
    builder: http1::Builder,
    service: TowerToHyperService<Router>,
    patience: Duration,
}

impl Connections {
    fn spawn(&self, stream: TcpStream, watcher: Watcher) {
        // Answers are written in few large pieces; waiting to fill packets would only delay the small ones.
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(PatientStream::new(stream, self.patience));
        let connection = self.builder.serve_connection(io, self.service.clone());
        tokio::spawn(async move {
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(target: "hoglake.http", %error, "connection ended");
            }
        });
    }
}

/// Out of file descriptors: closing connections will help, retrying at once will not.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "a connection cannot be accepted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
