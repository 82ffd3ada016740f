//! The output object: buffered, uploaded in parts while it is written, and never left half.

use super::RewriteError;
use crate::store::Object;
use bytes::Bytes;
use hoglake_model::Root;
use object_store::{ObjectStoreExt, WriteMultipart};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

/// Bytes of a part. Objects of one part are put whole.
const PART_BYTES: usize = 8 << 20;
/// Parts in flight.
const PARTS_AHEAD: usize = 3;
/// Parts of a local object after which the disk is set to work on them.
const PARTS_SYNCED: u64 = 4;

/// A writer whose clones write to one object, so that the upload can be ended by another than who writes.
#[derive(Clone)]
pub(super) struct Sink {
    state: Arc<Mutex<State>>,
    object: Object,
    runtime: Handle,
    uploading: fn(),
}

struct State {
    /// Never longer than a part.
    buffer: Vec<u8>,
    /// Buffers of parts that were uploaded, to be filled again: fresh memory costs as much as what is copied into it.
    spare: Spare,
    upload: Option<WriteMultipart>,
    written: u64,
    /// The last bytes, which end with the footer's length.
    tail: [u8; 8],
}

impl Sink {
    pub fn new(object: Object, runtime: Handle, uploading: fn()) -> Self {
        let buffer = Vec::with_capacity(PART_BYTES);
        let state = State { buffer, spare: Spare::default(), upload: None, written: 0, tail: [0; 8] };
        Self { state: Arc::new(Mutex::new(state)), object, runtime, uploading }
    }

    /// Makes the object exist; gives its size and its Parquet footer's length.
    pub async fn finish(self) -> Result<(u64, u64), RewriteError> {
        let (buffer, upload, written, tail) = self.take();
        (self.uploading)();
        let done = match upload {
            Some(mut upload) => {
                if !buffer.is_empty() {
                    upload.put(buffer.into());
                }
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

type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// A part on its way, whose buffer comes back when it has arrived.
struct Part {
    bytes: Vec<u8>,
    spare: Spare,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.bytes);
        buffer.clear();
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

impl State {
    /// Sends the full buffer off, and waits while too many parts are on their way.
    fn send(&mut self, object: &Object, runtime: &Handle) -> io::Result<()> {
        let _runtime = runtime.enter();
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => {
                let begun = runtime.block_on(object.store.put_multipart(&object.path));
                WriteMultipart::new_with_chunk_size(begun.map_err(io::Error::other)?, PART_BYTES)
            }
        };
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = std::mem::replace(&mut self.buffer, spare.unwrap_or_else(|| Vec::with_capacity(PART_BYTES)));
        upload.put(Bytes::from_owner(Part { bytes, spare: Arc::clone(&self.spare) }));
        self.begin_sync(object, runtime);
        let waited = runtime.block_on(upload.wait_for_capacity(PARTS_AHEAD));
        self.upload = Some(upload);
        waited.map_err(io::Error::other)
    }
}

impl State {
    /// A local object is synced before it gets its name. Begun now and then, that is done by the time that the last part
    /// is written, and nobody waits for it. The file is the one that the store writes to meanwhile; where it is another,
    /// the whole sync comes at the end.
    fn begin_sync(&self, object: &Object, runtime: &Handle) {
        let parts = self.written / PART_BYTES as u64;
        if *object.location.root() == Root::Local && parts.is_multiple_of(PARTS_SYNCED) {
            let staged = format!("/{}#1", object.location.key());
            runtime.spawn_blocking(move || std::fs::File::open(staged).and_then(|file| file.sync_data()));
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.written += bytes.len() as u64;
        let kept = bytes.len().min(8);
        state.tail.rotate_left(kept);
        state.tail[8 - kept..].copy_from_slice(&bytes[bytes.len() - kept..]);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PART_BYTES - state.buffer.len()));
            state.buffer.extend_from_slice(now);
            if state.buffer.len() == PART_BYTES {
                state.send(&self.object, &self.runtime)?;
                (self.uploading)();
            }
            rest = later;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
