//! Vectors of the Iceberg specification and of the contract, and properties over all thirteen types.

use super::*;
use crate::{DecimalType, FieldId};
use num_bigint::BigInt;
use proptest::prelude::*;

const DECIMAL: ColumnType = ColumnType::Decimal(DecimalType { precision: 38, scale: 2 });
const TYPES: [ColumnType; 13] = [
    ColumnType::Boolean,
    ColumnType::Int,
    ColumnType::Long,
    ColumnType::Float,
    ColumnType::Double,
    DECIMAL,
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::Timestamptz,
    ColumnType::String,
    ColumnType::Uuid,
    ColumnType::Binary,
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn shared_vectors_encode_and_decode() {
    let uuid = 0xf79c_3e09_677c_4bbd_a479_3f34_9cb7_85e7_u128.to_be_bytes();
    let vectors: &[(ColumnType, Datum<'_>, &str)] = &[
        (ColumnType::Boolean, Datum::Boolean(false), "00"),
        (ColumnType::Boolean, Datum::Boolean(true), "01"),
        (ColumnType::Int, Datum::Int(305_419_896), "78563412"),
        (ColumnType::Int, Datum::Int(-1), "ffffffff"),
        (ColumnType::Long, Datum::Long(1), "0100000000000000"),
        (ColumnType::Float, Datum::Float(-4.5), "000090c0"),
        (ColumnType::Double, Datum::Double(6.0), "0000000000001840"),
        (DECIMAL, Datum::Decimal(0), "00"),
        (DECIMAL, Datum::Decimal(127), "7f"),
        (DECIMAL, Datum::Decimal(128), "0080"),
        (DECIMAL, Datum::Decimal(-128), "80"),
        (DECIMAL, Datum::Decimal(-129), "ff7f"),
        (DECIMAL, Datum::Decimal(1420), "058c"),
        (ColumnType::Date, Datum::Date(-719_162), "c606f5ff"),
        (ColumnType::Time, Datum::Time(86_399_999_999), "ff5fd71d14000000"),
        (ColumnType::Timestamp, Datum::Timestamp(1_788_609_600_000_500), "f491d91fbb5a0600"),
        (ColumnType::Timestamptz, Datum::Timestamptz(1_788_609_600_000_500), "f491d91fbb5a0600"),
        (ColumnType::String, Datum::String("ABC"), "414243"),
        (ColumnType::Uuid, Datum::Uuid(uuid), "f79c3e09677c4bbda4793f349cb785e7"),
        (ColumnType::Binary, Datum::Binary(&[0, 255]), "00ff"),
    ];
    for (ty, datum, expected) in vectors {
        let bytes = datum.encode();
        assert_eq!(hex(&bytes), *expected, "{datum:?}");
        assert_eq!(Datum::decode(*ty, &bytes), Ok(*datum));
    }
}

#[test]
fn lenient_forms_decode_and_others_do_not() {
    assert_eq!(Datum::decode(ColumnType::Boolean, &[7]), Ok(Datum::Boolean(true)));
    assert_eq!(Datum::decode(DECIMAL, &[0, 0, 5]), Ok(Datum::Decimal(5)));
    assert_eq!(Datum::decode(DECIMAL, &[0xff; 40]), Ok(Datum::Decimal(-1)));
    let small = ColumnType::Decimal(DecimalType { precision: 2, scale: 0 });
    assert_eq!(Datum::decode(small, &[99]), Ok(Datum::Decimal(99)));
    assert_eq!(Datum::decode(small, &[0x9d]), Ok(Datum::Decimal(-99)));
    for (ty, bytes) in [
        (small, &[100][..]),
        (DECIMAL, &[]),
        (DECIMAL, &[1; 17]),
        (ColumnType::Boolean, &[]),
        (ColumnType::Int, &[0; 8]),
        (ColumnType::Long, &[0; 4]),
        (ColumnType::Float, &[0; 3]),
        (ColumnType::Double, &[0; 4]),
        (ColumnType::Time, &[0xff; 8]),
        (ColumnType::Time, &86_400_000_000_i64.to_le_bytes()),
        (ColumnType::String, &[0xc3, 0x28]),
        (ColumnType::Uuid, &[0; 15]),
    ] {
        assert_eq!(Datum::decode(ty, bytes), Err(Undecodable { ty, length: bytes.len() }));
    }
}

#[test]
fn doubtful_bounds_are_dropped() {
    let bounds = |ty, l: &[u8], u: &[u8]| Bounds::sanitised(ty, Some(l), Some(u));
    // Inverted: neither can be believed.
    assert!(bounds(ColumnType::Int, &2_i32.to_le_bytes(), &1_i32.to_le_bytes()).is_unknown());
    // A wrong width is dropped alone.
    let kept = bounds(ColumnType::Long, &[1, 2, 3], &1_i64.to_le_bytes());
    assert_eq!((kept.lower(), kept.upper()), (None, Some(&1_i64.to_le_bytes()[..])));
    // NaN drops both, whatever its sign and payload.
    for nan in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)] {
        assert!(bounds(ColumnType::Double, &nan.to_le_bytes(), &1_f64.to_le_bytes()).is_unknown());
        assert!(bounds(ColumnType::Double, &1_f64.to_le_bytes(), &nan.to_le_bytes()).is_unknown());
    }
    // Zeros get the sign that includes both.
    let zeros = bounds(ColumnType::Float, &0.0_f32.to_le_bytes(), &(-0.0_f32).to_le_bytes());
    assert_eq!(zeros.lower(), Some(&(-0.0_f32).to_le_bytes()[..]));
    assert_eq!(zeros.upper(), Some(&0.0_f32.to_le_bytes()[..]));
    // Unsigned bytes: 0x7f is below 0x80.
    let unsigned = bounds(ColumnType::Binary, &[0x7f], &[0x80]);
    assert!(unsigned.lower().is_some() && unsigned.upper().is_some());
    // Lenient forms are stored canonically.
    assert_eq!(bounds(DECIMAL, &[0, 0], &[0, 0, 1]).upper(), Some(&[1][..]));
}

