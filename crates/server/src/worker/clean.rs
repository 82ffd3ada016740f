//! Cleanup: deletes objects that nothing refers to.

mod objects;
mod uploads;

use super::{Record, Trigger, WorkError, Worker, in_words};
use crate::audit::{Action, Outcome as AuditOutcome};
use chrono::{DateTime, Utc};
use futures::future::join_all;
use futures::{FutureExt, StreamExt, stream};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::fault;
use hoglake_catalog::pace::Pace;
use hoglake_catalog::removals::{ClaimRequest, Claimed, Outcome, QueuePosition};
use hoglake_formats::store::Object;
use object_store::ObjectStore;
use object_store::path::Path;
use objects::{delete_all, existing};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;
use tokio::sync::{Mutex, OnceCell};
use uuid::Uuid;

/// Paths that are claimed together: several bulk deletions, which share the listings that tell what is there.
const CLAIM: i64 = 30_000;
/// Paths that a preview looks at together.
const PREVIEWED: i64 = 10_000;
/// Claims at a time, so that the store deletes while the database claims. Of a timer one.
const LANES: usize = 2;
/// Objects that are deleted, and then settled, together.
const DELETED_TOGETHER: usize = 10_000;
/// Paths that a timer claims together.
const GENTLE_CLAIM: i64 = 4_000;
/// The same while somebody commits.
const BUSY_CLAIM: i64 = 250;

/// `CleanupResult` of the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CleanupStatus {
    /// Objects that were deleted.
    pub removed: i64,
    /// Objects that were not there.
    pub missing: i64,
    /// Paths that are still referred to, and were kept.
    pub still_referenced: i64,
    /// Objects that the store would not delete now; they are tried again.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i64,
}

/// A cleanup on its way, shared by its lanes.
struct Sweep<'a> {
    catalog: &'a CatalogIdentity,
    record: &'a Record,
    trigger: Trigger,
    /// By the database's clock.
    began: DateTime<Utc>,
    /// Paths that may still be claimed.
    left: AtomicI64,
    /// Once something was claimed.
    begun: OnceCell<()>,
    /// One claim at a time: two would stumble over each other's locks.
    claiming: Mutex<()>,
    /// One bulk deletion at a time: lanes that claim and settle meanwhile keep the store and the database busy.
    deleting: Mutex<()>,
}

impl Sweep<'_> {
    fn left(&self) -> i64 {
        self.left.load(Ordering::Relaxed)
    }
}

