//! Uploads that ended half-way: the writer was killed before its file got its name, or before its parts became an object.
//!
//! A local store writes `name#1`, or the next number that is free, and renames it at the end. S3 keeps parts apart. Neither
//! are objects to a store: it neither lists nor deletes them.

use crate::worker::{Worker, in_words};
use futures::{StreamExt, stream};
use hoglake_catalog::removals::Claimed;
use hoglake_formats::store::StoreError;
use hoglake_model::{Location, Root};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Objects whose uploads are looked for at a time.
const CONCURRENCY: usize = 16;

/// What was removed of the upload of a queue entry: something, or why it stays.
type Removed = HashMap<i64, Result<(), String>>;

impl Worker {
    /// Removes what is left of the uploads of these queue entries. Which of them had something left, or why it stays.
    pub(super) async fn remove_unfinished(&self, staged: Vec<Claimed>) -> Removed {
        let mut folders: HashMap<PathBuf, HashMap<String, i64>> = HashMap::new();
        let mut remote = Vec::new();
        for claimed in staged {
            let Ok(location) = Location::parse(&claimed.path) else { continue };
            if *location.root() != Root::Local {
                remote.push((claimed.removal_id, location));
            } else if let Some(folder) = location.parent() {
                let folder = PathBuf::from(format!("/{}", folder.key()));
                folders.entry(folder).or_default().insert(location.file_name().to_owned(), claimed.removal_id);
            }
        }
        let mut removed = self.abort_uploads(remote).await;
        if !folders.is_empty() {
            removed.extend(remove_local(folders).await);
        }
        removed
    }

    /// Aborts multipart uploads. Where the store does not tell which there are, they are left to its own rules.
    async fn abort_uploads(&self, objects: Vec<(i64, Location)>) -> Removed {
        let aborted = stream::iter(objects)
            .map(|(removal, location)| async move { (removal, self.stores.abort_uploads(&location).await) })
            .buffer_unordered(CONCURRENCY)
            .filter_map(|(removal, aborted)| async move {
                match aborted {
                    Ok(0) => None,
                    Ok(_) => Some((removal, Ok(()))),
                    Err(error @ (StoreError::Denied { .. } | StoreError::Unsupported { .. })) => {
                        tracing::warn!(error = in_words(&error), "unfinished uploads are left to the store");
                        None
                    }
                    Err(error) => Some((removal, Err(in_words(&error)))),
                }
            });
        aborted.collect().await
    }
}

/// The same for folders of this machine: the names of the files to come, and their entries.
async fn remove_local(folders: HashMap<PathBuf, HashMap<String, i64>>) -> Removed {
    let removed = tokio::task::spawn_blocking(move || {
        let mut removed = HashMap::new();
        for (folder, uploads) in folders {
            if let Err(error) = remove_in(&folder, &uploads, &mut removed) {
                let why = format!("unfinished uploads in {} cannot be looked for: {error}", folder.display());
                removed.extend(uploads.into_values().map(|removal| (removal, Err(why.clone()))));
            }
        }
        removed
    });
    removed.await.unwrap_or_default()
}

fn remove_in(folder: &Path, uploads: &HashMap<String, i64>, removed: &mut Removed) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some((upload, number)) = name.to_str().and_then(|name| name.rsplit_once('#')) else { continue };
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        let Some(removal) = uploads.get(upload).filter(|_| is_number) else { continue };
        let done = match fs::remove_file(entry.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{} cannot be deleted: {error}", entry.path().display()))
            }
            _ => Ok(()),
        };
        if !matches!(removed.get(removal), Some(Err(_))) {
            removed.insert(*removal, done);
        }
    }
    Ok(())
}
