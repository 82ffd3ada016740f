//! Whether a checkpoint may name one of some files, from the bytes of its path column alone.
//!
//! Commits mostly add files that nobody has heard of. That the checkpoint has not either is told without making columns of
//! its names, which would cost more than all else that following a commit does.

use crate::sync::{OpenParquet, ParquetPages, Requests};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// Whether a value of the text column `leaf` may be one that `is_wanted` accepts. Only false is certain: pages in an
/// encoding other than plain and dictionary are not looked into.
///
/// # Memory
/// A page, as far as the footer's column chunks are read in windows.
///
/// # Errors
/// Those of the store and of pages that cannot be read.
///
/// # Source
/// Parquet format, "Data Pages", "Plain", "Dictionary Encoding".
pub(super) async fn may_name(
    part: &OpenParquet,
    leaf: usize,
    requests: Requests,
    is_wanted: impl Fn(&[u8]) -> bool + Send + 'static,
) -> Result<bool, ParquetError> {
    let column = part.metadata().file_metadata().schema_descr().column(leaf);
    if column.physical_type() != Type::BYTE_ARRAY || column.max_rep_level() > 0 {
        return Ok(true);
    }
    let optional = column.max_def_level() > 0;
    let mask = ProjectionMask::leaves(part.metadata().file_metadata().schema_descr(), [leaf]);
    let pages = part.pages(&mask, requests)?;
    let part = part.clone();
    let search = move || {
        let found = any(&part, &pages, leaf, |page| page_may(page, optional, &is_wanted));
        found.map_err(|e| pages.error(e))
    };
    tokio::task::spawn_blocking(search).await.map_err(|e| ParquetError::General(e.to_string()))?
}

/// Whether some page of a column is one.
fn any(
    part: &OpenParquet,
    pages: &ParquetPages,
    leaf: usize,
    is_one: impl Fn(Page) -> bool,
) -> Result<bool, ParquetError> {
    let file = Arc::new(pages.clone());
    for group in part.metadata().row_groups() {
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let mut reader = SerializedPageReader::new(Arc::clone(&file), group.column(leaf), rows, None)?;
        while let Some(page) = reader.get_next_page()? {
            if is_one(page) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn page_may(page: Page, optional: bool, is_wanted: &impl Fn(&[u8]) -> bool) -> bool {
    let values = match page {
        Page::DictionaryPage { buf, encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY, .. } => Some(buf),
        // What these point to is in the dictionary.
        Page::DataPage { encoding: Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, .. }
        | Page::DataPageV2 { encoding: Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, .. } => return false,
        Page::DataPage { buf, encoding: Encoding::PLAIN, .. } if !optional => Some(buf),
        Page::DataPage { buf, encoding: Encoding::PLAIN, def_level_encoding: Encoding::RLE, .. } => behind_levels(&buf),
        Page::DataPageV2 {
            buf,
            encoding: Encoding::PLAIN,
            def_levels_byte_len: definition,
            rep_levels_byte_len: repetition,
            ..
        } => {
            let levels = usize::try_from(definition.saturating_add(repetition)).unwrap_or(usize::MAX);
            (levels <= buf.len()).then(|| buf.slice(levels..))
        }
        _ => None,
    };
    values.is_none_or(|values| any_value(&values, is_wanted))
}

/// The values of a page that begins with its definition levels and their length.
fn behind_levels(page: &Bytes) -> Option<Bytes> {
    let (length, rest) = page.split_first_chunk::<4>()?;
    let levels = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    (levels <= rest.len()).then(|| page.slice(4 + levels..))
}

/// Whether some value is wanted; also where the values do not end with the page.
fn any_value(mut values: &[u8], is_wanted: &impl Fn(&[u8]) -> bool) -> bool {
    while let Some((length, rest)) = values.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((value, rest)) = rest.split_at_checked(length) else { return true };
        if is_wanted(value) {
            return true;
        }
        values = rest;
    }
    !values.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::TableRoot;
    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use hoglake_model::Location;
    use hoglake_model::table::FilePath;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};

    const NAMES: usize = 5000;

    async fn open(properties: WriterPropertiesBuilder, with_nulls: bool) -> OpenParquet {
        let name = |n: usize| (!with_nulls || n % 3 != 1).then(|| format!("p=1/part-{n:05}.parquet"));
        let names: ArrayRef = Arc::new(StringArray::from_iter((0..NAMES).map(name)));
        let batch = RecordBatch::try_from_iter_with_nullable([("path", names, with_nulls)]).unwrap();
        let properties = properties.set_data_page_row_count_limit(700).set_max_row_group_row_count(Some(3000)).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let store = InMemory::new();
        store.put(&Path::from("t/f.parquet"), writer.into_inner().unwrap().into()).await.unwrap();
        let root = TableRoot::with_store(Arc::new(store), Location::parse("s3://b/t").unwrap());
        root.parquet(&FilePath::Under("f.parquet".into()), None).unwrap().open().await.unwrap()
    }

    async fn names(part: &OpenParquet, wanted: &'static str) -> bool {
        may_name(part, 0, Requests::AsNeeded, move |value| value == wanted.as_bytes()).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_name_is_found_and_no_other_in_every_form_of_page() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for (dictionary, limit) in [(true, 1 << 20), (true, 1 << 12), (false, 1 << 20)] {
                for (compression, with_nulls) in [(Compression::SNAPPY, true), (Compression::UNCOMPRESSED, false)] {
                    let properties = WriterProperties::builder()
                        .set_writer_version(version)
                        .set_dictionary_enabled(dictionary)
                        .set_dictionary_page_size_limit(limit)
                        .set_encoding(Encoding::PLAIN)
                        .set_compression(compression);
                    let part = open(properties, with_nulls).await;
                    let case = format!("{version:?} {dictionary} {limit} {compression:?} {with_nulls}");
                    for name in ["p=1/part-00000.parquet", "p=1/part-02999.parquet", "p=1/part-04998.parquet"] {
                        assert!(names(&part, name).await, "{case}: {name}");
                    }
                    assert!(!names(&part, "p=1/part-05000.parquet").await, "{case}");
                    assert_eq!(names(&part, "p=1/part-00001.parquet").await, !with_nulls, "{case}");
                }
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_cannot_be_looked_into_may_be_anything() {
        let delta = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY);
        assert!(names(&open(delta, false).await, "none").await);
        let not = |_: &[u8]| false;
        assert!(any_value(&[1, 0, 0], &not) && any_value(&[9, 0, 0, 0, 1], &not) && any_value(&[255; 4], &not));
        assert!(!any_value(&[1, 0, 0, 0, 7], &not) && !any_value(&[], &not));
        assert!(behind_levels(&Bytes::from_static(&[9, 0, 0, 0, 1])).is_none());
    }
}
