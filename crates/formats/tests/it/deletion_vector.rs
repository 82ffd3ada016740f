//! The vector codec: files of Spark and Delta, hostile bytes, and properties.

use crate::judges::data;
use hoglake_formats::deletion_vector::{DeletionVector, DeletionVectorError, z85};
use proptest::prelude::*;

fn positions(vector: &DeletionVector) -> Vec<u64> {
    vector.iter().collect()
}

/// A frame with a right length and CRC around `bitmap`, so that only the bitmap can be at fault.
fn framed(bitmap: &[u8]) -> Vec<u8> {
    let mut vector = vec![0xd1, 0xd3, 0x39, 0x64];
    vector.extend_from_slice(bitmap);
    let mut framed = (vector.len() as u32).to_be_bytes().to_vec();
    framed.extend_from_slice(&vector);
    framed.extend_from_slice(&crc32fast::hash(&vector).to_be_bytes());
    framed
}

/// One bucket with the key 0 and this 32-bit bitmap.
fn bucket(bitmap: &[u8]) -> Vec<u8> {
    [&1_u64.to_le_bytes()[..], &[0; 4], bitmap].concat()
}

#[test]
fn vectors_of_spark_decode_at_their_offsets() {
    let file = std::fs::read(data("deletion_vector/spark-two-vectors.puffin")).unwrap();
    for range in [4..46, 46..88] {
        assert_eq!(positions(&DeletionVector::decode(&file[range]).unwrap()), [0]);
    }
}

#[test]
fn vector_files_of_delta_decode_behind_their_version_byte() {
    for (name, size, cardinality) in [("delta-0368.bin", 62, 15), ("delta-61d1.bin", 36, 2)] {
        let file = std::fs::read(data(&format!("deletion_vector/{name}"))).unwrap();
        assert_eq!(file[0], 1);
        // sizeInBytes counts magic and bitmap; length and CRC come on top.
        let vector = DeletionVector::decode(&file[1..1 + 4 + size + 4]).unwrap();
        assert_eq!(vector.cardinality(), cardinality);
        assert_eq!(vector.encode(), file[1..]);
    }
}

#[test]
fn inline_vectors_of_delta_decode() {
    // Of delta-io/delta-kernel-rs.
    let text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L";
    let bytes = z85::decode(text).unwrap();
    assert_eq!(bytes.len(), 44);
    let vector = DeletionVector::decode_unframed(&bytes).unwrap();
    assert_eq!(positions(&vector), [3, 4, 7, 11, 18, 29]);
    assert_eq!(z85::encode(&vector.encode_unframed()), text);
    // The protocol text's example is in the Java-native encoding.
    let native = z85::decode("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L").unwrap();
    assert!(matches!(DeletionVector::decode_unframed(&native), Err(DeletionVectorError::Magic { .. })));
    for bad in ["wi5b", "wi5b\"", "#####", "wi5bé"] {
        assert_eq!(z85::decode(bad), Err(DeletionVectorError::Z85), "{bad}");
    }
}

