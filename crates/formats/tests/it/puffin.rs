//! Puffin files: written by others, read by others, and broken in every way.

use crate::judges::{data, judge};
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::puffin::{self, PuffinError};
use serde_json::{Value, json};

fn sets() -> Vec<Vec<u64>> {
    let mut mixed: Vec<u64> = (0..5000).map(|i| i * 3).collect();
    mixed.extend(100_000..170_000);
    mixed.extend([4_000_000_000, (1 << 32) + 7, 5 << 32]);
    vec![vec![], vec![0], vec![0, 1, 3], vec![4_000_000_000], vec![(1 << 32) + 7], vec![5 << 32], mixed]
}

#[test]
fn pyiceberg_reads_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ours.puffin");
    for set in sets() {
        let vector = DeletionVector::from_positions(set.iter().copied());
        std::fs::write(&path, puffin::write(&vector, "s3://b/data/f é.parquet").unwrap()).unwrap();
        let seen = judge("puffin.py", &["read", path.to_str().unwrap()]);
        assert_eq!(seen, json!({"file": "s3://b/data/f é.parquet", "positions": set}));
    }
}

#[test]
fn vectors_written_by_croaring_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (path, positions) = (dir.path().join("theirs.puffin"), dir.path().join("positions.json"));
    for set in sets() {
        std::fs::write(&positions, serde_json::to_vec(&set).unwrap()).unwrap();
        judge("puffin.py", &["write", path.to_str().unwrap(), positions.to_str().unwrap()]);
        let file = puffin::read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(file.vector.iter().collect::<Vec<_>>(), set);
        assert_eq!(file.referenced_data_file.as_deref(), Some("s3://b/f"));
        assert_eq!(file.offset, 4);
    }
}

#[test]
fn files_with_other_contents_are_refused() {
    let two = std::fs::read(data("deletion_vector/spark-two-vectors.puffin")).unwrap();
    assert!(matches!(puffin::read(&two), Err(PuffinError::Content(what)) if what.contains("2 blobs")));
    let bare = std::fs::read(data("deletion_vector/bare-blob.puffin")).unwrap();
    assert!(matches!(puffin::read(&bare), Err(PuffinError::Malformed(_))));
}

/// A file with this footer text around a good vector.
fn with_footer(footer: &str, flags: u32) -> Vec<u8> {
    let blob = DeletionVector::from_positions([1, 2, 3]).encode();
    let mut file = b"PFA1".to_vec();
    file.extend_from_slice(&blob);
    file.extend_from_slice(b"PFA1");
    file.extend_from_slice(footer.as_bytes());
    file.extend_from_slice(&(footer.len() as i32).to_le_bytes());
    file.extend_from_slice(&flags.to_le_bytes());
    file.extend_from_slice(b"PFA1");
    file
}

fn footer(changes: &[(&str, Value)]) -> String {
    let length = DeletionVector::from_positions([1, 2, 3]).encode().len();
    let mut blob = json!({"type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1,
        "offset": 4, "length": length, "properties": {"cardinality": "3", "referenced-data-file": "f"}});
    for (key, value) in changes {
        blob[*key] = value.clone();
    }
    json!({ "blobs": [blob] }).to_string()
}

#[test]
fn footers_that_lie_are_refused() {
    assert_eq!(puffin::read(&with_footer(&footer(&[]), 0)).unwrap().vector.cardinality(), 3);
    for flags in [1, 2, 1 << 31, u32::MAX] {
        assert!(matches!(puffin::read(&with_footer(&footer(&[]), flags)), Err(PuffinError::Malformed(_))));
    }
    for change in [
        ("type", json!("apache-datasketches-theta-v1")),
        ("compression-codec", json!("zstd")),
        ("compression-codec", json!("lz4")),
        ("offset", json!(0)),
        ("offset", json!(5)),
        ("offset", json!(-1)),
        ("offset", json!(i64::MAX)),
        ("length", json!(0)),
        ("length", json!(11)),
        ("length", json!(-4)),
        ("length", json!(i64::MAX)),
        ("length", json!(60)),
        ("properties", json!({"cardinality": "4"})),
        ("properties", json!({"cardinality": "three"})),
    ] {
        assert!(puffin::read(&with_footer(&footer(std::slice::from_ref(&change)), 0)).is_err(), "{change:?}");
    }
    for text in ["", "{}", "[]", "{\"blobs\":[]}", "{\"blobs\":7}", "\u{0}"] {
        assert!(puffin::read(&with_footer(text, 0)).is_err(), "{text}");
    }
    // A deeply nested footer ends the parser, not the stack.
    assert!(puffin::read(&with_footer(&"[".repeat(1 << 20), 0)).is_err());
    // Codecs may be spelled out as absent; cardinality is optional when read.
    assert!(puffin::read(&with_footer(&footer(&[("compression-codec", Value::Null)]), 0)).is_ok());
    assert!(puffin::read(&with_footer(&footer(&[("properties", json!({}))]), 0)).is_ok());
}

#[test]
fn damaged_files_are_refused_whole() {
    let good = puffin::write(&DeletionVector::from_positions([0, 7, 1 << 33]), "f").unwrap();
    let whole = puffin::read(&good).unwrap().vector;
    for cut in 0..good.len() {
        assert!(puffin::read(&good[..cut]).is_err(), "{cut}");
    }
    for byte in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            // Damage in the footer's text may leave a readable file; it never leaves another vector.
            if let Ok(file) = puffin::read(&bad) {
                assert_eq!(file.vector, whole, "{byte}");
            }
        }
    }
}
