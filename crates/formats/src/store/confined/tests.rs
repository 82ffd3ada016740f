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

/// A store whose objects are opened after a link on their path has been changed.
#[derive(Debug)]
struct Swapping {
    inner: LocalFileSystem,
    link: PathBuf,
    to: PathBuf,
}

impl fmt::Display for Swapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("swapping")
    }
}

#[async_trait]
impl ObjectStore for Swapping {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let before = self.link.read_link().unwrap();
        std::fs::remove_file(&self.link).unwrap();
        symlink(&self.to, &self.link).unwrap();
        let found = self.inner.get_opts(location, options).await;
        std::fs::remove_file(&self.link).unwrap();
        symlink(before, &self.link).unwrap();
        found
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(Error::NotImplemented { operation: String::new(), implementer: String::new() })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: String::new(), implementer: String::new() })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::empty().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_link_that_changes_after_the_check_leads_nowhere() {
    let (base, _) = folders();
    let at = |name: &str| base.path().join(name);
    symlink(at("in/t"), at("in/way")).unwrap();
    let roots = Arc::new(Roots::parse([at("in").to_str().unwrap()], None).unwrap());
    let path = Path::parse(at("in/way/f").to_str().unwrap().trim_start_matches('/')).unwrap();
    for (to, is_inside) in [("in/t", true), ("out", false)] {
        let inner = Swapping { inner: LocalFileSystem::new(), link: at("in/way"), to: at(to) };
        let store = wrap(Arc::new(inner), Root::Local, Arc::clone(&roots));
        let read = store.get(&path).await;
        let ranges = store.get_ranges(&path, &[0..1, 1..4]).await;
        if is_inside {
            assert_eq!(read.unwrap().bytes().await.unwrap(), "in/t");
            assert_eq!(ranges.unwrap(), ["i", "n/t"]);
        } else {
            assert!(is_outside(&read.unwrap_err()) && is_outside(&ranges.unwrap_err()), "{to}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_read_is_read() {
    let (base, stores) = folders();
    let object = stores.open(&Location::parse(&format!("{}/in/t/f", base.path().display())).unwrap()).unwrap();
    let found = object.store.get(&object.path).await.unwrap();
    let GetResultPayload::File(file, at) = &found.payload else { panic!("a local file") };
    std::fs::remove_file(at).unwrap();
    assert!(opened(file, at).unwrap().starts_with(base.path().canonicalize().unwrap().join("in/t")));
    assert_eq!(found.bytes().await.unwrap(), "in/t");
}

#[tokio::test]
async fn listings_show_nothing_of_the_outside() {
    let (base, stores) = folders();
    let root = stores.open(&Location::parse(&format!("{}/in", base.path().display())).unwrap()).unwrap();
    let names = |found: Vec<ObjectMeta>| {
        let mut names: Vec<_> = found.iter().map(|m| m.location.filename().unwrap_or_default().to_owned()).collect();
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
