//! Action reconciliation ("Action Reconciliation"): which logical files are live, and what each `add` says.

use super::action::{Add, VectorDescriptor};
use super::partition;
use super::schema::Mapping;
use super::stats::{FileStats, Scratch, StatsSchema};
use crate::deletion_vector::z85;
use crate::sync::{Error, Result, TableRoot};
use hoglake_model::Location;
use hoglake_model::table::{DataFile, FilePath, Primitive, RowDeletes, TableState, VectorContainer, VectorRef};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// Turns actions into files of the model, under one version's schema.
#[derive(Debug)]
pub(super) struct Decoder {
    pub root: TableRoot,
    pub stats: StatsSchema,
    /// Stored name and type of each partition column.
    partition: Vec<(Box<str>, Primitive)>,
}

impl Decoder {
    pub fn new(root: TableRoot, state: &TableState, mapping: Mapping) -> Self {
        let columns = state.specs.iter().flat_map(|spec| &spec.fields).filter_map(|field| {
            let node = state.schema.node(field.source)?;
            let column = node.field?;
            let name = if mapping == Mapping::None { &column.name } else { column.stored_name() };
            Some((Box::from(name), node.ty.primitive()?))
        });
        Self { root, stats: StatsSchema::new(&state.schema), partition: columns.collect() }
    }

    /// The file of an `add`, its statistics read from JSON unless they are given.
    pub fn file(
        &self,
        place: &str,
        add: &Add<'_>,
        scratch: &mut Scratch,
        given: Option<FileStats>,
    ) -> Result<DataFile> {
        let path = path(&self.root, place, &add.path)?;
        let mut partition = Vec::with_capacity(self.partition.len());
        for (name, ty) in &self.partition {
            let text = add.partition_values.iter().find(|(key, _)| key == name.as_ref());
            // Old Hive-made tables differ in case.
            let text = text.or_else(|| add.partition_values.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)));
            let text = text.and_then(|(_, value)| value.as_deref());
            partition.push(
                partition::parse(*ty, text)
                    .map_err(|e| Error::malformed(place, format!("{e} for column {name:?} of {}", add.path)))?,
            );
        }
        let stats = match (given, &add.stats) {
            (Some(stats), _) => stats,
            (None, Some(text)) => self.stats.parse(text, scratch),
            (None, None) => FileStats::default(),
        };
        let mut file = DataFile::new(path);
        file.size_bytes = add.size.and_then(|n| u64::try_from(n).ok());
        file.record_count = stats.record_count;
        file.partition = partition;
        file.columns = stats.columns;
        file.modified_ms = add.modification_time;
        file.first_row_id = add.base_row_id;
        if let Some(vector) = &add.deletion_vector {
            file.deletes.push(RowDeletes::Vector(self::vector(&self.root, place, vector)?));
        }
        Ok(file)
    }
}

/// Where the vector of a descriptor is ("Deletion Vector Descriptor Schema", "Derived Fields").
pub(super) fn vector(root: &TableRoot, place: &str, d: &VectorDescriptor<'_>) -> Result<VectorRef> {
    let bad = |detail: &str| Error::malformed(place, format!("deletion vector: {detail}"));
    let length = u64::try_from(d.size_in_bytes).map_err(|_| bad("negative sizeInBytes"))?;
    let offset = u64::try_from(d.offset.unwrap_or(0)).map_err(|_| bad("negative offset"))?;
    let container = match d.storage_type.as_ref() {
        "i" => {
            let mut bytes = z85::decode(&d.path_or_inline_dv).map_err(|e| bad(&e.to_string()))?;
            // Z85 pads to four bytes; the descriptor tells the true size.
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if bytes.len() < length || bytes.len() - length > 3 {
                return Err(bad("sizeInBytes disagrees with the inline bytes"));
            }
            bytes.truncate(length);
            VectorContainer::Inline(bytes.into())
        }
        "u" => {
            let text = d.path_or_inline_dv.as_ref();
            let at = text.len().checked_sub(20).filter(|at| text.is_char_boundary(*at));
            let (prefix, encoded) = at.map(|at| text.split_at(at)).ok_or_else(|| bad("the uuid is too short"))?;
            let bytes = z85::decode(encoded).map_err(|e| bad(&e.to_string()))?;
            let uuid = uuid::Uuid::from_slice(&bytes).map_err(|_| bad("the uuid has not 16 bytes"))?;
            let slash = if prefix.is_empty() { "" } else { "/" };
            let relative = format!("{prefix}{slash}deletion_vector_{uuid}.bin");
            VectorContainer::File { path: FilePath::Under(relative.into()), offset, length: Some(length) }
        }
        "p" => {
            let path = path(root, place, &d.path_or_inline_dv)?;
            VectorContainer::File { path, offset, length: Some(length) }
        }
        other => return Err(bad(&format!("storage type {other:?} does not exist"))),
    };
    Ok(VectorRef { container, cardinality: u64::try_from(d.cardinality).ok() })
}

