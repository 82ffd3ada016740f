//! Request bodies: the statistics are rendered once, the path changes with each commit.

use crate::Arguments;
use base64::Engine as _;
use std::fmt::Write as _;

pub(crate) struct Body {
    head: String,
    path: String,
    tail: String,
    files: usize,
    buffer: String,
}

impl Body {
    pub(crate) fn new(arguments: &Arguments, writer: usize) -> Self {
        let encode = |value: i64| base64::engine::general_purpose::STANDARD.encode(value.to_le_bytes());
        let statistics: Vec<String> = (1..=arguments.columns)
            .map(|field| {
                format!(
                    r#"{{"field_id":{field},"value_count":1000,"null_count":0,"size_bytes":8192,"lower_bound":"{}","upper_bound":"{}"}}"#,
                    encode(10 * field as i64),
                    encode(20 * field as i64)
                )
            })
            .collect();
        let process = std::process::id();
        Self {
            head: format!(
                r#"{{"appends":[{{"namespace":"{}","table":"t{}","files":["#,
                arguments.namespace,
                writer % arguments.tables
            ),
            path: format!(
                r#"{{"path":"{}/data/{}/t{}/0192f8a0-6c1e-7b7e-{process:08x}-{writer:04x}"#,
                arguments.data_path.trim_end_matches('/'),
                arguments.namespace,
                writer % arguments.tables
            ),
            tail: format!(
                r#".parquet","record_count":1000,"file_size_bytes":{},"footer_size":4096,"column_stats":[{}]}}"#,
                arguments.file_bytes,
                statistics.join(",")
            ),
            files: arguments.files,
            buffer: String::new(),
        }
    }

    pub(crate) fn fill(&mut self, sequence: usize) -> &[u8] {
        self.buffer.clear();
        self.buffer.push_str(&self.head);
        for file in 0..self.files {
            if file > 0 {
                self.buffer.push(',');
            }
            self.buffer.push_str(&self.path);
            // writing to a String cannot fail
            let _ = write!(self.buffer, "{sequence:08x}{file:05x}");
            self.buffer.push_str(&self.tail);
        }
        self.buffer.push_str("]}]}");
        self.buffer.as_bytes()
    }
}
