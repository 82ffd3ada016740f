//! Reads a manifest as it arrives: each object goes to the sorter at once.

use super::{CheckError, Sorted, Sorter, Workplace};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{Stream, StreamExt};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::{self, BufReader, Read};
use std::pin::pin;
use tokio::sync::mpsc;

/// Bytes of a [`KnownObject`].
pub(super) const KNOWN_BYTES: usize = 22;

/// What the catalog wants with an object. What it needs most comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// A live file or vector.
    Live,
    /// Of a snapshot that is retained, or of a dropped table that has not expired.
    Retained,
    /// Waits for removal.
    Queued,
    /// Written, or about to be, by a compaction.
    Staged,
}

/// An object that the catalog knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownObject {
    pub(super) standing: Standing,
    pub(super) is_vector: bool,
    /// Index of the table's name, of live ones.
    pub(super) table: Option<u32>,
    /// `data_file_id` or `delete_file_id`, of live ones.
    pub(super) id: i64,
    /// As registered; none in the removal queue.
    pub(super) size: Option<i64>,
}

impl KnownObject {
    fn encode(self) -> [u8; KNOWN_BYTES] {
        let mut bytes = [0; KNOWN_BYTES];
        bytes[0] = self.standing as u8;
        bytes[1] = u8::from(self.is_vector);
        bytes[2..6].copy_from_slice(&self.table.map_or(u32::MAX, |table| table).to_be_bytes());
        bytes[6..14].copy_from_slice(&self.id.to_be_bytes());
        bytes[14..].copy_from_slice(&self.size.unwrap_or(-1).to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; KNOWN_BYTES]) -> Self {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            i64::from_be_bytes(number)
        };
        let standing = match bytes[0] {
            0 => Standing::Live,
            1 => Standing::Retained,
            2 => Standing::Queued,
            _ => Standing::Staged,
        };
        let table = u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
        Self {
            standing,
            is_vector: bytes[1] == 1,
            table: (table != u32::MAX).then_some(table),
            id: number(6),
            size: Some(number(14)).filter(|size| *size >= 0),
        }
    }
}

/// What a manifest says, with its objects sorted by their keys below the data path.
pub struct Manifest {
    /// The catalog's name.
    pub catalog: String,
    /// Where its files live.
    pub data_path: String,
    /// The snapshot at which everything was read.
    pub head_snapshot_id: i64,
    /// When that was made.
    pub head_snapshot_time: Option<DateTime<Utc>>,
    /// The floor.
    pub earliest_snapshot_id: i64,
    /// `namespace.table` of every live table.
    pub tables: Vec<Box<str>>,
    /// How many offsets there are.
    pub consumer_offsets: u64,
    /// Paths that do not lie below the data path.
    pub outside: u64,
    pub(super) objects: Sorted<KNOWN_BYTES>,
}

/// Reads the manifest that comes in `chunks`.
///
/// # Errors
/// [`CheckError::Manifest`] when it is not complete, [`CheckError::Temporary`].
pub async fn read<S, E>(chunks: S, workplace: Workplace) -> Result<Manifest, CheckError>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: fmt::Display,
{
    let (sender, receiver) = mpsc::channel(4);
    let parsing = tokio::task::spawn_blocking(move || parse(receiver, &workplace));
    let mut chunks = pin!(chunks);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| error.to_string());
        let failed = chunk.is_err();
        if sender.send(chunk).await.is_err() || failed {
            break;
        }
    }
    drop(sender);
    parsing.await.map_err(|_| CheckError::CutOff)?
}

fn parse(chunks: mpsc::Receiver<Result<Bytes, String>>, workplace: &Workplace) -> Result<Manifest, CheckError> {
    let reader = BufReader::with_capacity(64 << 10, Chunks { chunks, current: Bytes::new() });
    let mut collector = Collector {
        sorter: workplace.sorter(),
        root: String::new(),
        tables: Vec::new(),
        outside: 0,
        objects: 0,
        failure: None,
        workplace,
    };
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let read = TopLevel(&mut collector).deserialize(&mut deserializer).and_then(|head| {
        deserializer.end()?;
        Ok(head)
    });
    if let Some(error) = collector.failure {
        return Err(CheckError::Temporary(error));
    }
    let head = read.map_err(CheckError::Manifest)?;
    if !head.told_unlisted {
        return Err(CheckError::Incomplete);
    }
    Ok(Manifest {
        catalog: head.catalog,
        data_path: head.data_path,
        head_snapshot_id: head.head_snapshot_id,
        head_snapshot_time: head.head_snapshot_time,
        earliest_snapshot_id: head.earliest_snapshot_id,
        tables: collector.tables,
        consumer_offsets: head.consumer_offsets,
        outside: collector.outside,
        objects: collector.sorter.finish().map_err(CheckError::Temporary)?,
    })
}

/// Chunks as a reader for the thread that parses.
struct Chunks {
    chunks: mpsc::Receiver<Result<Bytes, String>>,
    current: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                None => return Ok(0),
                Some(chunk) => self.current = chunk.map_err(io::Error::other)?,
            }
        }
        let taken = self.current.split_to(into.len().min(self.current.len()));
        into[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}

struct Collector<'w> {
    sorter: Sorter<KNOWN_BYTES>,
    /// The data path with its slash.
    root: String,
    tables: Vec<Box<str>>,
    outside: u64,
    objects: u64,
    failure: Option<io::Error>,
    workplace: &'w Workplace,
}

