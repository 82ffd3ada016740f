//! Ranged reads of a Parquet file in an object store.

use bytes::Bytes;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::{AsyncFileReader, MetadataSuffixFetch};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::ops::Range;
use std::sync::Arc;

/// Bytes fetched with the footer in the hope that they hold all metadata.
const FOOTER_BYTES: usize = 64 << 10;

/// One Parquet file.
#[derive(Debug, Clone)]
pub struct ParquetObject {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    /// Its size where known; saves a request in stores that read no suffixes.
    pub(super) size: Option<u64>,
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
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        Box::pin(async move {
            let reader =
                ParquetMetaDataReader::new().with_arrow_reader_options(options).with_prefetch_hint(Some(FOOTER_BYTES));
            Ok(Arc::new(match self.size {
                Some(size) => reader.load_and_finish(self, size).await?,
                None => reader.load_via_suffix_and_finish(self).await?,
            }))
        })
    }
}

impl MetadataSuffixFetch for &mut ParquetObject {
    fn fetch_suffix(&mut self, suffix: usize) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            let range = Some(GetRange::Suffix(suffix as u64));
            match self.store.get_opts(&self.path, GetOptions { range, ..GetOptions::default() }).await {
                Ok(response) => response.bytes().await.map_err(external),
                Err(object_store::Error::NotSupported { .. }) => {
                    let size = self.store.head(&self.path).await.map_err(external)?.size;
                    let begin = size.saturating_sub(suffix as u64);
                    self.store.get_range(&self.path, begin..size).await.map_err(external)
                }
                Err(e) => Err(external(e)),
            }
        })
    }
}
