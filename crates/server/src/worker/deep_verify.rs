//! Deep verify: compares the catalog with what lies in the object store.

use super::{Trigger, WorkError, Worker, in_words};
use futures::{StreamExt, stream};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::verify::{MAX_SAMPLES, Outcome, RegisteredObject, Report};
use hoglake_formats::parquet::footer::{RegisteredFile, footer_statistics};
use hoglake_formats::puffin;
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
    /// Checks the catalog's invariants; with `deep` also reads footers and vectors of all live files.
    ///
    /// # Errors
    /// [`WorkError::Catalog`]. A file that cannot be read is a violation.
    pub async fn verify(&self, catalog: &CatalogIdentity, deep: bool) -> Result<Report, WorkError> {
        let record = self.record(catalog.id, "verify", Trigger::Request).await?;
        record.finish(self.report(catalog, deep).await).await
    }

    async fn report(&self, catalog: &CatalogIdentity, deep: bool) -> Result<Report, WorkError> {
        let report = self.catalog.verify(&catalog.name).await?;
        for check in &report.checks {
            metrics::gauge!("hoglake_verify_violations", "catalog" => catalog.name.clone(), "check" => check.check)
                .set(check.violations as f64);
        }
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
        let footer = footer_statistics(&object, file, &[]).await.map_err(|e| in_words(&e))?;
        if footer.missing_field_ids && !registered.missing_field_ids {
            return Err("some column carries no field id, which the catalog does not know".to_owned());
        }
        Ok(())
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
        match read.vector.last() {
            Some(last) if u64::try_from(registered.record_count).is_ok_and(|rows| last >= rows) => {
                Err(format!("it deletes row {last} of a file with {} rows", registered.record_count))
            }
            _ => Ok(()),
        }
    }
}

fn note(check: &mut (i64, Vec<String>), problem: Option<String>) {
    if let Some(problem) = problem {
        check.0 += 1;
        if check.1.len() < MAX_SAMPLES {
            check.1.push(problem);
        }
    }
}