impl CleanupStatus {
    fn add(&mut self, other: &Self) {
        self.removed += other.removed;
        self.missing += other.missing;
        self.still_referenced += other.still_referenced;
        self.failed += other.failed;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

impl Worker {
    /// Drains at most `batch` entries of the removal queue; with `dry_run` says what it would do.
    ///
    /// # Errors
    /// [`WorkError::Catalog`]. An object that cannot be deleted is counted and stays queued.
    pub async fn clean(
        &self,
        catalog: &CatalogIdentity,
        batch: i64,
        dry_run: bool,
        trigger: Trigger,
    ) -> Result<CleanupStatus, WorkError> {
        if dry_run {
            return self.clean_preview(catalog, batch).await;
        }
        let record = self.record(catalog.id, "cleanup", trigger).await?;
        let status = self.clean_batch(catalog, batch, &record, trigger).await;
        let status = record.finish(status).await?;
        if trigger == Trigger::Timer && status != CleanupStatus::default() {
            let detail = format!(
                "{} removed, {} missing, {} still referenced, {} failed",
                status.removed, status.missing, status.still_referenced, status.failed
            );
            self.audit_line(Action::Cleanup, AuditOutcome::Ok, &catalog.name, None, Some(&detail));
        }
        self.catalog.removals_purge(catalog.id, self.settings.ledger_retention()).await?;
        Ok(status)
    }

    async fn clean_preview(&self, catalog: &CatalogIdentity, batch: i64) -> Result<CleanupStatus, WorkError> {
        let mut status = CleanupStatus::default();
        let mut position = QueuePosition::default();
        let mut left = batch;
        let sweep_began = self.catalog.database_time().await?;
        // a page at a time, whatever the queue holds
        while left > 0 {
            let (claimant, min_age, limit) = (Uuid::nil(), self.settings.removal_min_age(), left.min(PREVIEWED));
            let request = ClaimRequest { claimant, min_age, limit, sweep_began };
            let claims = self.catalog.removals_preview(catalog.id, request, &mut position).await?;
            let (total, referenced) = (count(claims.unreferenced.len()), count(claims.referenced.len()));
            if total + referenced == 0 {
                break;
            }
            left -= total + referenced;
            let (groups, unopened) = self.by_store(claims.unreferenced);
            let mut removed = 0;
            for (store, objects) in groups {
                removed += count(existing(&store, &objects).await.0.len());
            }
            status.add(&CleanupStatus {
                removed,
                missing: total - removed - count(unopened.len()),
                still_referenced: referenced,
                failed: count(unopened.len()),
            });
        }
        Ok(status)
    }

    async fn clean_batch(
        &self,
        catalog: &CatalogIdentity,
        batch: i64,
        record: &Record,
        trigger: Trigger,
    ) -> Result<CleanupStatus, WorkError> {
        let lanes = if trigger == Trigger::Timer { 1 } else { LANES };
        let began = self.catalog.database_time().await?;
        let sweep = Sweep {
            catalog,
            record,
            trigger,
            began,
            left: AtomicI64::new(batch),
            begun: OnceCell::new(),
            claiming: Mutex::new(()),
            deleting: Mutex::new(()),
        };
        let mut total = CleanupStatus::default();
        for lane in join_all((0..lanes).map(|_| self.clean_lane(&sweep))).await {
            total.add(&lane?);
        }
        Ok(total)
    }

    /// Claims, deletes and settles until the queue is empty, the batch is used up, or a lane has failed.
    async fn clean_lane(&self, sweep: &Sweep<'_>) -> Result<CleanupStatus, WorkError> {
        let mut status = CleanupStatus::default();
        let mut pace = Pace::new(sweep.catalog.id, sweep.trigger == Trigger::Timer);
        let outcome = async {
            while sweep.left() > 0 && self.clean_step(sweep, &mut pace, &mut status).await? {
                if self.is_stopping() {
                    return Err(WorkError::Stopped);
                }
            }
            Ok(())
        }
        .await;
        if outcome.is_err() {
            sweep.left.store(0, Ordering::Relaxed);
        }
        outcome.map(|()| status)
    }

    /// One claim. False when there was nothing to claim.
    async fn clean_step(
        &self,
        sweep: &Sweep<'_>,
        pace: &mut Pace,
        status: &mut CleanupStatus,
    ) -> Result<bool, WorkError> {
        let turn = sweep.claiming.lock().await;
        let begun = Instant::now();
        let limit = sweep.left().min(pace.step(CLAIM, GENTLE_CLAIM, BUSY_CLAIM));
        sweep.left.fetch_sub(limit, Ordering::Relaxed);
        let request = ClaimRequest {
            claimant: Uuid::new_v4(),
            min_age: self.settings.removal_min_age(),
            limit,
            sweep_began: sweep.began,
        };
        let claims = self.catalog.removals_claim(sweep.catalog.id, request).await?;
        drop(turn);
        let claimed = count(claims.unreferenced.len() + claims.referenced.len());
        if claimed == 0 {
            return Ok(false);
        }
        sweep.left.fetch_add(limit - claimed, Ordering::Relaxed);
        sweep.begun.get_or_try_init(|| sweep.record.begin()).await?;
        for (kept, referrer) in &claims.referenced {
            status.still_referenced += 1;
            let detail = format!("kept: {referrer} refers to it");
            let outcome = AuditOutcome::InvariantViolation;
            self.audit_line(Action::CleanupViolation, outcome, &sweep.catalog.name, Some(&kept.path), Some(&detail));
        }
        let ids: Vec<i64> = claims.unreferenced.iter().map(|claimed| claimed.removal_id).collect();
        let deleted = self.delete(sweep, request.claimant, claims.unreferenced, status).await;
        if matches!(deleted, Err(WorkError::Stopped)) {
            self.catalog.removals_give_back(request.claimant, &ids).await?;
        }
        deleted?;
        if sweep.left() > 0 {
            self.catalog.rest(pace, begun.elapsed()).await?;
        }
        Ok(true)
    }

    /// Deletes claimed objects, no transaction open, and settles the claims, a page while the next one is deleted.
    async fn delete(
        &self,
        sweep: &Sweep<'_>,
        claimant: Uuid,
        claimed: Vec<Claimed>,
        status: &mut CleanupStatus,
    ) -> Result<(), WorkError> {
        let staged: Vec<Claimed> = claimed.iter().filter(|c| c.is_staged).cloned().collect();
        let half_way = self.unless_stopping(async { Ok::<_, WorkError>(self.remove_unfinished(staged).await) }).await?;
        let paths = claimed.iter().map(|c| (c.removal_id, c.path.clone())).collect();
        let (groups, unopened) = self.by_store(claimed);
        self.settle(sweep, claimant, &Fates { failed: unopened, ..Fates::default() }, &paths, status).await?;
        for (store, objects) in groups {
            let looked = async { Ok::<_, WorkError>(existing(&store, &objects).await) };
            let (present, unknown) = self.unless_stopping(looked).await?;
            let group = Group { claimant, store, present, unknown, half_way: &half_way, paths: &paths };
            let pages: Vec<_> =
                objects.chunks(DELETED_TOGETHER).map(|page| self.delete_page(sweep, &group, page).boxed()).collect();
            let settled: Vec<_> = stream::iter(pages).buffered(2).collect().await;
            for page in settled {
                status.add(&page?);
            }
        }
        Ok(())
    }

    /// Deletes and settles what is ours still, unless it is time to stop: whoever was kept waiting for too long may have lost
    /// its claims, and then the paths may be those of live files by now.
    async fn delete_page(
        &self,
        sweep: &Sweep<'_>,
        group: &Group<'_>,
        page: &[(i64, Object)],
    ) -> Result<CleanupStatus, WorkError> {
        let turn = sweep.deleting.lock().await;
        if self.is_stopping() {
            return Err(WorkError::Stopped);
        }
        let ids: Vec<i64> = page.iter().map(|(removal, _)| *removal).collect();
        let held = self.catalog.removals_hold(group.claimant, &ids).await?;
        let page: Vec<_> = page.iter().filter(|(removal, _)| held.contains(removal)).cloned().collect();
        let present = page.iter().map(|(_, object)| &object.path).filter(|path| group.present.contains(*path)).cloned();
        let (gone, errors) = delete_all(&group.store, present.collect()).await;
        drop(turn);
        fault::point("cleanup.deleted");
        let mut status = CleanupStatus::default();
        let fates = group.fates(&page, &gone, &errors);
        self.settle(sweep, group.claimant, &fates, group.paths, &mut status).await?;
        Ok(status)
    }

    /// Settles claims by what became of their objects, and gives the others back.
    async fn settle(
        &self,
        sweep: &Sweep<'_>,
        claimant: Uuid,
        fates: &Fates,
        paths: &HashMap<i64, String>,
        status: &mut CleanupStatus,
    ) -> Result<(), WorkError> {
        let catalog = &sweep.catalog.name;
        status.failed += count(fates.failed.len());
        self.catalog.removals_release(claimant, &fates.failed).await?;
        for (outcome, removals) in [(Outcome::Deleted, &fates.deleted), (Outcome::Absent, &fates.absent)] {
            let ours = self.catalog.removals_settle(claimant, removals, outcome).await?;
            let (counted, detail) = match outcome {
                Outcome::Deleted => (&mut status.removed, "deleted"),
                Outcome::Absent => (&mut status.missing, "was not there"),
            };
            *counted += count(ours.len());
            for removal in ours {
                let path = paths.get(&removal).map(String::as_str);
                self.audit_line(Action::FileDeleted, AuditOutcome::Ok, catalog, path, Some(detail));
            }
        }
        metrics::counter!("hoglake_files_removed_total", "catalog" => catalog.clone())
            .increment((fates.deleted.len() + fates.absent.len()) as u64);
        Ok(())
    }

    /// Objects by the client that serves them, and the entries whose path no client serves, with why.
    fn by_store(&self, claimed: Vec<Claimed>) -> (Vec<StoreGroup>, Vec<(i64, String)>) {
        let mut groups: Vec<StoreGroup> = Vec::new();
        let mut unopened = Vec::new();
        for claimed in claimed {
            match self.object(&claimed.path) {
                Ok(object) => match groups.iter_mut().find(|(store, _)| Arc::ptr_eq(store, &object.store)) {
                    Some((_, objects)) => objects.push((claimed.removal_id, object)),
                    None => groups.push((Arc::clone(&object.store), vec![(claimed.removal_id, object)])),
                },
                Err(error) => unopened.push((claimed.removal_id, in_words(&error))),
            }
        }
        (groups, unopened)
    }
}

/// A client and the queue entries whose objects it serves.
type StoreGroup = (Arc<dyn ObjectStore>, Vec<(i64, Object)>);

/// What became of the objects of queue entries.
#[derive(Default)]
struct Fates {
    deleted: Vec<i64>,
    absent: Vec<i64>,
    /// With why they stay.
    failed: Vec<(i64, String)>,
}

/// Claimed objects of one store.
struct Group<'a> {
    claimant: Uuid,
    store: Arc<dyn ObjectStore>,
    present: HashSet<Path>,
    /// Of which it is not known whether they exist, and why.
    unknown: HashMap<Path, String>,
    /// Whose unfinished uploads were removed, or why not.
    half_way: &'a HashMap<i64, Result<(), String>>,
    paths: &'a HashMap<i64, String>,
}

impl Group<'_> {
    /// What became of `page` after a deletion that confirmed `gone` and failed with `errors`.
    fn fates(&self, page: &[(i64, Object)], gone: &HashSet<Path>, errors: &HashMap<Path, String>) -> Fates {
        let mut fates = Fates::default();
        for (removal, object) in page {
            let path = &object.path;
            let half = self.half_way.get(removal);
            let error = half.and_then(|half| half.as_ref().err());
            let is_present = self.present.contains(path);
            if let Some(error) = self.unknown.get(path).or_else(|| errors.get(path)).or(error) {
                fates.failed.push((*removal, error.clone()));
            } else if gone.contains(path) || (half.is_some() && !is_present) {
                fates.deleted.push(*removal);
            } else if !is_present {
                fates.absent.push(*removal);
            } else {
                fates.failed.push((*removal, "the store did not say whether it deleted the object".to_owned()));
            }
        }
        fates
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
