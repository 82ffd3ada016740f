//! The hydrator: reads footers of files that were registered without statistics.

use super::{Record, Trigger, WorkError, Worker, in_words};
use futures::{StreamExt, TryStreamExt, stream};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::hydration::{Hydrated, PendingColumn, PendingFile};
use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::{FooterError, RegisteredFile, footer_statistics};
use hoglake_model::FileId;
use serde::Serialize;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Files that one claim takes.
const CLAIM: i64 = 1_024;
/// Outcomes that are stored together, and how many such batches are stored at a time.
const SETTLE: usize = 256;
const SETTLES: usize = 2;
/// How long a hydration on request goes on before its progress is shown.
pub const HYDRATION_BITE: Duration = Duration::from_secs(10);
/// How long a claim lasts: many times what a batch takes.
const LEASE: Duration = Duration::from_secs(300);
/// Longest wait before a file that the store could not serve is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(900);

/// What a run of the hydrator did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HydrationStatus {
    /// Files that got statistics.
    pub hydrated: i64,
    /// Files whose footers cannot be used.
    pub failed: i64,
    /// Files that the store could not serve; they are tried again later.
    pub retried: i64,
    /// The first failures in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// `RehydrateResult` of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Requeued {
    /// Files that went from failed to pending.
    pub requeued: i64,
}

impl Worker {
    /// Queues failed files of a catalog, or of one of its tables, for hydration.
    ///
    /// # Errors
    /// Those of [`hoglake_catalog::Catalog::rehydrate`].
    pub async fn rehydrate(
        &self,
        catalog: &CatalogIdentity,
        namespace: Option<&str>,
        table: Option<&str>,
    ) -> Result<Requeued, WorkError> {
        let record = self.record(catalog.id, "rehydrate", Trigger::Request).await?;
        let requeued = self.catalog.rehydrate(&catalog.name, namespace, table).await;
        record.finish(requeued.map(|requeued| Requeued { requeued }).map_err(WorkError::from)).await
    }

    /// Hydrates pending files of a catalog until none is due or `budget` is over. Whatever the budget, as many are read as
    /// are read at a time, so that a short turn comes forward, too.
    ///
    /// # Errors
    /// [`WorkError::Catalog`]. Failures of single files are counted, not returned.
    pub async fn hydrate(
        &self,
        catalog: &CatalogIdentity,
        budget: Duration,
        trigger: Trigger,
    ) -> Result<HydrationStatus, WorkError> {
        let until = Instant::now() + budget;
        let record = self.record(catalog.id, "hydrate", trigger).await?;
        let status = self.hydrate_until(catalog, until, &record).await;
        record.finish(status).await
    }

    async fn hydrate_until(
        &self,
        catalog: &CatalogIdentity,
        until: Instant,
        record: &Record,
    ) -> Result<HydrationStatus, WorkError> {
        let claimant = Uuid::new_v4();
        let claims = stream::try_unfold(true, |is_first| async move {
            if self.is_stopping() || (!is_first && Instant::now() >= until) {
                return Ok(None);
            }
            let files = self.catalog.hydration_claim(catalog.id, claimant, LEASE, CLAIM).await?;
            if files.is_empty() {
                return Ok(None);
            }
            record.begin().await?;
            Ok::<_, WorkError>(Some((stream::iter(files.into_iter().map(Ok::<_, WorkError>)), false)))
        });
        // Claiming, reading and storing go on side by side: whoever waits for one of them keeps none of the others waiting.
        // A store that does not answer takes long with each of a claim's files: what is not begun in time is given back.
        let mut settled = claims
            .try_flatten()
            .enumerate()
            .map(|(number, file)| file.map(|file| (number < self.settings.hydrator_concurrency, file)))
            .map_ok(|(is_first, file)| async move {
                let is_over = !is_first && Instant::now() >= until;
                let read = async { if is_over { Hydrated::NotBegun } else { self.read_footer(&file).await } };
                tokio::select! {
                    biased;
                    () = self.stopping() => Ok((file.id, Hydrated::NotBegun)),
                    read = read => Ok((file.id, read)),
                }
            })
            .try_buffer_unordered(self.settings.hydrator_concurrency)
            .try_chunks(SETTLE)
            .map_err(|error| error.1)
            .map_ok(|outcomes| async move {
                let counts = self.catalog.hydration_settle(catalog.id, claimant, &outcomes).await?;
                Ok((outcomes, counts))
            })
            .try_buffer_unordered(SETTLES)
            .boxed();
        let mut status = HydrationStatus::default();
        while let Some((outcomes, (provided, failed))) = settled.try_next().await? {
            status.count(&outcomes, provided, failed);
        }
        if self.is_stopping() { Err(WorkError::Stopped) } else { Ok(status) }
    }

