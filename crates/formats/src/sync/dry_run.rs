//! What a full sync would change, found without writing anything.

use super::{FileStream, Result, Source};
use futures::TryStreamExt;
use hoglake_model::Location;
use hoglake_model::table::{DataFile, FilePath};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};

/// The files of a target: 16 bytes each and a little, and those with row-level deletes whole.
struct Shown {
    hashers: (RandomState, RandomState),
    files: HashMap<u128, Option<Box<DataFile>>>,
}

impl Shown {
    async fn read(target: &dyn Source) -> Result<Self> {
        let mut shown = Self { hashers: Default::default(), files: HashMap::new() };
        let head = target.head().await?;
        let mut files = target.snapshot(&head).await?.files;
        while let Some(batch) = files.try_next().await? {
            for file in batch {
                let key = shown.key(&head.root, &file.path)?;
                shown.files.insert(key, (!file.deletes.is_empty()).then(|| Box::new(file)));
            }
        }
        Ok(shown)
    }

    /// The key of a file, whichever table names it.
    fn key(&self, root: &str, path: &FilePath) -> Result<u128> {
        let place = match path {
            FilePath::Under(relative) => Location::parse(root)?.join(relative)?,
            FilePath::Outside(absolute) => Location::parse(absolute)?,
        };
        let place = (place.root(), place.key());
        Ok((u128::from(self.hashers.0.hash_one(place)) << 64) | u128::from(self.hashers.1.hash_one(place)))
    }
}

/// How many files a target would get and lose, and how many would get other row-level deletes; `target` is `None` where no
/// table is yet. `root` is where the paths of `files` begin.
pub(super) async fn compare(
    source: &dyn Source,
    root: &str,
    mut files: FileStream<'_>,
    target: Option<&dyn Source>,
) -> Result<[usize; 3]> {
    let mut shown = match target {
        Some(target) => Shown::read(target).await?,
        None => Shown { hashers: Default::default(), files: HashMap::new() },
    };
    let [mut added, mut redeleted] = [0, 0];
    while let Some(batch) = files.try_next().await? {
        for file in batch {
            let key = shown.key(root, &file.path)?;
            let Entry::Occupied(known) = shown.files.entry(key) else {
                added += 1;
                continue;
            };
            let known = known.remove();
            redeleted += match (known, target) {
                (None, _) | (_, None) => usize::from(!file.deletes.is_empty()),
                (Some(known), Some(target)) => {
                    let wanted = source.deleted_rows(&file).await?;
                    usize::from(wanted != target.deleted_rows(&known).await?)
                }
            };
        }
    }
    Ok([added, shown.files.len(), redeleted])
}
