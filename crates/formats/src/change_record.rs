//! Changes of a table as records of a log: a key and a value for each row, or for each batch of rows.
//!
//! Encoding is deterministic: the same rows of the same snapshot give the same keys and the same bytes, so that a record
//! that is sent again replaces itself.

pub mod arrow_ipc;
pub mod deleted;
pub mod json;
mod temporal;

use uuid::Uuid;

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It came.
    Append,
    /// It went.
    Delete,
}

impl Operation {
    /// As records say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Delete => "delete",
        }
    }
}

/// Keys of the records of one table: its uuid, a colon, a row id.
#[derive(Debug, Clone)]
pub struct Keys {
    buffer: Vec<u8>,
    prefix: usize,
}

impl Keys {
    /// Keys for `table`.
    pub fn new(table: Uuid) -> Self {
        let buffer = format!("{table}:").into_bytes();
        Self { prefix: buffer.len(), buffer }
    }

    /// The key of `row`.
    pub fn of(&mut self, row: i64) -> &[u8] {
        self.buffer.truncate(self.prefix);
        self.buffer.extend_from_slice(itoa::Buffer::new().format(row).as_bytes());
        &self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_table_and_the_row() {
        let mut keys = Keys::new(Uuid::nil());
        assert_eq!(keys.of(i64::MAX), b"00000000-0000-0000-0000-000000000000:9223372036854775807");
        assert_eq!(keys.of(0), b"00000000-0000-0000-0000-000000000000:0");
    }
}
