//! The folder of a table: objects by key relative to it, and files by the model's paths.

use super::{Error, ParquetObject, Result};
use crate::store::Stores;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use hoglake_model::Location;
use hoglake_model::table::{DataFile, FileFormat, FilePath};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};

/// A table's folder in its store, and the way to files of the table that lie elsewhere.
#[derive(Debug, Clone)]
pub struct TableRoot {
    location: Location,
    store: Arc<dyn ObjectStore>,
    stores: Option<Arc<Stores>>,
}

/// An object that is written in parts.
#[derive(Debug)]
pub struct Stage {
    key: String,
    place: String,
    /// Nothing is ever locked; it makes a commit in the making shareable between threads.
    upload: Mutex<Box<dyn MultipartUpload>>,
}

impl Stage {
    /// Appends a part, which should have 5 MiB at least unless it is the last.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn append(&mut self, bytes: Bytes) -> Result<()> {
        let upload = self.upload.get_mut().unwrap_or_else(PoisonError::into_inner);
        upload.put_part(bytes.into()).await.map_err(|e| Error::store(&self.place, e))
    }

    /// Ends the object; its key is for [`TableRoot::publish`].
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn finish(&mut self) -> Result<String> {
        let upload = self.upload.get_mut().unwrap_or_else(PoisonError::into_inner);
        upload.complete().await.map_err(|e| Error::store(&self.place, e))?;
        Ok(self.key.clone())
    }

    /// Takes the parts back. Best effort.
    pub async fn discard(mut self) {
        let upload = self.upload.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = upload.abort().await {
            tracing::debug!(%error, place = self.place, "parts of a failed commit stay behind");
        }
    }
}

/// An object as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key relative to the table's root.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
}

/// How an object begins, and what tells it from another one of the same name.
#[derive(Debug, Clone)]
pub(crate) struct Beginning {
    /// At most 64 KiB.
    pub bytes: Bytes,
    /// Bytes of the whole object.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
}

impl Beginning {
    const BYTES: u64 = 64 << 10;

    /// A digest of the beginning and of the size: a copy of the object has the same.
    pub fn fingerprint(&self) -> String {
        fingerprint(self.size, &self.bytes)
    }
}

