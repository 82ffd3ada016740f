//! What writers that were killed have left on this machine.
//!
//! A local store writes an object as `name#1`, or the next number that is free, and gives it its name at the end. No store
//! lists such files, so that nothing else would ever remove them.

use super::TableRoot;
use hoglake_model::Root;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file that nobody has written to for so long belongs to no writer that lives. None takes more than minutes for one.
const ABANDONED: Duration = Duration::from_secs(86_400);

impl TableRoot {
    /// Removes abandoned files of these folders, or of those of users only `PREFIX<uuid>.bin`. Best effort, and nothing where the table is not local.
    pub(crate) async fn tidy(&self, folders: &'static [(&'static str, &'static str)]) {
        if *self.location().root() != Root::Local {
            return;
        }
        let root = PathBuf::from(format!("/{}", self.location().key()));
        let work = move || {
            for (folder, prefix) in folders {
                if let Err(error) = tidy(&root.join(folder), prefix) {
                    tracing::debug!(%error, folder, "what killed writers have left stays behind");
                }
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::debug!(%error, "what killed writers have left stays behind");
        }
    }
}

/// In a metadata folder all is the format's own; among users' files only what is called as nobody would call another.
fn is_made_here(object: &str, prefix: &str) -> bool {
    let id = object.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".bin"));
    prefix.is_empty() || id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok())
}

fn tidy(folder: &Path, prefix: &str) -> std::io::Result<()> {
    // A link may lead to where nobody has allowed anything.
    if !std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((object, number)) = name.to_str().and_then(|name| name.rsplit_once('#')) else { continue };
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number || !is_made_here(object, prefix) {
            continue;
        }
        let found = entry.metadata()?;
        let age = SystemTime::now().duration_since(found.modified()?);
        if found.is_file() && age.is_ok_and(|age| age > ABANDONED) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
