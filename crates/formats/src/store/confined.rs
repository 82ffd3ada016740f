//! A store that knows nothing outside some roots.
//!
//! The check is made where the request is made, so that it holds for everything that a table's metadata names, too. On
//! this machine it follows symbolic links: what counts is where a path leads. A process that can change links inside
//! the roots while a request is on its way could still win that race; keep such folders out of the roots.

use super::Roots;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::Root;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::ops::Range;
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
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.gate.check(location)?;
        self.inner.get_ranges(location, ranges).await
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
mod tests {
    use super::super::{StoreConfig, StoreError, Stores};
    use super::*;
    use hoglake_model::Location;
    use object_store::ObjectStoreExt;
    use std::os::unix::fs::symlink;

    /// `in` is a root, `out` is not; each holds a file, and `in` has links to the outside.
    fn folders() -> (tempfile::TempDir, Stores) {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for folder in ["in/t", "out"] {
            std::fs::create_dir_all(at(folder)).unwrap();
            std::fs::write(at(folder).join("f"), folder).unwrap();
        }
        symlink(at("out/f"), at("in/t/link")).unwrap();
        symlink(at("out"), at("in/folder")).unwrap();
        symlink(at("out/new"), at("in/dangling")).unwrap();
        symlink(at("in/t/f"), at("in/good")).unwrap();
        let root = at("in").to_string_lossy().into_owned();
        let roots = Roots::parse([root.as_str()], None).unwrap();
        (base, Stores::confined(StoreConfig::local(), Arc::new(roots)))
    }

    #[tokio::test]
    async fn links_that_lead_outside_are_not_followed() {
        let (base, stores) = folders();
        let open = |name: &str| {
            let path = format!("{}/{name}", base.path().display());
            stores.open(&Location::parse(&path).unwrap())
        };
        for inside in ["in/t/f", "in/good"] {
            let object = open(inside).unwrap();
            assert_eq!(object.store.get(&object.path).await.unwrap().bytes().await.unwrap(), "in/t");
        }
        for bad in ["in/t/link", "in/folder/f", "in/dangling", "in/folder/new", "in/folder/new/x"] {
            let object = open(bad).unwrap();
            let read = object.store.get(&object.path).await.unwrap_err();
            let written = object.store.put(&object.path, "x".into()).await.unwrap_err();
            let deleted = object.store.delete(&object.path).await.unwrap_err();
            let copied = object.store.copy(&object.path, &open("in/copy").unwrap().path).await.unwrap_err();
            for error in [read, written, deleted, copied] {
                assert!(is_outside(&error), "{bad}: {error}");
                assert!(matches!(object.error(error), StoreError::Outside { .. }));
            }
        }
        for outside in ["out/f", "in2/f", ""] {
            assert!(matches!(open(outside), Err(StoreError::Outside { .. })), "{outside}");
        }
        assert_eq!(std::fs::read(base.path().join("out/f")).unwrap(), b"out");
        assert!(!base.path().join("out/new").exists());
    }

    #[tokio::test]
    async fn listings_show_nothing_of_the_outside() {
        let (base, stores) = folders();
        let root = stores.open(&Location::parse(&format!("{}/in", base.path().display())).unwrap()).unwrap();
        let names = |found: Vec<ObjectMeta>| {
            let mut names: Vec<_> =
                found.iter().map(|m| m.location.filename().unwrap_or_default().to_owned()).collect();
            names.sort();
            names
        };
        let all: Vec<_> = root.store.list(Some(&root.path)).try_collect().await.unwrap_or_default();
        assert!(names(all).iter().all(|name| name == "f" || name == "good"));
        let flat = root.store.list_with_delimiter(Some(&root.path)).await.unwrap();
        assert_eq!(names(flat.objects), ["good"]);
        assert_eq!(flat.common_prefixes.len(), 1, "{:?}", flat.common_prefixes);
        let above = Path::parse(base.path().to_str().unwrap()).unwrap();
        assert!(is_outside(&root.store.list(Some(&above)).next().await.unwrap().unwrap_err()));
        assert!(is_outside(&root.store.list(None).next().await.unwrap().unwrap_err()));
    }

    #[tokio::test]
    async fn metadata_of_one_root_cannot_lead_to_another_bucket() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let roots = Roots::parse(["s3://lake/a"], None).unwrap();
        let stores = Arc::new(Stores::confined(StoreConfig::default(), Arc::new(roots)));
        let object = stores.open(&Location::parse("s3a://lake/a/t").unwrap()).unwrap();
        let neighbour = Path::parse("b/secret").unwrap();
        assert!(is_outside(&object.store.get(&neighbour).await.unwrap_err()));
        for outside in ["s3://other/a", "s3://lake/ab", "gs://lake/a", "/a"] {
            assert!(stores.open(&Location::parse(outside).unwrap()).is_err(), "{outside}");
        }
    }
}
