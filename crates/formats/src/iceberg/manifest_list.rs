//! Manifest lists ("Manifest Lists").

use super::avro::{Decoder, Encoder, Fault, Node, Reader, Scalar, Writer};
use crate::sync::{Error, Result};

/// One manifest, as the list describes it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ManifestFile {
    pub path: String,
    pub length: i64,
    pub spec_id: i32,
    /// Whether it tracks delete files.
    pub deletes: bool,
    pub sequence_number: i64,
    pub min_sequence_number: i64,
    pub added_snapshot_id: i64,
    /// Unknown is not zero.
    pub added_files: Option<i64>,
    pub existing_files: Option<i64>,
    pub deleted_files: Option<i64>,
    pub added_rows: Option<i64>,
    pub existing_rows: Option<i64>,
    pub deleted_rows: Option<i64>,
    pub partitions: Option<Vec<FieldSummary>>,
    pub key_metadata: bool,
    pub first_row_id: Option<i64>,
}

/// What a manifest says about one partition field.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct FieldSummary {
    pub contains_null: bool,
    pub contains_nan: Option<bool>,
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
}

impl ManifestFile {
    /// Whether it may hold a live entry.
    pub fn may_be_live(&self) -> bool {
        self.added_files != Some(0) || self.existing_files != Some(0)
    }
}

/// Reads a manifest list.
pub(super) fn read(place: &str, bytes: &[u8]) -> Result<Vec<ManifestFile>> {
    let fail = |fault: Fault| Error::malformed(place, fault);
    let mut reader = Reader::new(bytes).map_err(fail)?;
    let mut manifests = Vec::new();
    reader
        .records(|decoder, node| {
            manifests.push(entry(decoder, node)?);
            Ok(())
        })
        .map_err(fail)?;
    Ok(manifests)
}

fn entry(d: &mut Decoder<'_>, node: &Node) -> Result<ManifestFile, Fault> {
    let fields = node.record().ok_or("a manifest list holds records")?;
    let mut m = ManifestFile::default();
    let (mut path, mut spec) = (None, None);
    for field in fields {
        let node = &field.node;
        match (field.id, field.name.as_ref()) {
            (Some(500), _) | (None, "manifest_path") => path = Some(d.required_string(node)?.to_owned()),
            (Some(501), _) | (None, "manifest_length") => m.length = d.optional_long(node)?.unwrap_or(0),
            (Some(502), _) | (None, "partition_spec_id") => spec = d.optional_long(node)?,
            (Some(517), _) | (None, "content") => m.deletes = d.optional_long(node)? == Some(1),
            (Some(515), _) | (None, "sequence_number") => m.sequence_number = d.optional_long(node)?.unwrap_or(0),
            (Some(516), _) | (None, "min_sequence_number") => {
                m.min_sequence_number = d.optional_long(node)?.unwrap_or(0);
            }
            (Some(503), _) | (None, "added_snapshot_id") => m.added_snapshot_id = d.optional_long(node)?.unwrap_or(0),
            (Some(504), _) | (None, "added_data_files_count" | "added_files_count") => {
                m.added_files = d.optional_long(node)?;
            }
            (Some(505), _) | (None, "existing_data_files_count" | "existing_files_count") => {
                m.existing_files = d.optional_long(node)?;
            }
            (Some(506), _) | (None, "deleted_data_files_count" | "deleted_files_count") => {
                m.deleted_files = d.optional_long(node)?;
            }
            (Some(512), _) | (None, "added_rows_count") => m.added_rows = d.optional_long(node)?,
            (Some(513), _) | (None, "existing_rows_count") => m.existing_rows = d.optional_long(node)?,
            (Some(514), _) | (None, "deleted_rows_count") => m.deleted_rows = d.optional_long(node)?,
            (Some(507), _) | (None, "partitions") => m.partitions = summaries(d, node)?,
            (Some(519), _) | (None, "key_metadata") => m.key_metadata = d.scalar(node)? != Scalar::Null,
            (Some(520), _) | (None, "first_row_id") => m.first_row_id = d.optional_long(node)?,
            _ => d.skip(node)?,
        }
    }
    m.path = path.ok_or("a manifest has no path")?;
    m.spec_id = spec.and_then(|n| i32::try_from(n).ok()).ok_or("a manifest has no spec id")?;
    Ok(m)
}

fn summaries(d: &mut Decoder<'_>, node: &Node) -> Result<Option<Vec<FieldSummary>>, Fault> {
    let mut out = Vec::new();
    let node = d.branch(node)?;
    if *node == Node::Null {
        return Ok(None);
    }
    d.items(node, |d, item| {
        let mut summary = FieldSummary::default();
        for field in item.record().ok_or("partitions are records")? {
            let bytes = |scalar| if let Scalar::Bytes(b) = scalar { Some(b.to_vec()) } else { None };
            match (field.id, field.name.as_ref()) {
                (Some(509), _) | (None, "contains_null") => {
                    summary.contains_null = d.scalar(&field.node)? != Scalar::Boolean(false);
                }
                (Some(518), _) | (None, "contains_nan") => {
                    summary.contains_nan = match d.scalar(&field.node)? {
                        Scalar::Boolean(b) => Some(b),
                        _ => None,
                    };
                }
                (Some(510), _) | (None, "lower_bound") => summary.lower = bytes(d.scalar(&field.node)?),
                (Some(511), _) | (None, "upper_bound") => summary.upper = bytes(d.scalar(&field.node)?),
                _ => d.skip(&field.node)?,
            }
        }
        out.push(summary);
        Ok(())
    })?;
    Ok(Some(out))
}

