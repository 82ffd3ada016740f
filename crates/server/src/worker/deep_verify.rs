//! Deep verify: compares the catalog with what lies in the object store.

use super::{WorkError, Worker, columns, in_words};
use futures::{StreamExt, stream};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::verify::{MAX_SAMPLES, Outcome, RegisteredObject, Report};
use hoglake_formats::parquet::footer::{FooterStatistics, RegisteredFile, footer_statistics};
use hoglake_formats::puffin;
use hoglake_model::{FieldId, Location};
use object_store::ObjectStoreExt;

/// Files that are compared together.
const PAGE: i64 = 1_000;
/// Files that are read at a time.
const CONCURRENCY: usize = 64;

const DATA_REMEDY: &str =
    "Restore the object from a backup or the store's versions, or delete the file's rows from the table";
const VECTOR_REMEDY: &str = "Restore the object, or commit a vector with all deleted positions of the file again";

/// What one file turned out to have wrong.
struct Findings {
    file: i64,
    data: Option<String>,
    vector: Option<String>,
}

impl Worker {
    /// Checks the catalog's invariants; with `deep` also reads footers and vectors of all live files. It needs the right to
    /// read and no other: what cannot be entered in the ledger is said in the report.
    ///
    /// # Errors
    /// [`WorkError::Catalog`]. A file that cannot be read is a violation.
    pub async fn verify(&self, catalog: &CatalogIdentity, deep: bool) -> Result<Report, WorkError> {
        let (record, unrecorded) = self.record_if_possible(catalog.id, "verify").await;
        let report =
            self.unless_stopping(self.report(catalog, deep)).await.map(|report| Report { unrecorded, ..report });
        record.finish(report).await
    }

    async fn report(&self, catalog: &CatalogIdentity, deep: bool) -> Result<Report, WorkError> {
        let report = self.catalog.verify(&catalog.name).await?;
        if !deep {
            return Ok(report);
        }
        let mut checks = report.checks;
        checks.extend(self.compare_objects(catalog).await?);
        Ok(Report::new(report.catalog, checks))
    }

