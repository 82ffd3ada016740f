//! The end of a process: work ends between two steps, and gives back what it has claimed, so that others need not wait
//! until the claims end.

use super::{WorkError, Worker};
use tokio_util::sync::CancellationToken;

impl Worker {
    /// Lets all work end: what is under way between two of its steps, as [`WorkError::Stopped`].
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// One that can be stopped for itself, and ends with this one.
    pub(super) fn apart(&self) -> (Self, CancellationToken) {
        let stop = self.stop.child_token();
        (Self { parts: self.parts.clone(), stop: stop.clone() }, stop)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// When work is to end.
    pub(super) async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// What comes out of `work`, which is left where it is when it is to end: for what claims nothing.
    ///
    /// # Errors
    /// [`WorkError::Stopped`], and those of `work`.
    pub(super) async fn unless_stopping<T, E: Into<WorkError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, WorkError> {
        tokio::select! {
            biased;
            () = self.stopping() => Err(WorkError::Stopped),
            done = work => done.map_err(E::into),
        }
    }
}