/// [`Beginning::fingerprint`] of an object of which as many bytes are known, or all.
pub(crate) fn fingerprint(size: u64, bytes: &[u8]) -> String {
    let length = bytes.len().min(usize::try_from(Beginning::BYTES).unwrap_or(usize::MAX));
    let mut digest = Sha256::new();
    digest.update(size.to_be_bytes());
    digest.update(bytes.get(..length).unwrap_or(bytes));
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes by which a staged object is recognised.
const COMPARED: u64 = 4 << 10;

impl TableRoot {
    /// The folder at `location`.
    ///
    /// # Errors
    /// [`Error::Store`] when the configuration does not allow the location.
    pub fn open(stores: &Arc<Stores>, location: Location) -> Result<Self> {
        let object = stores.open(&location)?;
        Ok(Self { location, store: object.store, stores: Some(Arc::clone(stores)) })
    }

    /// The folder at `location` in a given store; files outside that store cannot be read.
    pub fn with_store(store: Arc<dyn ObjectStore>, location: Location) -> Self {
        Self { location, store, stores: None }
    }

    /// Where the folder is, as its user spells it.
    pub const fn location(&self) -> &Location {
        &self.location
    }

    /// The full spelling of a key, for messages.
    pub fn spell(&self, key: &str) -> String {
        let root = self.location.to_string();
        format!("{}/{key}", root.trim_end_matches('/'))
    }

    /// The spelling of a key in metadata, and of what engines register: a URI, also for local files.
    pub fn uri(&self, key: &str) -> String {
        let text = self.spell(key);
        if text.starts_with('/') { format!("file://{text}") } else { text }
    }

    fn path(&self, key: &str) -> Result<Path> {
        let location = self.location.join(key)?;
        Path::parse(location.key()).map_err(|e| Error::malformed(self.spell(key), e.to_string()))
    }

    /// The whole object.
    ///
    /// # Errors
    /// [`Error::Store`]; see [`Error::is_not_found`].
    pub async fn get(&self, key: &str) -> Result<Bytes> {
        let fail = |e| Error::store(self.spell(key), e);
        self.store.get(&self.path(key)?).await.map_err(fail)?.bytes().await.map_err(fail)
    }

    /// The whole object with its size and time, or `None` when it does not exist.
    ///
    /// # Errors
    /// [`Error::Store`] for any other failure.
    pub async fn get_if_exists(&self, key: &str) -> Result<Option<Bytes>> {
        match self.get(key).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates the object; `false` when it exists already, whoever wrote it.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn put_if_absent(&self, key: &str, bytes: impl Into<Bytes>) -> Result<bool> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.path(key)?, bytes.into().into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
            Err(e) => Err(Error::store(self.spell(key), e)),
        }
    }

    /// Creates the object that makes a commit visible; `false` when somebody else has.
    ///
    /// An answer can be lost, and a client can ask twice by itself, so that what lies there decides whose it is: the bytes
    /// must be nobody else's.
    ///
    /// # Errors
    /// [`Error::Store`]; the object may have been created all the same.
    pub async fn claim(&self, key: &str, bytes: impl Into<Bytes>) -> Result<bool> {
        let bytes = bytes.into();
        let answer = self.put_if_absent(key, bytes.clone()).await;
        if let Ok(true) = answer {
            return answer;
        }
        match self.get_if_exists(key).await? {
            Some(found) => Ok(found == bytes),
            None => answer,
        }
    }

    /// Begins an object that is written in parts, for what is too large to be held in memory.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn stage(&self, key: &str) -> Result<Stage> {
        let path = self.path(key)?;
        let upload = self.store.put_multipart(&path).await.map_err(|e| Error::store(self.spell(key), e))?;
        Ok(Stage { key: key.to_owned(), place: self.spell(key), upload: Mutex::new(upload) })
    }

    /// Gives a staged object its name; `false` when somebody else has taken it. The staged object goes, or stays behind as
    /// litter when it cannot be deleted. As for [`claim`](Self::claim), its first bytes must be nobody else's.
    ///
    /// # Errors
    /// [`Error::Store`]; the object may have got its name all the same.
    pub async fn publish(&self, staged: &str, key: &str) -> Result<bool> {
        let copied = match self.store.copy_if_not_exists(&self.path(staged)?, &self.path(key)?).await {
            Ok(()) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
            // A store that copies unconditionally only: what was staged is sent once more.
            Err(object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. }) => {
                self.put_if_absent(key, self.get(staged).await?).await
            }
            Err(e) => Err(Error::store(self.spell(key), e)),
        };
        let copied = match copied {
            Ok(true) => copied,
            _ if self.begin_alike(staged, key).await? => Ok(true),
            _ => copied,
        };
        if let Err(error) = self.delete(staged).await {
            tracing::debug!(%error, place = self.spell(staged), "a staged commit stays behind");
        }
        copied
    }

    async fn begin_alike(&self, one: &str, other: &str) -> Result<bool> {
        let begin = async |key: &str| self.read(&FilePath::Under(key.into()), Some(0..COMPARED)).await;
        let (one, other) = (begin(one).await?, begin(other).await);
        match other {
            Ok(other) => Ok(one == other),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Writes the object whether it exists or not.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn put(&self, key: &str, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes: Bytes = bytes.into();
        self.store.put(&self.path(key)?, bytes.into()).await.map_err(|e| Error::store(self.spell(key), e))?;
        Ok(())
    }

    /// Deletes the object; one that does not exist is deleted already.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn delete(&self, key: &str) -> Result<()> {
        match self.store.delete(&self.path(key)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(Error::store(self.spell(key), e)),
        }
    }

    /// The objects directly or indirectly in `folder` whose key is above `folder/after`, ascending by key.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        let prefix = self.path(folder)?;
        let mut stream = match after {
            Some(after) => self.store.list_with_offset(Some(&prefix), &self.path(&format!("{folder}/{after}"))?),
            None => self.store.list(Some(&prefix)),
        };
        let base = self.location.key().len() + usize::from(!self.location.key().is_empty());
        let mut found = Vec::new();
        while let Some(meta) = stream.try_next().await.map_err(|e| Error::store(self.spell(folder), e))? {
            let key = meta.location.as_ref().get(base..).unwrap_or_default().to_owned();
            found.push(Listed { key, size: meta.size, modified_ms: meta.last_modified.timestamp_millis() });
        }
        found.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }

    /// The model's path of an absolute location.
    pub fn file_path(&self, location: &Location) -> FilePath {
        match location.relative_to(&self.location) {
            Some(relative) if !relative.is_empty() => FilePath::Under(relative.into()),
            _ => FilePath::Outside(location.to_string().into()),
        }
    }

    /// The location of a file of the table.
    ///
    /// # Errors
    /// [`Error::Refused`] when the path leaves the table by `..` or the like.
    pub fn locate(&self, path: &FilePath) -> Result<Location> {
        Ok(match path {
            FilePath::Under(relative) => self.location.join(relative)?,
            FilePath::Outside(absolute) => Location::parse(absolute)?,
        })
    }

    /// The store and path of a file of the table.
    ///
    /// # Errors
    /// As [`TableRoot::locate`], and [`Error::Store`] for a store that is not configured.
    pub fn object(&self, path: &FilePath) -> Result<(Arc<dyn ObjectStore>, Path)> {
        let location = self.locate(path)?;
        if location.root() == self.location.root() {
            let path =
                Path::parse(location.key()).map_err(|e| Error::malformed(location.to_string(), e.to_string()))?;
            return Ok((Arc::clone(&self.store), path));
        }
        let Some(stores) = &self.stores else {
            return Err(Error::malformed(location.to_string(), "the file lies in a store that is not configured"));
        };
        let object = stores.open(&location)?;
        Ok((object.store, object.path))
    }

    /// A part of a file of the table, or all of it.
    ///
    /// # Errors
    /// As [`TableRoot::object`].
    pub async fn read(&self, path: &FilePath, range: Option<std::ops::Range<u64>>) -> Result<Bytes> {
        let (store, object) = self.object(path)?;
        let fail = |e| Error::store(path.as_str(), e);
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        store.get_opts(&object, options).await.map_err(fail)?.bytes().await.map_err(fail)
    }

    /// How an object begins; `None` when it is not there. One request.
    pub(crate) async fn beginning(&self, key: &str) -> Result<Option<Beginning>> {
        let fail = |e| Error::store(self.spell(key), e);
        let options = GetOptions { range: Some(GetRange::Bounded(0..Beginning::BYTES)), ..GetOptions::default() };
        let found = match self.store.get_opts(&self.path(key)?, options).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(fail(e)),
        };
        let (size, modified_ms) = (found.meta.size, found.meta.last_modified.timestamp_millis());
        Ok(Some(Beginning { bytes: found.bytes().await.map_err(fail)?, size, modified_ms }))
    }

    /// How large a file of the table is, in bytes; one request.
    ///
    /// # Errors
    /// As [`TableRoot::object`], and [`Error::Store`] for a file that is not there.
    pub async fn size(&self, path: &FilePath) -> Result<u64> {
        let (store, object) = self.object(path)?;
        Ok(store.head(&object).await.map_err(|e| Error::store(path.as_str(), e))?.size)
    }

    /// A reader of a Parquet file of the table; `size` saves a request where it is known.
    ///
    /// # Errors
    /// As [`TableRoot::object`].
    pub fn parquet(&self, path: &FilePath, size: Option<u64>) -> Result<ParquetObject> {
        let (store, path) = self.object(path)?;
        Ok(ParquetObject { store, path, size })
    }

    /// Reads many objects, a few at a time, in order.
    pub fn get_all<'a>(
        &'a self,
        keys: impl IntoIterator<Item = String> + 'a,
    ) -> impl futures::Stream<Item = Result<(String, Bytes)>> + 'a {
        futures::stream::iter(keys.into_iter().map(move |key| async move {
            let bytes = self.get(&key).await?;
            Ok((key, bytes))
        }))
        .buffered(16)
    }
}

/// The rows of a Parquet file, from its footer.
///
/// # Errors
/// [`Error::Malformed`] for a file that is no Parquet file.
pub async fn footer_record_count(root: &TableRoot, file: &DataFile) -> Result<u64> {
    use parquet::arrow::async_reader::AsyncFileReader;
    let damaged = |detail: String| Error::malformed(file.path.as_str(), detail);
    if file.format != FileFormat::Parquet {
        return Err(damaged("the row count of a file that is not Parquet is unknown".to_owned()));
    }
    let mut reader = root.parquet(&file.path, file.size_bytes)?;
    let metadata = reader.get_metadata(None).await.map_err(|e| Error::parquet(file.path.as_str(), &e))?;
    u64::try_from(metadata.file_metadata().num_rows()).map_err(|_| damaged("the row count is negative".to_owned()))
}