#[test]
fn stored_bounds_widen_after_a_promotion() {
    let stored = Bounds::stored(ColumnType::Long, Some(&(-5_i32).to_le_bytes()), Some(&7_i64.to_le_bytes()));
    assert_eq!(stored.lower(), Some(&(-5_i64).to_le_bytes()[..]));
    assert_eq!(stored.upper(), Some(&7_i64.to_le_bytes()[..]));
    let stored = Bounds::stored(ColumnType::Double, Some(&(-0.5_f32).to_le_bytes()), Some(&0.1_f32.to_le_bytes()));
    assert_eq!(stored.lower(), Some(&(-0.5_f64).to_le_bytes()[..]));
    assert_eq!(stored.upper(), Some(&f64::from(0.1_f32).to_le_bytes()[..]));
}

#[test]
fn statistics_keep_only_possible_counts() {
    let claim = ClaimedStats {
        value_count: Some(10),
        null_count: Some(3),
        nan_count: Some(8),
        size_bytes: Some(-1),
        lower_bound: Some(&[0, 0, 0, 0]),
        upper_bound: Some(&[1, 0, 0, 0]),
    };
    let field = FieldId(1);
    let stats = ColumnStats::sanitised(field, ColumnType::Float, 10, claim);
    assert_eq!((stats.value_count, stats.null_count, stats.nan_count), (Some(10), Some(3), None));
    assert_eq!(stats.size_bytes, None);
    assert!(!stats.bounds.is_unknown());
    // An impossible null count is unknown; "all null" would let a planner skip the file.
    let stats = ColumnStats::sanitised(field, ColumnType::Int, 10, ClaimedStats { null_count: Some(11), ..claim });
    assert_eq!(stats.null_count, None);
    assert!(stats.may_be_null() && stats.may_be_present());
    // Nothing to bound.
    let stats = ColumnStats::sanitised(field, ColumnType::Int, 10, ClaimedStats { null_count: Some(10), ..claim });
    assert!(stats.bounds.is_unknown() && !stats.may_be_present());
    let nans = ClaimedStats { null_count: Some(4), nan_count: Some(6), ..claim };
    assert!(ColumnStats::sanitised(field, ColumnType::Float, 10, nans).bounds.is_unknown());
    // Only floats have NaNs.
    assert_eq!(ColumnStats::sanitised(field, ColumnType::Int, 10, nans).nan_count, None);
}

