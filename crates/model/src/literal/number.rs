//! Decimal numbers of any size, exactly.

/// A number as written: `digits * 10^exponent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    negative: bool,
    /// No leading and no trailing zeros; empty for zero.
    digits: String,
    exponent: i64,
}

impl Number {
    /// Most digits and the largest exponent that are read.
    const MAX_DIGITS: usize = 400;

    /// Reads `[+-] digits [. digits] [e [+-] digits]`, with a digit on at least one side of the point.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0
            || whole.len() + fraction.len() > Self::MAX_DIGITS
            || !all_digits(whole)
            || !all_digits(fraction)
        {
            return None;
        }
        let joined = format!("{whole}{fraction}");
        let significant = joined.trim_end_matches('0');
        let exponent = exponent + (joined.len() - significant.len()) as i64 - fraction.len() as i64;
        let digits = significant.trim_start_matches('0').to_owned();
        Some(match digits.is_empty() {
            true => Self { negative: false, digits, exponent: 0 },
            false => Self { negative, digits, exponent },
        })
    }

    /// Whether the number is below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// The largest integer not above `self * 10^scale`, and whether it equals it. `None` when it has more than 38
    /// digits.
    pub fn scaled(&self, scale: u8) -> Option<(i128, bool)> {
        let shift = self.exponent + i64::from(scale);
        let (whole, exact) = if shift >= 0 {
            let zeros =
                usize::try_from(shift).ok().filter(|z| self.digits.len() + z <= 38 || self.digits.is_empty())?;
            (format!("{}{}", self.digits, "0".repeat(zeros.min(38))), true)
        } else {
            let kept = i64::try_from(self.digits.len()).ok()? + shift;
            let kept = usize::try_from(kept.max(0)).ok()?;
            if kept > 38 {
                return None;
            }
            (self.digits[..kept].to_owned(), false)
        };
        let magnitude: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        Some(match (self.negative, exact) {
            (false, _) => (magnitude, exact),
            (true, true) => (-magnitude, true),
            (true, false) => (-magnitude - 1, false),
        })
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let exponent: i64 = text.parse().ok()?;
    (-400..=400).contains(&exponent).then_some(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_scale_exactly_or_say_so() {
        for (text, scale, expected) in [
            ("0", 0, (0, true)),
            ("-0.00", 3, (0, true)),
            ("7", 0, (7, true)),
            ("+7", 2, (700, true)),
            ("1.5", 0, (1, false)),
            ("-1.5", 0, (-2, false)),
            ("-0.5", 0, (-1, false)),
            ("1.50", 1, (15, true)),
            ("1e3", 0, (1000, true)),
            ("1.25E-1", 3, (125, true)),
            (".5", 1, (5, true)),
            ("5.", 0, (5, true)),
            ("1e-400", 0, (0, false)),
            ("99999999999999999999999999999999999999", 0, (99999999999999999999999999999999999999, true)),
        ] {
            assert_eq!(Number::parse(text).and_then(|n| n.scaled(scale)), Some(expected), "{text}");
        }
        assert_eq!(Number::parse("1e38").and_then(|n| n.scaled(0)), None);
        assert_eq!(Number::parse("123456789012345678901234567890123456789.5").and_then(|n| n.scaled(0)), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in ["", "-", ".", "1.2.3", "1e", "e5", "1e999", "0x10", "1_000", "NaN", "--1", "1 "] {
            assert_eq!(Number::parse(bad), None, "{bad}");
        }
    }
}
