//! The partition transforms of the catalog: bucket, year, month, day and hour.
//!
//! # Source
//! Iceberg specification, "Partition Transforms" and appendix B, "32-bit Hash Requirements".

use crate::{ColumnType, Datum};

const MICROS_PER_HOUR: i64 = 3_600_000_000;
const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;

/// Whether values of `ty` can be put into buckets.
pub const fn is_hashable(ty: ColumnType) -> bool {
    !matches!(ty, ColumnType::Boolean | ColumnType::Float | ColumnType::Double)
}

/// The 32-bit hash of a value; `None` for booleans, floats and doubles, which have none.
///
/// Integers and dates hash as 8-byte little-endian, so that a promoted column keeps its buckets.
pub fn hash(value: Datum<'_>) -> Option<u32> {
    Some(match value {
        Datum::Int(v) | Datum::Date(v) => murmur3(&i64::from(v).to_le_bytes()),
        Datum::Long(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => murmur3(&v.to_le_bytes()),
        Datum::Decimal(_) => murmur3(&value.encode()),
        Datum::String(v) => murmur3(v.as_bytes()),
        Datum::Uuid(v) => murmur3(&v),
        Datum::Binary(v) => murmur3(v),
        Datum::Boolean(_) | Datum::Float(_) | Datum::Double(_) => return None,
    })
}

/// The bucket of a value among `buckets`; `None` where there is no hash, or no bucket.
pub fn bucket(value: Datum<'_>, buckets: u32) -> Option<u32> {
    (hash(value)? & 0x7fff_ffff).checked_rem(buckets)
}

/// Days since 1970-01-01 of a date or timestamp.
pub fn day(value: Datum<'_>) -> Option<i64> {
    match value {
        Datum::Date(days) => Some(i64::from(days)),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => Some(micros.div_euclid(MICROS_PER_DAY)),
        _ => None,
    }
}

/// Hours since 1970-01-01T00 of a timestamp.
pub fn hour(value: Datum<'_>) -> Option<i64> {
    match value {
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => Some(micros.div_euclid(MICROS_PER_HOUR)),
        _ => None,
    }
}

/// Months since 1970-01 of a date or timestamp.
pub fn month(value: Datum<'_>) -> Option<i64> {
    day(value).map(|days| {
        let (year, month, _) = civil(days);
        (year - 1970) * 12 + month - 1
    })
}

/// Years since 1970 of a date or timestamp.
pub fn year(value: Datum<'_>) -> Option<i64> {
    day(value).map(|days| civil(days).0 - 1970)
}

/// The first day of a month that is counted from 1970-01.
pub(crate) fn first_day_of_month(months: i64) -> i64 {
    let (year, month) = (1970 + months.div_euclid(12), months.rem_euclid(12) + 1);
    // Years that start in March put the leap day at the end.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The proleptic Gregorian year, month and day of a day counted from 1970-01-01.
pub const fn civil(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, in eras of 400.
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day_of_year - (153 * from_march + 2) / 5 + 1)
}

/// `MurmurHash3`, x86 variant, 32 bits, seed 0.
fn murmur3(bytes: &[u8]) -> u32 {
    let mix = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, tail) = bytes.as_chunks::<4>();
    let mut hash = words.iter().fold(0_u32, |hash, word| {
        (hash ^ mix(u32::from_le_bytes(*word))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    if !tail.is_empty() {
        let mut word = [0; 4];
        word[..tail.len()].copy_from_slice(tail);
        hash ^= mix(u32::from_le_bytes(word));
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, NaiveDate};
    use proptest::prelude::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        let uuid = 0xf79c_3e09_677c_4bbd_a479_3f34_9cb7_85e7_u128.to_be_bytes();
        for (value, expected) in [
            (Datum::Int(34), 2_017_239_379),
            (Datum::Long(34), 2_017_239_379),
            (Datum::Decimal(1420), -500_754_589),
            (Datum::Date(17_486), -653_330_422),
            (Datum::Time(81_068_000_000), -662_762_989),
            (Datum::Timestamp(1_510_871_468_000_000), -2_047_944_441),
            (Datum::Timestamptz(1_510_871_468_000_000), -2_047_944_441),
            (Datum::Timestamp(1_510_871_468_000_001), -1_207_196_810),
            (Datum::String("iceberg"), 1_210_000_089),
            (Datum::Uuid(uuid), 1_488_055_340),
            (Datum::Binary(&[0, 1, 2, 3]), -188_683_207),
        ] {
            assert_eq!(hash(value).map(|h| h as i32), Some(expected), "{value:?}");
        }
        assert_eq!(bucket(Datum::Int(34), 16), Some(2_017_239_379 % 16));
        assert_eq!(bucket(Datum::Int(34), 0), None);
        assert_eq!(bucket(Datum::Double(1.0), 16), None);
    }

    #[test]
    fn times_before_the_epoch_are_floored() {
        assert_eq!(month(Datum::Date(20_454)), Some(672)); // 2026-01-01
        let just_before = Datum::Timestamp(-1);
        assert_eq!((year(just_before), month(just_before)), (Some(-1), Some(-1)));
        assert_eq!((day(just_before), hour(just_before)), (Some(-1), Some(-1)));
        assert_eq!(hour(Datum::Date(0)), None);
        assert_eq!(year(Datum::Time(0)), None);
    }

    proptest! {
        #[test]
        fn calendar_agrees_with_chrono(days in -719_162_i32..2_932_896) {
            let date = NaiveDate::from_num_days_from_ce_opt(days + 719_163).unwrap();
            let months = i64::from(date.year() - 1970) * 12 + i64::from(date.month0());
            prop_assert_eq!(month(Datum::Date(days)), Some(months));
            prop_assert_eq!(year(Datum::Date(days)), Some(i64::from(date.year() - 1970)));
            prop_assert_eq!(first_day_of_month(months), i64::from(days) - i64::from(date.day0()));
        }
    }
}