impl Collector<'_> {
    fn take<E: serde::de::Error>(&mut self, path: &str, object: KnownObject) -> Result<(), E> {
        if self.root.is_empty() {
            return Err(E::custom("`data_path` must come before the objects"));
        }
        let Some(key) = path.strip_prefix(&self.root) else {
            self.outside += 1;
            return Ok(());
        };
        self.objects += 1;
        if self.objects.is_multiple_of(8_192) {
            self.workplace.progress.set_message(format!("manifest: {} objects", self.objects));
        }
        self.sorter.push(key.as_bytes(), object.encode()).map_err(|error| {
            self.failure = Some(error);
            E::custom("a temporary file failed")
        })
    }
}

#[derive(Default)]
struct Head {
    catalog: String,
    data_path: String,
    head_snapshot_id: i64,
    head_snapshot_time: Option<DateTime<Utc>>,
    earliest_snapshot_id: i64,
    consumer_offsets: u64,
    told_unlisted: bool,
}

struct TopLevel<'c, 'w>(&'c mut Collector<'w>);

impl<'de> DeserializeSeed<'de> for TopLevel<'_, '_> {
    type Value = Head;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Head, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_, '_> {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export manifest")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
        let mut head = Head::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "catalog" => head.catalog = map.next_value()?,
                "data_path" => {
                    head.data_path = map.next_value()?;
                    self.0.root = format!("{}/", head.data_path.trim_end_matches('/'));
                }
                "head_snapshot_id" => head.head_snapshot_id = map.next_value()?,
                "head_snapshot_time" => head.head_snapshot_time = map.next_value()?,
                "earliest_snapshot_id" => head.earliest_snapshot_id = map.next_value()?,
                "tables" => map.next_value_seed(Each(self.0, Item::Table))?,
                "consumer_offsets" => head.consumer_offsets = map.next_value::<Counted>()?.0,
                "unlisted" => {
                    map.next_value_seed(Each(self.0, Item::Unlisted))?;
                    head.told_unlisted = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        for (name, given) in [("catalog", !head.catalog.is_empty()), ("data_path", !head.data_path.is_empty())] {
            if !given {
                return Err(A::Error::missing_field(name));
            }
        }
        Ok(head)
    }
}

/// What the elements of an array are.
#[derive(Clone, Copy)]
enum Item {
    Table,
    File(u32),
    Vector(u32),
    Unlisted,
}

/// Every element of an array, one after the other.
struct Each<'c, 'w>(&'c mut Collector<'w>, Item);

impl<'de> DeserializeSeed<'de> for Each<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Each<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self(collector, item) = self;
        match item {
            Item::Table => while list.next_element_seed(Table(collector))?.is_some() {},
            Item::File(table) => {
                while let Some(file) = list.next_element::<DataFile>()? {
                    let size = Some(file.file_size_bytes);
                    let (standing, id) = (Standing::Live, file.data_file_id);
                    let object = KnownObject { standing, is_vector: false, table: Some(table), id, size };
                    collector.take(&file.path, object)?;
                }
            }
            Item::Vector(table) => {
                while let Some(vector) = list.next_element::<DeleteFile>()? {
                    let size = Some(vector.file_size_bytes);
                    let (standing, id) = (Standing::Live, vector.delete_file_id);
                    let object = KnownObject { standing, is_vector: true, table: Some(table), id, size };
                    collector.take(&vector.path, object)?;
                }
            }
            Item::Unlisted => {
                while let Some(object) = list.next_element::<UnlistedObject>()? {
                    let standing = match object.state.as_str() {
                        "retained" => Standing::Retained,
                        "queued" => Standing::Queued,
                        "staged" => Standing::Staged,
                        other => return Err(A::Error::unknown_variant(other, &["retained", "queued", "staged"])),
                    };
                    let (is_vector, size) = (object.kind == "delete", object.file_size_bytes);
                    collector.take(&object.path, KnownObject { standing, is_vector, table: None, id: 0, size })?;
                }
            }
        }
        Ok(())
    }
}

struct Table<'c, 'w>(&'c mut Collector<'w>);

impl<'de> DeserializeSeed<'de> for Table<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Table<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of an export manifest")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut namespace = String::new();
        let mut index = None;
        while let Some(name) = map.next_key::<String>()? {
            match (name.as_str(), index) {
                ("namespace", _) => namespace = map.next_value()?,
                ("table", _) => {
                    let table: String = map.next_value()?;
                    index = u32::try_from(self.0.tables.len()).ok();
                    self.0.tables.push(format!("{namespace}.{table}").into());
                }
                ("files", Some(table)) => map.next_value_seed(Each(self.0, Item::File(table)))?,
                ("delete_files", Some(table)) => map.next_value_seed(Each(self.0, Item::Vector(table)))?,
                ("files" | "delete_files", None) => {
                    return Err(A::Error::custom("files come before their table's name"));
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct DataFile {
    data_file_id: i64,
    path: String,
    file_size_bytes: i64,
}

#[derive(Deserialize)]
struct DeleteFile {
    delete_file_id: i64,
    path: String,
    file_size_bytes: i64,
}

#[derive(Deserialize)]
struct UnlistedObject {
    state: String,
    kind: String,
    path: String,
    file_size_bytes: Option<i64>,
}

/// How many elements a list has.
struct Counted(u64);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;
        impl<'de> Visitor<'de> for Count {
            type Value = Counted;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Counted, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Counted(count))
            }
        }
        deserializer.deserialize_seq(Count)
    }
}
