//! A local store that counts requests, and that stops like a machine without power after a number of writes.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use hoglake_formats::sync::TableRoot;
use hoglake_model::Location;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug)]
pub struct Watched {
    inner: LocalFileSystem,
    requests: AtomicUsize,
    writes: AtomicUsize,
    writes_left: AtomicUsize,
    stopped: AtomicBool,
    /// Creations that are to be answered as if they had failed.
    lost_answers: AtomicUsize,
    /// Uploads in parts that have neither been completed nor been taken back.
    open: Arc<AtomicUsize>,
}

impl Watched {
    /// A store that lets so many writes and deletions through; the next one and all requests after it fail.
    pub fn new(writes_left: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: LocalFileSystem::new(),
            requests: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            writes_left: AtomicUsize::new(writes_left),
            stopped: AtomicBool::new(false),
            lost_answers: AtomicUsize::new(0),
            open: Arc::default(),
        })
    }

    /// Lets the next pointers be created while the answer is that the store failed; of two, the first answer is that
    /// somebody else was first.
    pub fn lose_answers(&self, count: usize) {
        self.lost_answers.store(count, Ordering::SeqCst);
    }

    /// The requests since the last time that this was asked.
    pub fn taken(&self) -> usize {
        self.requests.swap(0, Ordering::SeqCst)
    }

    /// The uploads in parts of which parts are left.
    pub fn open_uploads(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    fn read(&self) -> Result<()> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        if self.stopped.load(Ordering::SeqCst) { Err(stopped()) } else { Ok(()) }
    }

    fn write(&self) -> Result<()> {
        self.read()?;
        self.writes.fetch_add(1, Ordering::SeqCst);
        let left = self.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        left.map(drop).map_err(|_| {
            self.stopped.store(true, Ordering::SeqCst);
            stopped()
        })
    }
}

fn stopped() -> object_store::Error {
    object_store::Error::Generic { store: "watched", source: "the machine stopped".into() }
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("watched")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Watched {
    async fn put_opts(&self, at: &ObjectPath, payload: PutPayload, o: PutOptions) -> Result<PutResult> {
        self.write()?;
        let is_pointer = at.as_ref().ends_with(".metadata.json") || at.as_ref().contains("_delta_log/0");
        let put = self.inner.put_opts(at, payload, o).await?;
        let left = self.lost_answers.load(Ordering::SeqCst);
        if !is_pointer || left == 0 {
            return Ok(put);
        }
        self.lost_answers.store(left - 1, Ordering::SeqCst);
        let source = "the answer was lost".into();
        Err(match left {
            2 => Error::AlreadyExists { path: at.to_string(), source },
            _ => Error::Generic { store: "watched", source },
        })
    }
    async fn put_multipart_opts(&self, at: &ObjectPath, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.write()?;
        let inner = self.inner.put_multipart_opts(at, o).await?;
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Upload { inner, open: Arc::clone(&self.open) }))
    }
    async fn get_opts(&self, at: &ObjectPath, o: GetOptions) -> Result<GetResult> {
        self.read()?;
        let mut found = self.inner.get_opts(at, o).await?;
        // As from afar: nobody gets hold of the file.
        let nothing = GetResultPayload::Stream(futures::stream::empty().boxed());
        let local = GetResult {
            payload: std::mem::replace(&mut found.payload, nothing),
            meta: found.meta.clone(),
            range: found.range.clone(),
            attributes: found.attributes.clone(),
            extensions: found.extensions.clone(),
        };
        let bytes = local.bytes().await;
        found.payload = GetResultPayload::Stream(futures::stream::once(async { bytes }).boxed());
        Ok(found)
    }
    async fn get_ranges(&self, at: &ObjectPath, r: &[std::ops::Range<u64>]) -> Result<Vec<Bytes>> {
        self.read()?;
        self.inner.get_ranges(at, r).await
    }
    fn delete_stream(&self, at: BoxStream<'static, Result<ObjectPath>>) -> BoxStream<'static, Result<ObjectPath>> {
        match self.write() {
            Ok(()) => self.inner.delete_stream(at),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.read() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
    fn list_with_offset(
        &self,
        prefix: Option<&ObjectPath>,
        offset: &ObjectPath,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.read() {
            Ok(()) => self.inner.list_with_offset(prefix, offset),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.read()?;
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &ObjectPath, to: &ObjectPath, o: CopyOptions) -> Result<()> {
        self.write()?;
        self.inner.copy_opts(from, to, o).await
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    open: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }
    async fn complete(&mut self) -> Result<PutResult> {
        let done = self.inner.complete().await?;
        self.open.fetch_sub(1, Ordering::SeqCst);
        Ok(done)
    }
    async fn abort(&mut self) -> Result<()> {
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.inner.abort().await
    }
}

/// A table in a watched store.
pub fn watched(store: &Arc<Watched>, table: &Path) -> TableRoot {
    TableRoot::with_store(Arc::clone(store) as Arc<dyn ObjectStore>, Location::parse(table.to_str().unwrap()).unwrap())
}

/// A table in a store that never stops.
pub fn plain(table: &Path) -> TableRoot {
    watched(&Watched::new(usize::MAX), table)
}
