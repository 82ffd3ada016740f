//! The output object: buffered, uploaded in parts while it is written, and never left half.

use super::RewriteError;
use crate::store::Object;
use object_store::{ObjectStoreExt, WriteMultipart};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

/// Bytes of a part. Objects of one part are put whole.
const PART_BYTES: usize = 8 << 20;
/// Parts in flight.
const PARTS_AHEAD: usize = 3;

/// A writer whose clones write to one object, so that the upload can be ended by another than who writes.
#[derive(Clone)]
pub(super) struct Sink {
    state: Arc<Mutex<State>>,
    object: Object,
    runtime: Handle,
}

struct State {
    buffer: Vec<u8>,
    upload: Option<WriteMultipart>,
    written: u64,
    /// The last bytes, which end with the footer's length.
    tail: [u8; 8],
}

impl Sink {
    pub fn new(object: Object, runtime: Handle) -> Self {
        let state = State { buffer: Vec::with_capacity(PART_BYTES), upload: None, written: 0, tail: [0; 8] };
        Self { state: Arc::new(Mutex::new(state)), object, runtime }
    }

    /// Makes the object exist; gives its size and its Parquet footer's length.
    pub async fn finish(self) -> Result<(u64, u64), RewriteError> {
        let (buffer, upload, written, tail) = self.take();
        let done = match upload {
            Some(mut upload) => {
                upload.write(&buffer);
                upload.finish().await.map(|_| ())
            }
            None => self.object.store.put(&self.object.path, buffer.into()).await.map(|_| ()),
        };
        done.map_err(|e| self.object.error(e))?;
        let [a, b, c, d, ..] = tail;
        Ok((written, u64::from(u32::from_le_bytes([a, b, c, d]))))
    }

    /// Makes sure that nothing of the object stays.
    pub async fn abort(self) {
        let (_, upload, ..) = self.take();
        if let Some(upload) = upload
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(location = %self.object.location, error = %error, "a multipart upload could not be aborted");
        }
    }

    fn take(&self) -> (Vec<u8>, Option<WriteMultipart>, u64, [u8; 8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut state.buffer), state.upload.take(), state.written, state.tail)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.written += bytes.len() as u64;
        let kept = bytes.len().min(8);
        state.tail.rotate_left(kept);
        state.tail[8 - kept..].copy_from_slice(&bytes[bytes.len() - kept..]);
        state.buffer.extend_from_slice(bytes);
        if state.buffer.len() >= PART_BYTES {
            let _runtime = self.runtime.enter();
            let mut upload = match state.upload.take() {
                Some(upload) => upload,
                None => {
                    let begun = self.runtime.block_on(self.object.store.put_multipart(&self.object.path));
                    WriteMultipart::new_with_chunk_size(begun.map_err(io::Error::other)?, PART_BYTES)
                }
            };
            let part = std::mem::replace(&mut state.buffer, Vec::with_capacity(PART_BYTES));
            upload.put(part.into());
            let waited = self.runtime.block_on(upload.wait_for_capacity(PARTS_AHEAD));
            state.upload = Some(upload);
            waited.map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