#[test]
fn frames_that_lie_are_refused() {
    let good = DeletionVector::from_positions([1, 2, 70_000, 1 << 40]).encode();
    for cut in 0..good.len() {
        assert!(DeletionVector::decode(&good[..cut]).is_err(), "{cut}");
    }
    for byte in 0..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 0x10;
        assert!(DeletionVector::decode(&bad).is_err(), "{byte}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(matches!(DeletionVector::decode(&longer), Err(DeletionVectorError::Length { .. })));
    let mut checksum = good.clone();
    *checksum.last_mut().unwrap() ^= 1;
    assert!(matches!(DeletionVector::decode(&checksum), Err(DeletionVectorError::Checksum { .. })));
    // Delta's Java-native bitmap.
    let native = [&1681511376_u32.to_le_bytes()[..], &[0; 8]].concat();
    assert!(matches!(DeletionVector::decode_unframed(&native), Err(DeletionVectorError::Magic { .. })));
}

#[test]
fn hostile_bitmaps_are_refused_by_their_structure() {
    let array = |keys: &[u16]| {
        let mut b = 12346_u32.to_le_bytes().to_vec();
        b.extend_from_slice(&(keys.len() as u32).to_le_bytes());
        keys.iter().for_each(|k| b.extend_from_slice(&[k.to_le_bytes(), [0, 0]].concat()));
        (0..keys.len()).for_each(|i| b.extend_from_slice(&((8 + keys.len() * 8 + i * 2) as u32).to_le_bytes()));
        keys.iter().for_each(|_| b.extend_from_slice(&[5, 0]));
        b
    };
    let runs = |cardinality: u16, runs: &[(u16, u16)]| {
        let mut b = 12347_u32.to_le_bytes().to_vec();
        b.extend_from_slice(&[1, 0, 0]);
        b.extend_from_slice(&(cardinality - 1).to_le_bytes());
        b.extend_from_slice(&(runs.len() as u16).to_le_bytes());
        runs.iter().for_each(|(s, l)| b.extend_from_slice(&[s.to_le_bytes(), l.to_le_bytes()].concat()));
        b
    };
    let decode = |bitmap: &[u8]| DeletionVector::decode(&framed(bitmap)).map(|v| positions(&v));
    // The building blocks are right as such.
    assert_eq!(decode(&bucket(&array(&[0, 2]))).unwrap(), [5, 131_077]);
    assert_eq!(decode(&bucket(&runs(3, &[(7, 1), (10, 0)]))).unwrap(), [7, 8, 10]);
    assert_eq!(decode(&bucket(&array(&[]))).unwrap(), [0_u64; 0]);
    assert_eq!(decode(&0_u64.to_le_bytes()).unwrap(), [0_u64; 0]);

    let two = |first: u32, second: u32| {
        [&2_u64.to_le_bytes()[..], &first.to_le_bytes(), &array(&[0]), &second.to_le_bytes(), &array(&[0])].concat()
    };
    assert_eq!(decode(&two(0, 1)).unwrap(), [5, (1 << 32) + 5]);
    let mut offsets = array(&[0]);
    offsets[12] ^= 2;
    let mut many = 12346_u32.to_le_bytes().to_vec();
    many.extend_from_slice(&u32::MAX.to_le_bytes());
    let unsorted_array = {
        let mut b = 12346_u32.to_le_bytes().to_vec();
        b.extend_from_slice(&[1, 0, 0, 0, 0, 0, 1, 0, 16, 0, 0, 0, 9, 0, 5, 0]);
        b
    };
    let wrong_popcount = {
        let mut b = 12346_u32.to_le_bytes().to_vec();
        b.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
        b.extend_from_slice(&4999_u16.to_le_bytes());
        b.extend_from_slice(&16_u32.to_le_bytes());
        b.extend_from_slice(&[0xff; 8192]);
        b
    };
    for (what, bitmap) in [
        ("no bytes", vec![]),
        ("bucket count without buckets", u64::MAX.to_le_bytes().to_vec()),
        ("bucket count above the bytes", [&3_u64.to_le_bytes()[..], &two(0, 1)[8..]].concat()),
        ("duplicate bucket keys", two(4, 4)),
        ("descending bucket keys", two(4, 3)),
        ("negative bucket key", two(0, 1 << 31)),
        ("trailing bytes", [&bucket(&array(&[0]))[..], &[0]].concat()),
        ("unknown cookie", bucket(&[1, 2, 3, 4, 0, 0, 0, 0])),
        ("container count", bucket(&many)),
        ("duplicate container keys", bucket(&array(&[3, 3]))),
        ("descending container keys", bucket(&array(&[3, 2]))),
        ("offset table", bucket(&offsets)),
        ("array out of order", bucket(&unsorted_array)),
        ("cardinality of a bitmap container", bucket(&wrong_popcount)),
        ("no runs", bucket(&runs(1, &[]))),
        ("overlapping runs", bucket(&runs(4, &[(7, 1), (8, 1)]))),
        ("touching runs", bucket(&runs(4, &[(7, 1), (9, 1)]))),
        ("run beyond the container", bucket(&runs(11, &[(65_530, 10)]))),
        ("cardinality of runs", bucket(&runs(4, &[(7, 1)]))),
    ] {
        assert!(decode(&bitmap).is_err(), "{what}");
    }
}

#[test]
fn sets_answer_as_sets() {
    let mut all = DeletionVector::from_positions([5, 1, 9, 1 << 35]);
    let some = DeletionVector::from_positions([9, 12]);
    assert!(!all.covers(&some));
    all.extend(&some);
    assert!(all.covers(&some) && all.contains(12) && !all.contains(2));
    assert_eq!(all.range(5, 12).collect::<Vec<_>>(), [5, 9]);
    assert_eq!(all.last(), Some(1 << 35));
    assert!(DeletionVector::default().is_empty());
}

fn any_positions() -> impl Strategy<Value = Vec<u64>> {
    let scattered = proptest::collection::vec(0..1_u64 << 62, 0..50);
    let dense =
        (0..1_u64 << 40, 1..9000_u64, 1..4_u64).prop_map(|(from, n, step)| (0..n).map(|i| from + i * step).collect());
    prop_oneof![scattered, dense]
}

proptest! {
    #[test]
    fn vectors_round_trip(input in any_positions()) {
        let vector = DeletionVector::from_positions(input.iter().copied());
        let mut expected = input;
        expected.sort_unstable();
        expected.dedup();
        let decoded = DeletionVector::decode(&vector.encode()).unwrap();
        prop_assert_eq!(positions(&decoded), expected);
        let inline = z85::decode(&z85::encode(&vector.encode_unframed())).unwrap();
        prop_assert_eq!(&inline[..vector.encode_unframed().len()], vector.encode_unframed());
    }

    #[test]
    fn arbitrary_bitmaps_never_panic_and_survive_only_if_exact(
        input in any_positions(), at in any::<prop::sample::Index>(), value in any::<u8>()
    ) {
        let vector = DeletionVector::from_positions(input).encode_unframed();
        let mut bitmap = vector[4..].to_vec();
        let at = at.index(bitmap.len());
        bitmap[at] = value;
        if let Ok(decoded) = DeletionVector::decode(&framed(&bitmap)) {
            prop_assert_eq!(decoded.cardinality(), decoded.iter().count() as u64);
        }
    }
}
