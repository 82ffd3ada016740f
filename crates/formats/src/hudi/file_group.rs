//! File groups and slices: which files of a partition are live together.
//!
//! # Source
//! Hudi specification, "File layout": a base file is `<file id>_<write token>_<instant>.<extension>`, a log file
//! `.<file id>_<instant>.log.<version>_<write token>`. In layout 1 the instant of a log file is that of the base file it
//! belongs to, in layout 2 that of the write itself, and the time of its completion says which slice it belongs to.
//! Files that other engines wrote are registered as `<name>_<instant>_hudiext`.

use super::properties::Layout;
use super::timeline::Timeline;
use std::collections::{BTreeMap, HashSet};

/// The mark at the end of the registered name of a file that Hudi did not write.
pub(super) const EXTERNAL: &str = "_hudiext";

/// What the name of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileName {
    /// A base file.
    Base {
        file_id: String,
        instant: String,
        /// The name in storage, which differs from the registered one for files of other engines.
        stored: String,
    },
    /// A log file.
    Log { file_id: String, instant: String },
    /// Anything else.
    Other,
}

fn is_instant(text: &str) -> bool {
    (14..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

impl FileName {
    pub(super) fn parse(name: &str) -> Self {
        Self::external(name).or_else(|| Self::log(name)).or_else(|| Self::base(name)).unwrap_or(Self::Other)
    }

    fn external(name: &str) -> Option<Self> {
        let marked = name.strip_suffix(EXTERNAL)?;
        // The optional prefix is a folder inside of the partition that the file group lies in.
        let (marked, prefix) = match marked.rsplit_once("_fg%3D") {
            Some((marked, prefix)) => {
                let prefix = percent_encoding::percent_decode_str(prefix).decode_utf8().ok()?;
                (marked, format!("{}/", prefix.trim_end_matches('/')))
            }
            None => (marked, String::new()),
        };
        let (stored, instant) = marked.rsplit_once('_').filter(|(stored, i)| !stored.is_empty() && is_instant(i))?;
        let stored = format!("{prefix}{stored}");
        Some(Self::Base { file_id: stored.clone(), instant: instant.to_owned(), stored })
    }

    fn log(name: &str) -> Option<Self> {
        let (head, tail) = name.strip_prefix('.')?.split_once(".log.")?;
        if tail.ends_with(".cdc") || tail.ends_with("-cdc") || tail.ends_with(".crc") {
            return None;
        }
        let (file_id, instant) = head.rsplit_once('_').filter(|(_, i)| is_instant(i))?;
        Some(Self::Log { file_id: file_id.to_owned(), instant: instant.to_owned() })
    }

    fn base(name: &str) -> Option<Self> {
        if name.starts_with('.') {
            return None;
        }
        let (stem, _) = name.rsplit_once('.')?;
        let (head, instant) = stem.rsplit_once('_').filter(|(_, i)| is_instant(i))?;
        let (file_id, _) = head.rsplit_once('_')?;
        Some(Self::Base { file_id: file_id.to_owned(), instant: instant.to_owned(), stored: name.to_owned() })
    }
}

/// A base file of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaseFile {
    pub(super) instant: String,
    /// Name in storage, below the partition.
    pub(super) name: String,
    pub(super) size: Option<u64>,
}

/// The files of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileGroup {
    pub(super) bases: Vec<BaseFile>,
    /// Log files: instant and name.
    pub(super) logs: Vec<(String, String)>,
}

/// The newest files of a group that are live together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) partition: String,
    pub(super) file_id: String,
    pub(super) base: Option<BaseFile>,
    pub(super) logs: Vec<String>,
}

/// File groups by partition path and file id.
#[derive(Debug, Clone, Default)]
pub(super) struct FileGroups(pub(super) BTreeMap<(String, String), FileGroup>);

