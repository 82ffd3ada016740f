//! A store that knows nothing outside some roots.
//!
//! The check is made where the request is made, so that it holds for everything that a table's metadata names, too. On
//! this machine it follows symbolic links: what counts is where a path leads. What is read is checked once more when it
//! is open, so that links that change meanwhile lead nowhere. For what is written, deleted and listed, a process that can
//! change links inside the roots while a request is on its way could still win that race; keep such folders out of the
//! roots.

use super::Roots;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::Root;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// The cause of a request that was not made because it leads outside.
#[derive(Debug, thiserror::Error)]
#[error("it lies outside the places that may be read and written")]
struct Outside;

/// Whether `error` says that the place is outside the roots, as opposed to an answer of the store.
pub fn is_outside(error: &Error) -> bool {
    matches!(error, Error::PermissionDenied { source, .. } if source.is::<Outside>())
}

/// The error of a request for `path` that leads outside.
pub(crate) fn outside(path: &str) -> Error {
    Error::PermissionDenied { path: path.to_owned(), source: Box::new(Outside) }
}

/// Puts `inner`, the store of `root`, behind the check.
pub(super) fn wrap(inner: Arc<dyn ObjectStore>, root: Root, roots: Arc<Roots>) -> Arc<dyn ObjectStore> {
    let local = (root == Root::Local).then(LocalFileSystem::new);
    Arc::new(Confined { inner, gate: Arc::new(Gate { root, roots, local }) })
}

#[derive(Debug)]
struct Confined {
    inner: Arc<dyn ObjectStore>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    root: Root,
    roots: Arc<Roots>,
    /// Only for its spelling of paths.
    local: Option<LocalFileSystem>,
}

impl Gate {
    fn check(&self, path: &Path) -> Result<()> {
        if !self.roots.covers_key(&self.root, path.as_ref()) {
            return Err(outside(path.as_ref()));
        }
        let Some(local) = &self.local else { return Ok(()) };
        match destination(&local.path_to_filesystem(path)?) {
            Ok(real) if self.leads_inside(&real) => Ok(()),
            _ => Err(outside(path.as_ref())),
        }
    }

    /// Refuses an object that was opened outside: a link on its path was changed after it had been checked.
    fn check_opened(&self, path: &Path, found: GetResult) -> Result<GetResult> {
        match &found.payload {
            GetResultPayload::File(file, at) if !opened(file, at).is_ok_and(|real| self.leads_inside(&real)) => {
                Err(outside(path.as_ref()))
            }
            _ => Ok(found),
        }
    }

    fn leads_inside(&self, real: &FilePath) -> bool {
        self.roots.local_folders().any(|root| match destination(FilePath::new(&root)) {
            Ok(root) => real.starts_with(root),
            Err(_) => false,
        })
    }

    /// Whether a listed object is no link that leads outside. `known` remembers folders that are inside.
    fn keeps(&self, meta: &ObjectMeta, known: &mut HashSet<PathBuf>) -> bool {
        let Some(local) = &self.local else { return true };
        let Ok(path) = local.path_to_filesystem(&meta.location) else { return false };
        let Some(folder) = path.parent() else { return false };
        if !known.contains(folder) {
            if !destination(folder).is_ok_and(|real| self.leads_inside(&real)) {
                return false;
            }
            known.insert(folder.to_owned());
        }
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => destination(&path).is_ok_and(|real| self.leads_inside(&real)),
            Ok(_) => true,
            Err(_) => false,
        }
    }

    fn kept(
        self: Arc<Self>,
        objects: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.local.is_none() {
            return objects;
        }
        let mut known = HashSet::new();
        let keeps = move |meta: &Result<ObjectMeta>| {
            std::future::ready(match meta {
                Ok(meta) => self.keeps(meta, &mut known),
                Err(_) => true,
            })
        };
        objects.filter(keeps).boxed()
    }
}

/// Where a file that was opened at `path` lies.
///
/// The kernel knows. Where it does not tell, the path must still lead to the same file.
fn opened(file: &File, path: &FilePath) -> io::Result<PathBuf> {
    if let Ok(real) = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) {
        return Ok(real);
    }
    let (here, real) = (file.metadata()?, destination(path)?);
    let there = real.symlink_metadata()?;
    if (here.dev(), here.ino()) == (there.dev(), there.ino()) { Ok(real) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Where a path leads, links followed; what does not exist yet is taken as it is written.
fn destination(path: &FilePath) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        match at.symlink_metadata() {
            // A link that leads nowhere is an error here: a file made through it could be anywhere.
            Ok(_) => {
                let mut real = at.canonicalize()?;
                real.extend(missing.iter().rev());
                return Ok(real);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                let (Some(folder), Some(name)) = (at.parent(), at.file_name()) else { return Err(error) };
                missing.push(name);
                at = folder;
            }
            Err(error) => return Err(error),
        }
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "confined {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Confined {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.gate.check(location)?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.gate.check(location)?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.gate.check(location)?;
        self.gate.check_opened(location, self.inner.get_opts(location, options).await?)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if self.gate.local.is_none() {
            self.gate.check(location)?;
            return self.inner.get_ranges(location, ranges).await;
        }
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
            found.push(self.get_opts(location, options).await?.bytes().await?);
        }
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let gate = Arc::clone(&self.gate);
        let checked = locations.and_then(move |path| {
            let allowed = gate.check(&path).map(|()| path);
            std::future::ready(allowed)
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.gate.check(prefix.unwrap_or(&Path::default())) {
            Ok(()) => Arc::clone(&self.gate).kept(self.inner.list(prefix)),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.gate.check(prefix.unwrap_or(&Path::default())) {
            Ok(()) => Arc::clone(&self.gate).kept(self.inner.list_with_offset(prefix, offset)),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.gate.check(prefix.unwrap_or(&Path::default()))?;
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        let mut known = HashSet::new();
        listed.objects.retain(|meta| self.gate.keeps(meta, &mut known));
        listed.common_prefixes.retain(|folder| self.gate.check(folder).is_ok());
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.gate.check(from)?;
        self.gate.check(to)?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.gate.check(from)?;
        self.gate.check(to)?;
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