fn avro_schema(version: i32) -> String {
    let field = |id: i32, name: &str, ty: &str| format!(r#"{{"name":"{name}","type":{ty},"field-id":{id}}}"#);
    let optional = |id: i32, name: &str, ty: &str| {
        format!(r#"{{"name":"{name}","type":["null",{ty}],"default":null,"field-id":{id}}}"#)
    };
    let summary = [
        field(509, "contains_null", r#""boolean""#),
        optional(518, "contains_nan", r#""boolean""#),
        optional(510, "lower_bound", r#""bytes""#),
        optional(511, "upper_bound", r#""bytes""#),
    ]
    .join(",");
    let partitions = format!(
        r#"{{"type":"array","items":{{"type":"record","name":"r508","fields":[{summary}]}},"element-id":508}}"#
    );
    let mut fields = vec![
        field(500, "manifest_path", r#""string""#),
        field(501, "manifest_length", r#""long""#),
        field(502, "partition_spec_id", r#""int""#),
        field(517, "content", r#""int""#),
        field(515, "sequence_number", r#""long""#),
        field(516, "min_sequence_number", r#""long""#),
        field(503, "added_snapshot_id", r#""long""#),
        field(504, "added_files_count", r#""int""#),
        field(505, "existing_files_count", r#""int""#),
        field(506, "deleted_files_count", r#""int""#),
        field(512, "added_rows_count", r#""long""#),
        field(513, "existing_rows_count", r#""long""#),
        field(514, "deleted_rows_count", r#""long""#),
        optional(507, "partitions", &partitions),
    ];
    if version >= 3 {
        fields.push(optional(520, "first_row_id", r#""long""#));
    }
    format!(r#"{{"type":"record","name":"manifest_file","fields":[{}]}}"#, fields.join(","))
}

/// Writes a manifest list of a version 2 or 3 table. Counts that a foreign manifest left out are written as 1, since a
/// reader must take an unknown count for "some" and the format has no unknown there.
pub(super) fn write(
    version: i32,
    snapshot_id: i64,
    parent: Option<i64>,
    sequence: i64,
    manifests: &[ManifestFile],
) -> Vec<u8> {
    let parent = parent.map_or_else(|| "null".to_owned(), |id| id.to_string());
    let (snapshot, sequence, version_text) = (snapshot_id.to_string(), sequence.to_string(), version.to_string());
    let metadata = [
        ("snapshot-id", snapshot.as_str()),
        ("parent-snapshot-id", &parent),
        ("sequence-number", &sequence),
        ("format-version", &version_text),
    ];
    let mut writer = Writer::new(&avro_schema(version), &metadata);
    for m in manifests {
        let out = writer.record();
        out.bytes(m.path.as_bytes());
        out.long(m.length);
        out.long(m.spec_id.into());
        out.long(m.deletes.into());
        for number in [m.sequence_number, m.min_sequence_number, m.added_snapshot_id] {
            out.long(number);
        }
        for count in [m.added_files, m.existing_files, m.deleted_files, m.added_rows, m.existing_rows, m.deleted_rows] {
            out.long(count.unwrap_or(1));
        }
        match &m.partitions {
            None => out.long(0),
            Some(partitions) => {
                out.long(1);
                if !partitions.is_empty() {
                    out.long(i64::try_from(partitions.len()).unwrap_or(0));
                }
                for p in partitions {
                    out.push(p.contains_null.into());
                    match p.contains_nan {
                        None => out.long(0),
                        Some(nan) => {
                            out.long(1);
                            out.push(nan.into());
                        }
                    }
                    for bound in [&p.lower, &p.upper] {
                        match bound {
                            None => out.long(0),
                            Some(bytes) => {
                                out.long(1);
                                out.bytes(bytes);
                            }
                        }
                    }
                }
                out.long(0);
            }
        }
        if version >= 3 {
            out.optional_long(m.first_row_id);
        }
        writer.end_record();
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_the_round_trip() {
        let summary =
            FieldSummary { contains_null: true, contains_nan: Some(false), lower: Some(vec![1]), upper: None };
        let manifest = ManifestFile {
            path: "s3://b/m.avro".to_owned(),
            length: 7,
            spec_id: 1,
            deletes: true,
            sequence_number: 3,
            min_sequence_number: 2,
            added_snapshot_id: i64::MAX,
            added_files: Some(1),
            existing_files: Some(0),
            deleted_files: Some(2),
            added_rows: Some(10),
            existing_rows: Some(0),
            deleted_rows: Some(5),
            partitions: Some(vec![summary]),
            key_metadata: false,
            first_row_id: Some(100),
        };
        let other = ManifestFile { partitions: Some(Vec::new()), first_row_id: None, ..manifest.clone() };
        let manifests = [manifest, other];
        assert_eq!(read("m", &write(3, 1, None, 3, &manifests)).unwrap(), manifests);
        let v2 = read("m", &write(2, 1, Some(9), 3, &manifests)).unwrap();
        assert_eq!(v2[0].first_row_id, None);
        assert!(read("m", b"Obj\x01").is_err());
    }
}
