//! Sorted runs in temporary files.

use super::RewriteError;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

const BUFFER_BYTES: usize = 128 << 10;

/// A run being written.
pub(super) struct SpillWriter {
    writer: StreamWriter<BufWriter<File>>,
}

impl SpillWriter {
    pub fn new(directory: &Path, schema: &SchemaRef) -> Result<Self, RewriteError> {
        let file = tempfile::tempfile_in(directory).map_err(RewriteError::Spill)?;
        Ok(Self { writer: StreamWriter::try_new(BufWriter::with_capacity(BUFFER_BYTES, file), schema)? })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), RewriteError> {
        Ok(self.writer.write(batch)?)
    }

    pub fn finish(mut self) -> Result<SpilledRun, RewriteError> {
        self.writer.finish()?;
        let mut buffered = self.writer.into_inner()?;
        buffered.flush().map_err(RewriteError::Spill)?;
        let file = buffered.into_inner().map_err(|e| RewriteError::Spill(e.into_error()))?;
        Ok(SpilledRun { file })
    }
}

/// A run that was written whole.
#[derive(Debug)]
pub(super) struct SpilledRun {
    file: File,
}

impl SpilledRun {
    pub fn read(mut self) -> Result<StreamReader<BufReader<File>>, RewriteError> {
        self.file.seek(SeekFrom::Start(0)).map_err(RewriteError::Spill)?;
        Ok(StreamReader::try_new(BufReader::with_capacity(BUFFER_BYTES, self.file), None)?)
    }
}