    async fn read_footer(&self, file: &PendingFile) -> Hydrated {
        let registered = RegisteredFile {
            file_size_bytes: u64::try_from(file.file_size_bytes).unwrap_or(0),
            footer_size: file.footer_size.and_then(|f| u64::try_from(f).ok()),
            record_count: Some(file.record_count),
            max_whole_object_bytes: self.settings.hydrator_max_whole_object_bytes,
        };
        let read = async {
            let object = self.object(&file.path)?;
            footer_statistics(&object, registered, &columns(&file.columns)).await
        };
        match read.await {
            Ok(found) => Hydrated::Provided {
                statistics: found.columns,
                missing_field_ids: found.missing_field_ids,
                footer_size: i64::try_from(found.footer_size).ok(),
            },
            Err(error) if error.is_transient() => {
                metrics::counter!("hoglake_hydrator_transient_errors_total").increment(1);
                Hydrated::Retry(in_words(&error), wait(file.attempts))
            }
            Err(error) => Hydrated::Failed(reason(&error)),
        }
    }
}

impl HydrationStatus {
    fn count(&mut self, outcomes: &[(FileId, Hydrated)], provided: i64, failed: i64) {
        self.hydrated += provided;
        self.failed += failed;
        for (file, outcome) in outcomes {
            match outcome {
                Hydrated::Provided { .. } | Hydrated::NotBegun => {}
                Hydrated::Retry(..) => self.retried += 1,
                Hydrated::Failed(reason) if self.failures.len() < 20 => {
                    self.failures.push(format!("data file {file}: {reason}"));
                }
                Hydrated::Failed(_) => {}
            }
        }
        for (result, count) in [("provided", provided), ("failed", failed)] {
            metrics::counter!("hoglake_stats_hydrated_total", "result" => result)
                .increment(u64::try_from(count).unwrap_or(0));
        }
    }
}

/// What an operator reads about a file that cannot be used.
fn reason(error: &FooterError) -> String {
    format!("{}; mend or replace the object, then rehydrate", in_words(error))
}

/// Twice as long each time, from five seconds, with some disorder so that files do not come back all at once.
fn wait(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(10);
    let wait = Duration::from_secs(5).saturating_mul(1 << doublings).min(LONGEST_WAIT);
    wait.mul_f64(0.75 + rand::random::<f64>() / 2.0)
}

/// Columns as the codec wants them. One that came after the file's registration gets a name that no file has.
pub(crate) fn columns(pending: &[PendingColumn]) -> Vec<Column> {
    pending
        .iter()
        .map(|column| Column {
            field_id: column.field_id,
            name: column.name.clone().unwrap_or_else(|| format!("\0{}", column.field_id)),
            ty: column.ty,
            nullable: column.nullable,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_stay_bounded() {
        for (attempts, low, high) in [(1, 3, 7), (2, 7, 13), (3, 15, 25), (12, 675, 1125), (i32::MAX, 675, 1125)] {
            let wait = wait(attempts);
            assert!(wait >= Duration::from_secs(low) && wait <= Duration::from_secs(high), "{attempts}: {wait:?}");
        }
    }
}