impl FileGroups {
    /// Takes a file in; names that are no Hudi file's are passed over.
    pub(super) fn add(&mut self, partition: &str, name: &str, size: Option<u64>) {
        match FileName::parse(name) {
            FileName::Base { file_id, instant, stored } => {
                let bases = &mut self.0.entry((partition.to_owned(), file_id)).or_default().bases;
                match bases.iter_mut().find(|b| b.instant == instant && b.name == stored) {
                    Some(known) => known.size = known.size.or(size),
                    None => bases.push(BaseFile { instant, name: stored, size }),
                }
            }
            FileName::Log { file_id, instant } => {
                let logs = &mut self.0.entry((partition.to_owned(), file_id)).or_default().logs;
                if !logs.iter().any(|(_, known)| known == name) {
                    logs.push((instant, name.to_owned()));
                }
            }
            FileName::Other => {}
        }
    }

    /// The newest slice of every group that was not replaced.
    pub(super) fn slices(&self, timeline: &Timeline, replaced: &HashSet<(String, String)>) -> Vec<Slice> {
        let live = self.0.iter().filter(|(key, _)| !replaced.contains(*key));
        live.filter_map(|((partition, file_id), group)| {
            let (base, logs) = group.newest(timeline, |instant| timeline.is_committed(instant));
            let slice = Slice { partition: partition.clone(), file_id: file_id.clone(), base, logs };
            (slice.base.is_some() || !slice.logs.is_empty()).then_some(slice)
        })
        .collect()
    }
}

impl FileGroup {
    /// The newest base file whose instant counts, and the log files on top of it.
    pub(super) fn newest(&self, timeline: &Timeline, counts: impl Fn(&str) -> bool) -> (Option<BaseFile>, Vec<String>) {
        let base = self.bases.iter().filter(|b| counts(&b.instant)).max_by(|a, b| a.instant.cmp(&b.instant));
        let from = base.map_or("", |b| b.instant.as_str());
        let on_top = |instant: &str| match timeline.layout() {
            // A log file with a later instant belongs to a compaction that is still to come.
            Layout::One => instant >= from,
            Layout::Two => counts(instant) && timeline.completion(instant) > from,
        };
        let mut logs: Vec<&(String, String)> = self.logs.iter().filter(|(instant, _)| on_top(instant)).collect();
        logs.sort_by(|a, b| {
            (timeline.completion(&a.0), log_version(&a.1)).cmp(&(timeline.completion(&b.0), log_version(&b.1)))
        });
        (base.cloned(), logs.into_iter().map(|(_, name)| name.clone()).collect())
    }
}

/// The version in the name of a log file, which orders the log files of one instant.
fn log_version(name: &str) -> u64 {
    let tail = name.rsplit_once(".log.").map_or("", |(_, tail)| tail);
    tail.split('_').next().and_then(|v| v.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let base = |file_id: &str, instant: &str, stored: &str| FileName::Base {
            file_id: file_id.to_owned(),
            instant: instant.to_owned(),
            stored: stored.to_owned(),
        };
        for (name, expected) in [
            (
                "a-b-0_0-1-2_20240418173235694.parquet",
                base("a-b-0", "20240418173235694", "a-b-0_0-1-2_20240418173235694.parquet"),
            ),
            ("part-1.parquet_20240418173235694_hudiext", base("part-1.parquet", "20240418173235694", "part-1.parquet")),
            ("p_q.parquet_20240418173235694_hudiext", base("p_q.parquet", "20240418173235694", "p_q.parquet")),
            (
                "f.parquet_20240418173235694_fg%3Dd%2Fe_hudiext",
                base("d/e/f.parquet", "20240418173235694", "d/e/f.parquet"),
            ),
            (
                ".a-0_20240418173235694.log.2_0-1-2",
                FileName::Log { file_id: "a-0".to_owned(), instant: "20240418173235694".to_owned() },
            ),
            (".a-0_20240418173235694.log.1_0-1-2.cdc", FileName::Other),
            ("part-00000.parquet", FileName::Other),
            (".hoodie_partition_metadata", FileName::Other),
            ("_SUCCESS", FileName::Other),
            ("_20240418173235694_hudiext", FileName::Other),
            (".a-0_0-1-2_20240418173235694.parquet.crc", FileName::Other),
        ] {
            assert_eq!(FileName::parse(name), expected, "{name}");
        }
    }
}
