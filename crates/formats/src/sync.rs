//! The engine between formats: a [`Source`] is read, a [`Target`] is written, [`sync`] decides what to do.
//!
//! **Architecture invariant:** no format module imports another. They meet in [`hoglake_model::table`] and here.
//!
//! One run against one target: load the target's watermark; if it already covers the source's head, nothing is done.
//! Otherwise replay the commits after the watermark, one target commit each, or, when that is impossible (no
//! watermark, history gone, another table, asked for), bring the target to the head in one commit that compares all
//! files. A table without a watermark is somebody's own: it is only replaced when a full sync is asked for. A commit that
//! loses the race for the target's pointer has changed nothing: the run loads and plans again.

mod deletes;
mod dry_run;
mod engine;
mod error;
mod leftovers;
mod named;
mod parquet_pages;
mod parquet_reader;
mod root;
mod source;
mod target;
mod watermark;

pub use deletes::UnsupportedDeletes;
pub use engine::{Mode, Options, Outcome, Plan, Report, Step, sync};
pub use error::{Error, Result};
pub use named::{Named, Progress};
pub(crate) use parquet_pages::{OpenParquet, ParquetPages, Requests};
pub use parquet_reader::{ParquetObject, batch_rows};
pub(crate) use root::fingerprint;
pub use root::{Listed, Stage, TableRoot, footer_record_count};
pub(crate) use source::record_counts;
pub use source::{BoxFuture, Changes, FileStream, Snapshot, Source, Versions};
pub use target::{Commit, Committed, Files, Loaded, Target};
pub(crate) use watermark::is_own;
pub use watermark::{WATERMARK_KEY, XTABLE_KEY, from_properties, to_properties, to_xtable};
