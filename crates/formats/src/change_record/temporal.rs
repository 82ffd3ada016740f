//! Dates and times as ISO 8601 texts.

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// `2024-02-29`; years beyond four digits with their sign.
pub(super) fn push_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil(days);
    match year {
        0..=9999 => push_digits(out, year.unsigned_abs(), 4),
        _ => {
            out.push(if year < 0 { b'-' } else { b'+' });
            let digits = year.unsigned_abs();
            push_digits(out, digits, if digits > 999_999 { 7 } else { 6 });
        }
    }
    out.push(b'-');
    push_digits(out, month, 2);
    out.push(b'-');
    push_digits(out, day, 2);
}

/// `12:34:56`, with six digits of a second where they are not all zero.
pub(super) fn push_time(out: &mut Vec<u8>, micros: i64) {
    let micros = micros.unsigned_abs();
    let seconds = micros / 1_000_000;
    push_digits(out, seconds / 3600, 2);
    out.push(b':');
    push_digits(out, seconds / 60 % 60, 2);
    out.push(b':');
    push_digits(out, seconds % 60, 2);
    if !micros.is_multiple_of(1_000_000) {
        out.push(b'.');
        push_digits(out, micros % 1_000_000, 6);
    }
}

/// `2024-02-29T12:34:56`.
pub(super) fn push_timestamp(out: &mut Vec<u8>, micros: i64) {
    push_date(out, micros.div_euclid(DAY));
    out.push(b'T');
    push_time(out, micros.rem_euclid(DAY));
}

fn push_digits(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut rest = value;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[20 - width..]);
}

/// The proleptic Gregorian date of a day since 1970-01-01: years are counted from March, in eras of 400.
fn civil(days: i64) -> (i64, u64, u64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month.unsigned_abs(), day.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(push: fn(&mut Vec<u8>, i64), value: i64) -> String {
        let mut out = Vec::new();
        push(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_iso_8601() {
        assert_eq!(text(push_date, 0), "1970-01-01");
        assert_eq!(text(push_date, -719_528), "0000-01-01");
        assert_eq!(text(push_date, -719_529), "-000001-12-31");
        assert_eq!(text(push_date, 2_932_896), "9999-12-31");
        assert_eq!(text(push_date, 2_932_897), "+010000-01-01");
        assert_eq!(text(push_date, i64::from(i32::MAX)), "+5881580-07-11");
        assert_eq!(text(push_date, i64::from(i32::MIN)), "-5877641-06-23");
        assert_eq!(text(push_time, 0), "00:00:00");
        assert_eq!(text(push_time, DAY - 1), "23:59:59.999999");
        assert_eq!(text(push_timestamp, -1), "1969-12-31T23:59:59.999999");
        assert_eq!(text(push_timestamp, 1_000_001), "1970-01-01T00:00:01.000001");
        assert_eq!(text(push_timestamp, i64::MIN), "-290308-12-21T19:59:05.224192");
    }

    proptest! {
        #[test]
        fn chrono_agrees(micros in -62_167_219_200_000_000_i64..253_402_300_800_000_000) {
            let chrono = chrono::DateTime::from_timestamp_micros(micros).unwrap();
            let format = if micros.rem_euclid(1_000_000) == 0 { "%Y-%m-%dT%H:%M:%S" } else { "%Y-%m-%dT%H:%M:%S%.6f" };
            prop_assert_eq!(text(push_timestamp, micros), chrono.format(format).to_string());
        }
    }
}