    async fn compare_objects(&self, catalog: &CatalogIdentity) -> Result<[Outcome; 2], WorkError> {
        let mut data: (i64, Vec<String>) = (0, Vec::new());
        let mut vectors: (i64, Vec<String>) = (0, Vec::new());
        let mut after = 0;
        loop {
            let page = self.catalog.registered_objects(catalog.id, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.data_file_id;
            let found: Vec<Findings> = stream::iter(page)
                .map(|registered| self.compare(registered))
                .buffer_unordered(CONCURRENCY)
                .filter(|f| std::future::ready(f.data.is_some() || f.vector.is_some()))
                .collect()
                .await;
            let suspects: Vec<i64> = found.iter().map(|f| f.file).collect();
            let live = if suspects.is_empty() {
                Default::default()
            } else {
                self.catalog.still_live(catalog.id, &suspects).await?
            };
            for findings in found.into_iter().filter(|f| live.contains(&f.file)) {
                note(&mut data, findings.data);
                note(&mut vectors, findings.vector);
            }
        }
        Ok([
            Outcome::new("data_objects", data.0, data.1, DATA_REMEDY),
            Outcome::new("vector_objects", vectors.0, vectors.1, VECTOR_REMEDY),
        ])
    }

    async fn compare(&self, registered: RegisteredObject) -> Findings {
        let data = self.compare_data(&registered).await.err();
        let vector = self.compare_vector(&registered).await.err();
        let said = |what: &str, id: i64, problem: String| format!("{what} {id}: {problem}");
        Findings {
            file: registered.data_file_id,
            data: data.map(|problem| said("data file", registered.data_file_id, problem)),
            vector: vector
                .map(|problem| said("deletion vector", registered.delete_file_id.unwrap_or_default(), problem)),
        }
    }

    async fn compare_data(&self, registered: &RegisteredObject) -> Result<(), String> {
        let object = self.object(&registered.path).map_err(|e| in_words(&e))?;
        let file = RegisteredFile {
            file_size_bytes: u64::try_from(registered.file_size_bytes).unwrap_or(0),
            footer_size: registered.footer_size.and_then(|f| u64::try_from(f).ok()),
            record_count: Some(registered.record_count),
            max_whole_object_bytes: self.settings.hydrator_max_whole_object_bytes,
        };
        let columns = columns(&registered.columns);
        let footer = footer_statistics(&object, file, &columns).await.map_err(|e| in_words(&e))?;
        check_fields(registered, &footer)
    }

    async fn compare_vector(&self, registered: &RegisteredObject) -> Result<(), String> {
        let (Some(path), Some(count), Some(size)) =
            (&registered.vector_path, registered.delete_count, registered.vector_size_bytes)
        else {
            return Ok(());
        };
        let object = self.object(path).map_err(|e| in_words(&e))?;
        let got = object.store.get(&object.path).await.map_err(|e| in_words(&object.error(e)))?;
        if u64::try_from(size) != Ok(got.meta.size) {
            return Err(format!("the object has {} bytes, {size} were registered", got.meta.size));
        }
        let bytes = got.bytes().await.map_err(|e| in_words(&object.error(e)))?;
        let read = puffin::read(&bytes).map_err(|e| in_words(&e))?;
        if u64::try_from(count) != Ok(read.vector.cardinality()) {
            return Err(format!("it deletes {} rows, {count} were registered", read.vector.cardinality()));
        }
        if let Some(other) = read.referenced_data_file.filter(|other| !is_same_place(other, &registered.path)) {
            return Err(format!("it belongs to `{other}`, and was registered for `{}`", registered.path));
        }
        match read.vector.last() {
            Some(last) if u64::try_from(registered.record_count).is_ok_and(|rows| last >= rows) => {
                Err(format!("it deletes row {last} of a file with {} rows", registered.record_count))
            }
            _ => Ok(()),
        }
    }
}

/// Compares the fields of a file with its table's columns and with what the catalog knows of the file.
fn check_fields(registered: &RegisteredObject, footer: &FooterStatistics) -> Result<(), String> {
    // what a pending file lacks nobody could know before its footer is read
    if footer.missing_field_ids && !registered.missing_field_ids && !registered.is_pending {
        return Err("some column carries no field id, which the catalog does not know".to_owned());
    }
    let carries_row_ids = footer.field_ids.contains(&FieldId::ROW_ID);
    if carries_row_ids != registered.explicit_row_ids {
        return Err(if carries_row_ids {
            "it carries a column of row ids, and was registered as a file without".to_owned()
        } else {
            "it carries no column of row ids, and was registered as a file with one".to_owned()
        });
    }
    // Readers bind by id and pass over fields that are no column, so that a strange one beside the right ones does no harm.
    // One under the id of a column does, when it stores something else.
    if let Some((id, stored)) = footer.mismatched.first() {
        let column = registered.columns.iter().find(|column| column.field_id == *id);
        let wanted = column.map(|column| column.ty.to_string()).unwrap_or_default();
        return Err(format!("its field {id} stores {stored}, which is no {wanted} and cannot be widened to one"));
    }
    // columns that came later, or have gone, are missing rightly
    let mut expected = registered.columns.iter().filter(|column| column.name.is_some()).peekable();
    let strange = |id: &&FieldId| **id != FieldId::ROW_ID && !(1..registered.next_field_id).contains(&id.0);
    if expected.peek().is_some()
        && !expected.any(|column| footer.field_ids.contains(&column.field_id))
        && let Some(id) = footer.field_ids.iter().find(strange)
    {
        return Err(format!("none of its fields is a column of the table, and field id {id} never was one's"));
    }
    Ok(())
}

/// Whether two spellings name one object.
fn is_same_place(one: &str, other: &str) -> bool {
    one == other || matches!((Location::parse(one), Location::parse(other)), (Ok(one), Ok(other)) if one == other)
}

fn note(check: &mut (i64, Vec<String>), problem: Option<String>) {
    if let Some(problem) = problem {
        check.0 += 1;
        if check.1.len() < MAX_SAMPLES {
            check.1.push(problem);
        }
    }
}
