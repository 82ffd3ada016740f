//! Row positions of deletion vectors and position-delete files ("Deletion Vectors", "Position Delete Files").

use crate::deletion_vector::DeletionVector;
use crate::sync::{Error, Result, TableRoot, batch_rows};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use hoglake_model::table::{DataFile, DeleteFile, FileFormat, FilePath, RowDeletes, VectorContainer, VectorRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Position-delete files kept in memory; one often speaks of many data files that follow each other.
const KEPT: usize = 16;

/// No store has objects with names as long.
const MAX_PATH_BYTES: usize = 64 << 10;
/// Rows of a batch, unless their paths are very long.
const BATCH_ROWS: usize = 8192;

type Positions = Arc<HashMap<FilePath, DeletionVector>>;

/// Position-delete files read last.
#[derive(Debug, Default)]
pub(super) struct PositionCache {
    kept: Mutex<Vec<(FilePath, Positions)>>,
}

impl PositionCache {
    /// The rows of a data file that are deleted by position.
    pub async fn of(
        &self,
        root: &TableRoot,
        path: &(dyn Fn(&str) -> Result<FilePath> + Sync),
        file: &DataFile,
    ) -> Result<DeletionVector> {
        let mut all = DeletionVector::default();
        for deletes in &file.deletes {
            match deletes {
                RowDeletes::Vector(vector) => all.extend(&vector_at(root, vector).await?),
                RowDeletes::Positions(deletes) => {
                    if let Some(found) = self.file(root, path, deletes).await?.get(&file.path) {
                        all.extend(found);
                    }
                }
                RowDeletes::Equality(_) | RowDeletes::Log(_) => {}
            }
        }
        Ok(all)
    }

    async fn file(
        &self,
        root: &TableRoot,
        path: &(dyn Fn(&str) -> Result<FilePath> + Sync),
        deletes: &DeleteFile,
    ) -> Result<Positions> {
        let kept = |cache: &Self| {
            let kept = cache.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|(path, _)| *path == deletes.path).map(|(_, positions)| Arc::clone(positions))
        };
        if let Some(positions) = kept(self) {
            return Ok(positions);
        }
        let read = Arc::new(read(root, path, deletes).await?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((deletes.path.clone(), Arc::clone(&read)));
        Ok(read)
    }
}

/// Reads a deletion vector out of its Puffin file.
pub(in crate::iceberg) async fn vector_at(root: &TableRoot, vector: &VectorRef) -> Result<DeletionVector> {
    let VectorContainer::File { path, offset, length } = &vector.container else {
        return Err(Error::malformed("deletion vector", "Iceberg knows no inline vectors"));
    };
    let bad = |detail: String| Error::malformed(path.as_str(), detail);
    // A Puffin file starts with four bytes of magic; a blob before that is a bare one, which no specification knows.
    let end = length.and_then(|n| offset.checked_add(n)?.checked_add(8));
    let (Some(end), 4..) = (end, *offset) else {
        return Err(bad("the deletion vector is no blob of a Puffin file".to_owned()));
    };
    let bytes = root.read(path, Some(*offset..end)).await?;
    let found = DeletionVector::decode(&bytes).map_err(|e| bad(e.to_string()))?;
    if vector.cardinality.is_some_and(|n| n != found.cardinality()) {
        return Err(bad("the deletion vector's cardinality disagrees with its manifest".to_owned()));
    }
    Ok(found)
}

pub(in crate::iceberg) async fn read(
    root: &TableRoot,
    path: &(dyn Fn(&str) -> Result<FilePath> + Sync),
    deletes: &DeleteFile,
) -> Result<HashMap<FilePath, DeletionVector>> {
    let bad = |detail: &str| Error::malformed(deletes.path.as_str(), detail);
    let damaged = |e| Error::parquet(deletes.path.as_str(), &e);
    if deletes.format != FileFormat::Parquet {
        return Err(Error::UnsupportedSource {
            feature: "position deletes that are not Parquet".to_owned(),
            place: deletes.path.as_str().to_owned(),
            detail: "compact the table first".to_owned(),
        });
    }
    // Manifests have been seen to get the sizes of delete files wrong.
    let object = root.parquet(&deletes.path, None)?;
    let builder = ParquetRecordBatchStreamBuilder::new(object).await.map_err(damaged)?;
    let schema = builder.parquet_schema();
    let column = |name: &str| (0..schema.num_columns()).find(|i| schema.column(*i).path().string() == name);
    let (Some(file), Some(position)) = (column("file_path"), column("pos")) else {
        return Err(bad("a position-delete file needs the columns file_path and pos"));
    };
    let mask = ProjectionMask::leaves(schema, [file, position]);
    // One page may hold them all, and is unpacked at once.
    let absurd = builder.metadata().row_groups().iter().any(|group| {
        let bytes = usize::try_from(group.column(file).uncompressed_size()).unwrap_or(0);
        bytes / usize::try_from(group.num_rows()).unwrap_or(0).max(1) > MAX_PATH_BYTES
    });
    if absurd {
        return Err(bad("its paths are longer than any store allows"));
    }
    let rows = batch_rows(builder.metadata(), &mask, BATCH_ROWS);
    let mut stream = builder.with_projection(mask).with_batch_size(rows).build().map_err(damaged)?;
    let mut found: HashMap<String, Vec<u64>> = HashMap::new();
    while let Some(batch) = stream.try_next().await.map_err(damaged)? {
        let files = batch.column_by_name("file_path").and_then(|c| c.as_string_opt::<i32>());
        let positions = batch.column_by_name("pos").and_then(|c| c.as_primitive_opt::<Int64Type>());
        let (Some(files), Some(positions)) = (files, positions) else {
            return Err(bad("file_path must be a string and pos a long"));
        };
        for row in 0..batch.num_rows() {
            let position = u64::try_from(positions.value(row)).map_err(|_| bad("a position is negative"))?;
            let file = files.value(row);
            if file.len() > MAX_PATH_BYTES {
                return Err(bad("a path is longer than any store allows"));
            }
            if let Some(positions) = found.get_mut(file) {
                positions.push(position);
            } else {
                found.insert(file.to_owned(), vec![position]);
            }
        }
    }
    let mut vectors: HashMap<FilePath, DeletionVector> = HashMap::new();
    for (file, positions) in found {
        vectors.entry(path(&file)?).or_default().extend(&DeletionVector::from_positions(positions));
    }
    Ok(vectors)
}
