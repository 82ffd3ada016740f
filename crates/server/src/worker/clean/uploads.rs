//! Uploads to local folders that ended half-way: the writer was killed before its file got its name.
//!
//! A local store writes `name#1`, or the next number that is free, and renames it at the end. Such files are no objects
//! to the store: it neither lists nor deletes them.

use hoglake_catalog::removals::Claimed;
use hoglake_model::{Location, Root};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Removes what is left of the uploads of these queue entries. Which of them had something left, or why it stays.
pub(super) async fn remove_unfinished(staged: Vec<Claimed>) -> HashMap<i64, Result<(), String>> {
    let mut folders: HashMap<PathBuf, HashMap<String, i64>> = HashMap::new();
    for claimed in staged {
        let Ok(location) = Location::parse(&claimed.path) else { continue };
        if *location.root() == Root::Local
            && let Some(folder) = location.parent()
        {
            let folder = PathBuf::from(format!("/{}", folder.key()));
            folders.entry(folder).or_default().insert(location.file_name().to_owned(), claimed.removal_id);
        }
    }
    if folders.is_empty() {
        return HashMap::new();
    }
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

fn remove_in(
    folder: &Path,
    uploads: &HashMap<String, i64>,
    removed: &mut HashMap<i64, Result<(), String>>,
) -> io::Result<()> {
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