#[test]
fn truncation_keeps_bounds_valid() {
    let text = Bounds::from_datums(Some(Datum::String("aé")), Some(Datum::String("zz\u{10ffff}\u{10ffff}")));
    let cut = text.truncated(ColumnType::String, 2);
    assert_eq!((cut.lower(), cut.upper()), (Some(&b"a"[..]), Some(&b"z{"[..])));
    let top = Bounds::from_datums(None, Some(Datum::String("\u{10ffff}\u{10ffff}")));
    assert!(top.truncated(ColumnType::String, 4).is_unknown());
    let top = Bounds::from_datums(None, Some(Datum::Binary(&[0xff, 0xff, 0])));
    assert!(top.truncated(ColumnType::Binary, 2).is_unknown());
    let carried = Bounds::from_datums(None, Some(Datum::Binary(&[1, 0xff, 0])));
    assert_eq!(carried.truncated(ColumnType::Binary, 2).upper(), Some(&[2][..]));
}

/// An owned value, from which a [`Datum`] is borrowed.
#[derive(Debug, Clone)]
struct Owned(ColumnType, Vec<u8>);

impl Owned {
    fn datum(&self) -> Datum<'_> {
        Datum::decode(self.0, &self.1).unwrap()
    }
}

fn values_of(ty: ColumnType) -> BoxedStrategy<Owned> {
    let bytes = match ty {
        ColumnType::Boolean => any::<bool>().prop_map(|v| Datum::Boolean(v).encode()).boxed(),
        ColumnType::Int => any::<i32>().prop_map(|v| Datum::Int(v).encode()).boxed(),
        ColumnType::Float => prop_oneof![any::<f32>(), Just(0.0), Just(-0.0), Just(f32::NAN)]
            .prop_map(|v| Datum::Float(v).encode())
            .boxed(),
        ColumnType::Double => prop_oneof![any::<f64>(), Just(0.0), Just(-0.0), Just(f64::NAN)]
            .prop_map(|v| Datum::Double(v).encode())
            .boxed(),
        ColumnType::Decimal(_) => {
            let limit = 10_i128.pow(38);
            prop_oneof![-200_i128..200, 1 - limit..limit].prop_map(|v| Datum::Decimal(v).encode()).boxed()
        }
        ColumnType::Date => any::<i32>().prop_map(|v| Datum::Date(v).encode()).boxed(),
        ColumnType::Time => (0..86_400_000_000_i64).prop_map(|v| Datum::Time(v).encode()).boxed(),
        ColumnType::Long | ColumnType::Timestamp | ColumnType::Timestamptz => {
            any::<i64>().prop_map(|v| Datum::Long(v).encode()).boxed()
        }
        ColumnType::String => any::<String>().prop_map(String::into_bytes).boxed(),
        ColumnType::Uuid => any::<[u8; 16]>().prop_map(|v| v.to_vec()).boxed(),
        ColumnType::Binary => proptest::collection::vec(any::<u8>(), 0..6).boxed(),
    };
    bytes.prop_map(move |b| Owned(ty, b)).boxed()
}

fn column() -> impl Strategy<Value = (ColumnType, Vec<Owned>)> {
    proptest::sample::select(TYPES.to_vec())
        .prop_flat_map(|ty| proptest::collection::vec(values_of(ty), 1..8).prop_map(move |v| (ty, v)))
}

