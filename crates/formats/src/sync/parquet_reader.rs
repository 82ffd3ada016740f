//! Ranged reads of a Parquet file in an object store.

use super::OpenParquet;
use crate::footer;
use bytes::Bytes;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore, ObjectStoreExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Bytes fetched with the footer in the hope that they hold all metadata.
const FOOTER_BYTES: u64 = 64 << 10;

/// One Parquet file.
#[derive(Debug, Clone)]
pub struct ParquetObject {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    /// Its size where known; saves a request in stores that read no suffixes.
    pub(super) size: Option<u64>,
}

/// What the rows of a batch take together, about.
const BATCH_BYTES: u64 = 8 << 20;

/// How many rows a batch of some columns should have, at most `most`: fewer where rows are large.
pub fn batch_rows(metadata: &ParquetMetaData, columns: &ProjectionMask, most: usize) -> usize {
    let sizes = metadata.row_groups().iter().map(|group| {
        let chunks = group.columns().iter().enumerate().filter(|(leaf, _)| columns.leaf_included(*leaf));
        let bytes: u64 = chunks.map(|(_, chunk)| u64::try_from(chunk.uncompressed_size()).unwrap_or(0)).sum();
        bytes / u64::try_from(group.num_rows()).unwrap_or(0).max(1)
    });
    let rows = BATCH_BYTES / sizes.max().unwrap_or(0).max(1);
    usize::try_from(rows).unwrap_or(most).clamp(1, most)
}

fn external(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for ParquetObject {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move { self.store.get_range(&self.path, range).await.map_err(external) })
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        Box::pin(async move { self.store.get_ranges(&self.path, &ranges).await.map_err(external) })
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        Box::pin(async move { Ok(self.clone().open().await?.metadata) })
    }
}

impl ParquetObject {
    /// Reads the footer, the shape of its schema checked before a recursive decoder sees it.
    ///
    /// # Errors
    /// The store's, and for what is no Parquet file.
    pub async fn open(self) -> Result<OpenParquet> {
        let malformed = |what: String| ParquetError::General(format!("{}: {what}", self.path));
        let (tail, size, file) = self.tail().await?;
        let Some((body, [a, b, c, d, b'P', b'A', b'R', b'1'])) = tail.split_last_chunk::<8>() else {
            return Err(malformed("it does not end like a Parquet file".to_owned()));
        };
        let length = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
        if length > footer::MAX_FOOTER_BYTES || length + 12 > size {
            return Err(malformed(format!("a footer of {length} bytes in a file of {size} bytes is not read")));
        }
        let bytes = match usize::try_from(length).ok().and_then(|l| body.len().checked_sub(l)) {
            Some(at) => tail.slice(at..body.len()),
            None => self.store.get_range(&self.path, size - 8 - length..size - 8).await.map_err(external)?,
        };
        let metadata = Arc::new(footer::decode(&bytes).map_err(malformed)?);
        Ok(OpenParquet { object: self, metadata, file, size })
    }

    /// The last bytes of the object and its size, in one request where the store reads suffixes; the file itself where it
    /// is local.
    async fn tail(&self) -> Result<(Bytes, u64, Option<Arc<File>>)> {
        if self.size.is_none() {
            let options = GetOptions { range: Some(GetRange::Suffix(FOOTER_BYTES)), ..GetOptions::default() };
            match self.store.get_opts(&self.path, options).await {
                Ok(mut response) => {
                    let size = response.meta.size;
                    let mut file = None;
                    if let GetResultPayload::File(opened, path) = response.payload {
                        let kept = opened.try_clone().map_err(|e| ParquetError::External(Box::new(e)))?;
                        file = Some(Arc::new(kept));
                        response.payload = GetResultPayload::File(opened, path);
                    }
                    return Ok((response.bytes().await.map_err(external)?, size, file));
                }
                Err(object_store::Error::NotSupported { .. }) => {}
                Err(error) => return Err(external(error)),
            }
        }
        let size = match self.size {
            Some(size) => size,
            None => self.store.head(&self.path).await.map_err(external)?.size,
        };
        let begin = size.saturating_sub(FOOTER_BYTES);
        Ok((self.store.get_range(&self.path, begin..size).await.map_err(external)?, size, None))
    }
}
