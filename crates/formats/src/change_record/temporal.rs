//! Dates and times as ISO 8601 texts.

use hoglake_model::partition::transform::civil;

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
    push_digits(out, month.unsigned_abs(), 2);
    out.push(b'-');
    push_digits(out, day.unsigned_abs(), 2);
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