proptest! {
    #[test]
    fn values_round_trip((ty, values) in column()) {
        for value in &values {
            let datum = value.datum();
            prop_assert_eq!(&datum.encode(), &value.1);
            prop_assert!(datum.is_of(ty));
        }
    }

    #[test]
    fn decimals_are_the_big_integers_minimal_form(unscaled in any::<i128>()) {
        let bytes = decimal::encode(unscaled);
        prop_assert_eq!(&bytes, &BigInt::from(unscaled).to_signed_bytes_be());
        prop_assert_eq!(decimal::decode(&bytes), Some(unscaled));
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_survive_canonically(
        ty in proptest::sample::select(TYPES.to_vec()),
        lower in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
        upper in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
    ) {
        let once = Bounds::sanitised(ty, lower.as_deref(), upper.as_deref());
        let twice = Bounds::sanitised(ty, once.lower(), once.upper());
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(Bounds::stored(ty, once.lower(), once.upper()), twice);
    }

    #[test]
    fn folded_bounds_enclose_every_value((ty, values) in column()) {
        let mut builder = BoundsBuilder::new();
        for value in &values {
            builder.value(ty, value.datum());
        }
        let bounds = builder.finish();
        let solid: Vec<_> = values.iter().map(Owned::datum).filter(|d| !d.is_nan()).collect();
        prop_assert_eq!(bounds.is_unknown(), solid.is_empty());
        for (side, excluded) in [(bounds.lower(), Ordering::Greater), (bounds.upper(), Ordering::Less)] {
            for datum in &solid {
                let bound = Datum::decode(ty, side.unwrap()).unwrap();
                prop_assert_ne!(bound.compare(*datum), Some(excluded));
            }
        }
        // The same in parts, in any order.
        let mut parts = BoundsBuilder::new();
        for value in values.iter().rev() {
            let mut part = BoundsBuilder::new();
            part.value(ty, value.datum());
            let part = part.finish();
            if !part.is_unknown() {
                parts.part(ty, &part);
            }
        }
        prop_assert_eq!(parts.finish(), bounds);
    }

    #[test]
    fn pruning_never_loses_a_matching_value((ty, values) in column()) {
        let (constant, values) = values.split_first().unwrap();
        let constant = constant.datum();
        let nans = values.iter().filter(|v| v.datum().is_nan()).count() as i64;
        let mut builder = BoundsBuilder::new();
        for value in values {
            builder.value(ty, value.datum());
        }
        let is_float = matches!(ty, ColumnType::Float | ColumnType::Double);
        let stats = ColumnStats {
            value_count: Some(values.len() as i64),
            null_count: Some(0),
            nan_count: is_float.then_some(nans),
            bounds: builder.finish(),
            ..ColumnStats::unknown(FieldId(1))
        };
        let floats = |d: Datum<'_>| match d {
            Datum::Float(v) => Some(f64::from(v)),
            Datum::Double(v) => Some(v),
            _ => None,
        };
        for value in values {
            let order = value.datum().compare(constant).unwrap();
            // IEEE and total order must both be served.
            let ieee = floats(value.datum()).zip(floats(constant)).map(|(a, b)| a.partial_cmp(&b));
            for order in [Some(order), ieee.unwrap_or(Some(order))].into_iter().flatten() {
                // With NaN as the constant, total order knows a negative NaN below everything; no engine does.
                let matching: &[Comparison] = match order {
                    Ordering::Less => &[Comparison::NotEq, Comparison::Lt, Comparison::LtEq],
                    Ordering::Equal => &[Comparison::Eq, Comparison::LtEq, Comparison::GtEq],
                    Ordering::Greater => &[Comparison::NotEq, Comparison::Gt, Comparison::GtEq],
                };
                let engines_agree = !value.datum().is_nan() || order == Ordering::Greater;
                for comparison in matching.iter().filter(|c| engines_agree || **c == Comparison::NotEq) {
                    prop_assert!(
                        stats.may_match(ty, *comparison, constant) || (*comparison == Comparison::NotEq && order_is_zero_only(value.datum(), constant)),
                        "{comparison:?} {constant:?} {stats:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn truncated_bounds_still_enclose(text in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..12), max in 0_usize..12) {
        for (ty, datum) in [(ColumnType::String, Datum::String(&text)), (ColumnType::Binary, Datum::Binary(&bytes))] {
            let cut = Bounds::from_datums(Some(datum), Some(datum)).truncated(ty, max);
            if let Some(lower) = cut.lower() {
                prop_assert!(lower.len() <= max);
                prop_assert_ne!(Datum::decode(ty, lower).unwrap().compare(datum), Some(Ordering::Greater));
            }
            if let Some(upper) = cut.upper() {
                prop_assert!(upper.len() <= max);
                prop_assert_ne!(Datum::decode(ty, upper).unwrap().compare(datum), Some(Ordering::Less));
            }
        }
    }
}

/// Whether the two differ only in the sign of zero, which `!=` does not see.
fn order_is_zero_only(a: Datum<'_>, b: Datum<'_>) -> bool {
    a.as_lower() == b.as_lower()
}
