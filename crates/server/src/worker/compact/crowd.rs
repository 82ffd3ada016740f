//! Whether commits come in while files are rewritten.

use super::super::{Worker, in_words};
use hoglake_catalog::pace::Pace;
use hoglake_model::CatalogId;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often head is looked at.
const LOOKS: Duration = Duration::from_millis(200);

impl Worker {
    /// Sets `crowded` while head of the catalog moves, until `work` is done. A server that has its machine to itself
    /// rewrites at full speed.
    pub(super) async fn while_watching<T>(
        &self,
        catalog: CatalogId,
        crowded: &AtomicBool,
        work: impl Future<Output = T>,
    ) -> T {
        let mut pace = Pace::new(catalog, true);
        let watch = async {
            loop {
                match self.catalog.is_busy(&mut pace).await {
                    Ok(busy) => crowded.store(busy, Ordering::Relaxed),
                    Err(error) => tracing::debug!(error = in_words(&error), "head was not looked at"),
                }
                tokio::time::sleep(LOOKS).await;
            }
        };
        tokio::select! {
            done = work => done,
            never = watch => never,
        }
    }
}
