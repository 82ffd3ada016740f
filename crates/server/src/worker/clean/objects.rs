//! What a store says of many objects: which of them exist, and which it deleted.

use crate::worker::in_words;
use futures::{StreamExt, TryStreamExt, stream};
use hoglake_catalog::removals::HELD;
use hoglake_formats::store::{Object, StoreError};
use hoglake_model::Root;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Objects that are looked for, or deleted one by one, at a time.
const CONCURRENCY: usize = 64;
/// From this many objects in a folder on, listing it is cheaper than asking for each.
const WORTH_LISTING: usize = 32;
/// Objects of others that a listing may go over for each that it is asked about. A request for one object costs a store
/// a tenth of a page of a thousand.
const LISTED_PER_OBJECT: usize = 64;

/// For how long a deletion is waited for: half of what the claims last that it is for, so that what is on its way when that
/// ends still falls into the rest.
const DELETION_TIME: Duration = Duration::from_secs(HELD.as_secs() / 2);

/// Which objects exist, and why it is not known of others. Folders that lose many objects are listed over the range of
/// their names; other objects are asked for one by one, until the store fails to answer for as many as are asked at a time.
pub(super) async fn existing(
    store: &Arc<dyn ObjectStore>,
    objects: &[(i64, Object)],
) -> (HashSet<Path>, HashMap<Path, String>) {
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
    let mut unasked: HashSet<Path> = single.iter().map(|object| object.path.clone()).collect();
    let heads = stream::iter(single)
        .map(|object: Object| async move {
            let head = object.store.head(&object.path).await;
            (object, head)
        })
        .buffer_unordered(CONCURRENCY);
    let mut heads = std::pin::pin!(heads);
    let mut failed_in_a_row = 0;
    while let Some((object, head)) = heads.next().await {
        unasked.remove(&object.path);
        match head.map_err(|error| object.error(error)) {
            Ok(_) => {
                failed_in_a_row = 0;
                present.insert(object.path);
            }
            Err(StoreError::NotFound { .. }) => failed_in_a_row = 0,
            Err(error) => {
                failed_in_a_row += 1;
                let error = in_words(&error);
                if failed_in_a_row == CONCURRENCY {
                    let why = format!("not asked for, after {CONCURRENCY} others: {error}");
                    unknown.extend(unasked.drain().map(|path| (path, why.clone())));
                }
                unknown.insert(object.path, error);
                if failed_in_a_row == CONCURRENCY {
                    break;
                }
            }
        }
    }
    (present, unknown)
}

/// Adds to `present` which of `objects`, all of one folder, exist. False when the folder holds so much else that listing
/// it does not pay, or cannot be listed; nothing is added then. A listing that has come in the order of names ends with the
/// first name behind the last that is looked for; one that has not, as of a file system, is read to its end.
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
    let is_local = objects.iter().any(|object| *object.location.root() == Root::Local);
    let (mut in_order, mut latest) = (!is_local, before.clone());
    loop {
        match listing.try_next().await {
            Ok(Some(meta)) if meta.location <= **last => {
                seen += 1;
                in_order &= latest < meta.location;
                latest.clone_from(&meta.location);
                if wanted.contains(&meta.location) {
                    found.insert(meta.location);
                }
            }
            Ok(Some(_)) if in_order => break,
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
pub(super) async fn delete_all(
    store: &Arc<dyn ObjectStore>,
    paths: Vec<Path>,
) -> (HashSet<Path>, HashMap<Path, String>) {
    let mut gone = HashSet::new();
    let mut errors = HashMap::new();
    let wanted = paths.clone();
    let mut results = store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
    let mut failures = Vec::new();
    let deadline = Instant::now() + DELETION_TIME;
    loop {
        match timeout_at(deadline, results.next()).await {
            Ok(Some(Ok(path))) => drop(gone.insert(path)),
            Ok(Some(Err(error))) => failures.push(in_words(&error)),
            Ok(None) => break,
            Err(_) => {
                failures.push(format!("the store did not confirm the deletion within {} s", DELETION_TIME.as_secs()));
                break;
            }
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