/// The model's path of a URI in the log: decoded once, relative ones under the root.
pub(super) fn path(root: &TableRoot, place: &str, uri: &str) -> Result<FilePath> {
    let decoded = decode(uri).ok_or_else(|| Error::malformed(place, format!("the path {uri:?} does not decode")))?;
    if !is_absolute(&decoded) {
        return match decoded.as_ref() {
            "" => Err(Error::malformed(place, "a file needs a path")),
            // Refuses `..` and the like before anything is done with it.
            text if text.split('/').any(|s| matches!(s, "" | "." | "..")) => {
                Err(Error::malformed(place, format!("the path {uri:?} leaves the table or names nothing")))
            }
            text => Ok(FilePath::Under(text.into())),
        };
    }
    let location = Location::parse(&decoded).map_err(|e| Error::malformed(place, e.detail))?;
    Ok(root.file_path(&location))
}

/// What a path decodes to; nothing for what is no text then.
pub(super) fn decode(uri: &str) -> Option<Cow<'_, str>> {
    if uri.contains('%') { percent_decode_str(uri).decode_utf8().ok() } else { Some(uri.into()) }
}

fn is_absolute(path: &str) -> bool {
    let scheme = path.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')).count();
    path.starts_with('/') || (scheme > 1 && path[scheme..].starts_with(":/"))
}

/// The identity of a logical file, `(path, dvId)`, in 16 bytes.
#[derive(Debug, Default)]
pub(super) struct Keys {
    hasher: KeyHasher,
    seen: HashSet<u128>,
}

/// Makes the keys of one [`Keys`].
#[derive(Debug, Clone, Default)]
pub(super) struct KeyHasher(RandomState, RandomState);

impl KeyHasher {
    /// The key of a logical file.
    pub fn key(&self, uri: &str, vector: Option<&VectorDescriptor<'_>>) -> u128 {
        let path = decode(uri).unwrap_or(uri.into());
        let dv = vector.map(|v| (v.storage_type.as_ref(), v.path_or_inline_dv.as_ref(), v.offset));
        self.of(&(path.as_ref(), dv))
    }

    /// As [`key`](Self::key), of a path that is compared as it is written.
    pub fn text(&self, uri: &str, vector: Option<&VectorDescriptor<'_>>) -> u128 {
        let dv = vector.map(|v| (v.storage_type.as_ref(), v.path_or_inline_dv.as_ref(), v.offset));
        self.of(&(uri, dv))
    }

    fn of(&self, value: &impl Hash) -> u128 {
        (u128::from(self.0.hash_one(value)) << 64) | u128::from(self.1.hash_one(value))
    }
}

impl Keys {
    /// What makes the keys, for other threads.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher.clone()
    }

    /// The key of a logical file.
    pub fn key(&self, uri: &str, vector: Option<&VectorDescriptor<'_>>) -> u128 {
        self.hasher.key(uri, vector)
    }

    /// Notes a key; false when something newer has already decided about it.
    pub fn insert(&mut self, key: u128) -> bool {
        self.seen.insert(key)
    }

    /// Whether something newer has decided about it.
    pub fn contains(&self, key: u128) -> bool {
        self.seen.contains(&key)
    }
}

/// Paths in 16 bytes each.
#[derive(Debug, Clone, Default)]
pub(super) struct Paths {
    hasher: KeyHasher,
    keys: HashSet<u128>,
}

impl Paths {
    /// No paths, to be compared with others.
    pub fn like(other: &Self) -> Self {
        Self { hasher: other.hasher.clone(), keys: HashSet::new() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds the paths of another that is [`like`](Self::like) this one.
    pub fn extend(&mut self, other: Self) {
        self.keys.extend(other.keys);
    }

    /// Adds a path; false when it was there.
    pub fn insert(&mut self, path: &FilePath) -> bool {
        self.keys.insert(self.hasher.of(path))
    }

    /// Takes a path out.
    pub fn remove(&mut self, path: &FilePath) -> bool {
        self.keys.remove(&self.hasher.of(path))
    }

    /// Whether a path is among them.
    pub fn contains(&self, path: &FilePath) -> bool {
        self.keys.contains(&self.hasher.of(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use std::sync::Arc;

    fn root() -> TableRoot {
        TableRoot::with_store(Arc::new(InMemory::new()), Location::parse("s3://b/t").unwrap())
    }

    #[test]
    fn paths_are_decoded_once_and_found_under_the_root() {
        let path = |uri: &str| path(&root(), "x", uri);
        let under = |p: &str| FilePath::Under(p.into());
        assert_eq!(path("p=a%20b/f.parquet").unwrap(), under("p=a b/f.parquet"));
        assert_eq!(path("p=a%2520b/f").unwrap(), under("p=a%20b/f"));
        assert_eq!(path("p=%C3%A9:1/f").unwrap(), under("p=é:1/f"));
        assert_eq!(path("s3a://b/t/p=a%20b/f").unwrap(), under("p=a b/f"));
        assert_eq!(path("s3://b/t2/f").unwrap(), FilePath::Outside("s3://b/t2/f".into()));
        for bad in ["", "../f", "a/../f", "a%2F..%2Ff", "s3://b/t/../u", "%ff", "a//b"] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_tell_vectors_of_one_file_apart() {
        let keys = Keys::default();
        let vector = |offset| VectorDescriptor {
            storage_type: "u".into(),
            path_or_inline_dv: "ab".into(),
            offset: Some(offset),
            size_in_bytes: 1,
            cardinality: 1,
        };
        assert_ne!(keys.key("f", None), keys.key("f", Some(&vector(1))));
        assert_ne!(keys.key("f", Some(&vector(2))), keys.key("f", Some(&vector(1))));
        assert_eq!(keys.key("a%20b", None), keys.key("a b", None));
    }
}
