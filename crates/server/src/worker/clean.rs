//! Cleanup: deletes objects that nothing refers to.

mod uploads;

use super::{Record, Trigger, WorkError, Worker, in_words};
use crate::audit::{Action, Outcome as AuditOutcome};
use futures::{StreamExt, TryStreamExt, stream};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::fault;
use hoglake_catalog::pace::Pace;
use hoglake_catalog::removals::{ClaimRequest, Claimed, Outcome};
use hoglake_formats::store::{Object, StoreError};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// Paths that are claimed together: several bulk deletions, which share the listings that tell what is there.
const CLAIM: i64 = 50_000;
/// Paths that a timer claims together.
const GENTLE_CLAIM: i64 = 4_000;
/// The same while somebody commits.
const BUSY_CLAIM: i64 = 250;
/// Objects that are looked for, or deleted one by one, at a time.
const CONCURRENCY: usize = 64;
/// From this many objects in a folder on, listing it is cheaper than asking for each.
const WORTH_LISTING: usize = 32;
/// Objects of others that a listing may go over for each that it is asked about. A request for one object costs a store
/// a tenth of a page of a thousand.
const LISTED_PER_OBJECT: usize = 64;

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
        let claims = self.catalog.removals_preview(catalog.id, self.settings.removal_min_age(), batch).await?;
        let total = claims.unreferenced.len();
        let mut status = CleanupStatus { still_referenced: count(claims.referenced.len()), ..CleanupStatus::default() };
        let (groups, unopened) = self.by_store(claims.unreferenced);
        status.failed = count(unopened.len());
        for (store, objects) in groups {
            status.removed += count(existing(&store, &objects).await.0.len());
        }
        status.missing = count(total) - status.removed - status.failed;
        Ok(status)
    }

    async fn clean_batch(
        &self,
        catalog: &CatalogIdentity,
        batch: i64,
        record: &Record,
        trigger: Trigger,
    ) -> Result<CleanupStatus, WorkError> {
        let mut pace = Pace::new(catalog.id, trigger == Trigger::Timer);
        let mut status = CleanupStatus::default();
        let sweep_began = self.catalog.database_time().await?;
        let mut left = batch;
        while left > 0 {
            let begun = Instant::now();
            let request = ClaimRequest {
                claimant: Uuid::new_v4(),
                min_age: self.settings.removal_min_age(),
                limit: left.min(pace.step(CLAIM, GENTLE_CLAIM, BUSY_CLAIM)),
                sweep_began,
            };
            let claims = self.catalog.removals_claim(catalog.id, request).await?;
            let claimed = claims.unreferenced.len() + claims.referenced.len();
            if claimed == 0 {
                break;
            }
            left -= count(claimed);
            record.begin().await?;
            for (kept, referrer) in &claims.referenced {
                status.still_referenced += 1;
                let detail = format!("kept: {referrer} refers to it");
                let outcome = AuditOutcome::InvariantViolation;
                self.audit_line(Action::CleanupViolation, outcome, &catalog.name, Some(&kept.path), Some(&detail));
            }
            self.delete(catalog, request.claimant, claims.unreferenced, &mut status).await?;
            if left > 0 {
                self.catalog.rest(&mut pace, begun.elapsed()).await?;
            }
        }
        Ok(status)
    }

    /// Deletes claimed objects, no transaction open, and settles the claims.
    async fn delete(
        &self,
        catalog: &CatalogIdentity,
        claimant: Uuid,
        claimed: Vec<Claimed>,
        status: &mut CleanupStatus,
    ) -> Result<(), WorkError> {
        let staged: Vec<Claimed> = claimed.iter().filter(|c| c.is_staged).cloned().collect();
        let half_way = self.remove_unfinished(staged).await;
        let paths: HashMap<i64, String> = claimed.iter().map(|c| (c.removal_id, c.path.clone())).collect();
        let (groups, mut failed) = self.by_store(claimed);
        let mut settled: Vec<(i64, Outcome)> = Vec::new();
        for (store, objects) in groups {
            let (present, unknown) = existing(&store, &objects).await;
            let (gone, errors) = delete_all(&store, present.iter().cloned().collect()).await;
            for (removal, object) in objects {
                let path = &object.path;
                let half = half_way.get(&removal);
                let error = half.and_then(|half| half.as_ref().err());
                if let Some(error) = unknown.get(path).or_else(|| errors.get(path)).or(error) {
                    failed.push((removal, error.clone()));
                } else if gone.contains(path) || (half.is_some() && !present.contains(path)) {
                    settled.push((removal, Outcome::Deleted));
                } else if !present.contains(path) {
                    settled.push((removal, Outcome::Absent));
                } else {
                    failed.push((removal, "the store did not say whether it deleted the object".to_owned()));
                }
            }
        }
        fault::point("cleanup.deleted");
        status.failed += count(failed.len());
        self.catalog.removals_release(claimant, &failed).await?;
        let outcomes: HashMap<i64, Outcome> = settled.iter().copied().collect();
        for removal in self.catalog.removals_settle(claimant, &settled).await? {
            let (removed, detail) = match outcomes.get(&removal) {
                Some(Outcome::Deleted) => (true, "deleted"),
                _ => (false, "was not there"),
            };
            status.removed += i64::from(removed);
            status.missing += i64::from(!removed);
            let path = paths.get(&removal).map(String::as_str);
            self.audit_line(Action::FileDeleted, AuditOutcome::Ok, &catalog.name, path, Some(detail));
        }
        metrics::counter!("hoglake_files_removed_total", "catalog" => catalog.name.clone())
            .increment(settled.len() as u64);
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

/// Which objects exist, and why it is not known of others. Folders that lose many objects are listed over the range of
/// their names; other objects are asked for one by one.
async fn existing(store: &Arc<dyn ObjectStore>, objects: &[(i64, Object)]) -> (HashSet<Path>, HashMap<Path, String>) {
    let mut folders: HashMap<Path, Vec<&Object>> = HashMap::new();
    for (_, object) in objects {
        let parent: Path = object.path.parts().take(object.path.parts().count().saturating_sub(1)).collect();
        folders.entry(parent).or_default().push(object);
    }
    let mut present = HashSet::new();
    let mut unknown = HashMap::new();
    let mut single = Vec::new();
    for (folder, objects) in folders {
        if objects.len() < WORTH_LISTING || !list_range(store, &folder, &objects, &mut present).await {
            single.extend(objects.into_iter().cloned());
        }
    }
    let heads = stream::iter(single)
        .map(|object: Object| async move {
            let head = object.store.head(&object.path).await;
            (object, head)
        })
        .buffer_unordered(CONCURRENCY);
    let mut heads = std::pin::pin!(heads);
    while let Some((object, head)) = heads.next().await {
        match head.map_err(|error| object.error(error)) {
            Ok(_) => drop(present.insert(object.path)),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => drop(unknown.insert(object.path, in_words(&error))),
        }
    }
    (present, unknown)
}

/// Adds to `present` which of `objects`, all of one folder, exist. False when the folder holds so much else that listing
/// it does not pay, or cannot be listed; nothing is added then.
async fn list_range(
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    objects: &[&Object],
    present: &mut HashSet<Path>,
) -> bool {
    let wanted: HashSet<&Path> = objects.iter().map(|object| &object.path).collect();
    let (Some(first), Some(last)) = (wanted.iter().min(), wanted.iter().max()) else { return true };
    // the offset is exclusive: begin just before the first name
    let mut before = first.as_ref().to_owned();
    before.pop();
    // a key is taken as it is: `Path::from` would encode a `%` of it once more. One that is no key is asked for singly
    let Ok(before) = Path::parse(before) else { return false };
    let mut listing = store.list_with_offset(Some(folder), &before);
    let mut found = HashSet::new();
    let mut seen = 0;
    loop {
        match listing.try_next().await {
            Ok(Some(meta)) if meta.location <= **last => {
                seen += 1;
                if wanted.contains(&meta.location) {
                    found.insert(meta.location);
                }
            }
            // stores list in the order of names, but file systems in any
            Ok(Some(_)) => seen += 1,
            Ok(None) => break,
            Err(_) => return false,
        }
        if found.len() == wanted.len() {
            break;
        }
        if seen > 1_000 + LISTED_PER_OBJECT * wanted.len() {
            return false;
        }
    }
    present.extend(found);
    true
}

/// Deletes objects in bulk; which are gone, and why others are not.
async fn delete_all(store: &Arc<dyn ObjectStore>, paths: Vec<Path>) -> (HashSet<Path>, HashMap<Path, String>) {
    let mut gone = HashSet::new();
    let mut errors = HashMap::new();
    let wanted = paths.clone();
    let mut results = store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
    let mut failures = Vec::new();
    while let Some(result) = results.next().await {
        match result {
            Ok(path) => drop(gone.insert(path)),
            Err(error) => failures.push(in_words(&error)),
        }
    }
    if !failures.is_empty() {
        // a failure of the batch names no object: all that were not confirmed stay
        let why = failures.into_iter().next().unwrap_or_default();
        for path in wanted.into_iter().filter(|path| !gone.contains(path)) {
            errors.insert(path, why.clone());
        }
    }
    (gone, errors)
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
