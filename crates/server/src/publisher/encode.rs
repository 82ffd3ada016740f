//! Rows to records. Everything here computes and waits: it runs on threads of its own.

use super::producer::{Pending, Producer, headers};
use super::trouble::Trouble;
use hoglake_catalog::fault;
use hoglake_catalog::publications::RecordFormat;
use hoglake_formats::change_record::arrow_ipc::{self, IpcError};
use hoglake_formats::change_record::deleted::RowIdSet;
use hoglake_formats::change_record::json::{JsonEncoder, push_delete};
use hoglake_formats::change_record::{Keys, Operation};
use hoglake_formats::parquet::rewrite::rows::Rows;
use hoglake_model::SnapshotId;
use std::sync::Arc;
use uuid::Uuid;

/// Row ids that one batch of deletes holds.
const DELETES: usize = 16_384;

/// Produces the records of one snapshot.
pub(super) struct Encoder {
    pub producer: Arc<Producer>,
    pub pending: Arc<Pending>,
    pub table: Uuid,
    pub snapshot: SnapshotId,
    pub format: RecordFormat,
    pub tombstones: bool,
    pub message_max_bytes: usize,
    /// Whether this server may still publish.
    pub may_go_on: Box<dyn Fn() -> bool + Send>,
}

/// What was produced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Produced {
    pub records: u64,
    pub bytes: u64,
}

impl Produced {
    fn count(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
    }
}

impl From<IpcError> for Trouble {
    fn from(error: IpcError) -> Self {
        match error {
            IpcError::TooLarge { .. } => Self::Halt(format!(
                "{error}. Raise HOGLAKE_KAFKA_MESSAGE_MAX_BYTES (and HOGLAKE_KAFKA_QUEUE_BYTES, if it is less) and \
                 max.message.bytes of the topic, then resume the publication"
            )),
            IpcError::Arrow(_) => Self::Halt(format!(
                "rows cannot be encoded as arrow_ipc: {error}. Drop the publication, and create one with json"
            )),
        }
    }
}

impl Encoder {
    /// Produces the rows of a file.
    pub fn append(&self, rows: &Rows, path: &str) -> Result<Produced, Trouble> {
        let mut produced = Produced::default();
        let mut keys = Keys::new(self.table);
        let json = JsonEncoder::new(rows.schema());
        let mut value = Vec::new();
        let snapshot = self.snapshot.to_string();
        let unreadable = |error| Trouble::unreadable(self.snapshot, path, &error);
        for batch in rows.batches().map_err(unreadable)? {
            let batch = batch.map_err(unreadable)?;
            match self.format {
                RecordFormat::Json => {
                    let batch = json.batch(&batch).map_err(|error| {
                        Trouble::Halt(format!(
                            "{error} (snapshot {}). Drop the publication, and create one with arrow_ipc",
                            self.snapshot
                        ))
                    })?;
                    for row in 0..batch.rows() {
                        value.clear();
                        batch.push_append(&mut value, self.snapshot.0, row);
                        let key = keys.of(batch.row_id(row));
                        self.producer.send(&self.pending, key, Some(&value), None, &self.may_go_on)?;
                        produced.count(value.len());
                    }
                }
                RecordFormat::ArrowIpc => arrow_ipc::encode(&batch, self.message_max_bytes, |first, record| {
                    self.batch_record(Operation::Append, &snapshot, keys.of(first), &record, &mut produced)
                })?,
            }
            fault::point("publication.batch_produced");
            if !(self.may_go_on)() {
                return Err(Trouble::Lost);
            }
        }
        Ok(produced)
    }

    /// Produces the rows that went.
    pub fn delete(&self, rows: &RowIdSet) -> Result<Produced, Trouble> {
        let mut produced = Produced::default();
        let mut keys = Keys::new(self.table);
        let snapshot = self.snapshot.to_string();
        let mut ids = rows.iter().peekable();
        let mut value = Vec::new();
        while ids.peek().is_some() {
            let part = ids.by_ref().take(DELETES);
            match self.format {
                RecordFormat::Json => {
                    for id in part {
                        value.clear();
                        push_delete(&mut value, id);
                        let key = keys.of(id);
                        let header = || Some(headers(None, &snapshot));
                        self.producer.send(&self.pending, key, Some(&value), header(), &self.may_go_on)?;
                        produced.count(value.len());
                        if self.tombstones {
                            self.producer.send(&self.pending, key, None, header(), &self.may_go_on)?;
                            produced.count(0);
                        }
                    }
                }
                RecordFormat::ArrowIpc => {
                    let batch = arrow_ipc::deletes(part.collect())?;
                    arrow_ipc::encode(&batch, self.message_max_bytes, |first, record| {
                        self.batch_record(Operation::Delete, &snapshot, keys.of(first), &record, &mut produced)
                    })?;
                }
            }
            fault::point("publication.batch_produced");
            if !(self.may_go_on)() {
                return Err(Trouble::Lost);
            }
        }
        Ok(produced)
    }

    fn batch_record(
        &self,
        operation: Operation,
        snapshot: &str,
        key: &[u8],
        record: &[u8],
        produced: &mut Produced,
    ) -> Result<(), Trouble> {
        let headers = Some(headers(Some(operation.as_str()), snapshot));
        self.producer.send(&self.pending, key, Some(record), headers, &self.may_go_on)?;
        produced.count(record.len());
        Ok(())
    }
}
