//! The lines of a commit: in memory while they are few, in a staged object when all files are compared and many differ.

use super::super::LOG;
use crate::sync::{Result, Stage, TableRoot};

/// Lines beyond this many bytes leave memory.
const SPILL: usize = 16 << 20;

/// A commit file in the making. After any error it is to be [discarded](Self::discard).
#[derive(Debug)]
pub(super) struct Body {
    /// `commitInfo`, which stands first: whoever looks for the watermark reads no further. No other commit's is the same.
    info: String,
    /// Lines that are still in memory.
    pub lines: String,
    staged: Option<Stage>,
    /// Bytes that have left memory.
    spilled: usize,
}

impl Body {
    /// A commit that begins with the line `info`.
    pub fn new(info: String) -> Self {
        Self { info, lines: String::new(), staged: None, spilled: 0 }
    }

    /// Whether nothing follows the first line.
    pub fn is_empty(&self) -> bool {
        self.staged.is_none() && self.lines.is_empty()
    }

    /// Moves lines out of memory when there are many.
    pub async fn spill(&mut self, root: &TableRoot) -> Result<()> {
        if self.lines.len() < SPILL {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        self.spilled += lines.len();
        let staged = match &mut self.staged {
            Some(staged) => staged,
            None => {
                // No reader of a log knows this kind of name.
                let staged = root.stage(&format!("{LOG}/{}.json.tmp", uuid::Uuid::new_v4())).await?;
                let staged = self.staged.insert(staged);
                staged.append(format!("{}{lines}", self.info).into()).await?;
                return Ok(());
            }
        };
        staged.append(lines.into()).await
    }

    /// Creates the commit file, with `definition` among its lines, and says how large it is; nothing when somebody else has
    /// created it.
    pub async fn publish(&mut self, root: &TableRoot, key: &str, definition: &str) -> Result<Option<u64>> {
        let size = (self.info.len() + definition.len() + self.spilled + self.lines.len()) as u64;
        let Some(staged) = &mut self.staged else {
            let created = root.claim(key, format!("{}{definition}{}", self.info, self.lines)).await?;
            return Ok(created.then_some(size));
        };
        staged.append(format!("{}{definition}", self.lines).into()).await?;
        let object = staged.finish().await?;
        // No parts any longer that could be taken back; the object goes with its publication.
        self.staged = None;
        Ok(root.publish(&object, key).await?.then_some(size))
    }

    /// Takes back what was staged.
    pub async fn discard(self) {
        if let Some(staged) = self.staged {
            staged.discard().await;
        }
    }
}
