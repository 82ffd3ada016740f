//! Unscaled decimals as minimal big-endian two's complement.

/// The shortest big-endian two's complement form of `unscaled`; one byte for zero.
pub(super) fn encode(unscaled: i128) -> Vec<u8> {
    let bytes = unscaled.to_be_bytes();
    let fill = if unscaled < 0 { 0xff } else { 0x00 };
    // A leading byte is redundant when the next one still carries the sign.
    let redundant = bytes.windows(2).take_while(|pair| pair[0] == fill && (pair[1] ^ fill) & 0x80 == 0).count();
    bytes[redundant..].to_vec()
}

/// Reads big-endian two's complement of any length, sign-extended or not; none when empty or wider than 128 bits.
pub(super) fn decode(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    let fill = if first & 0x80 == 0 { 0x00 } else { 0xff };
    let significant = match bytes.len().checked_sub(16) {
        Some(excess) => {
            let (head, tail) = bytes.split_at(excess);
            let same_sign = tail.first().is_none_or(|b| (b ^ fill) & 0x80 == 0);
            if head.iter().any(|b| *b != fill) || !same_sign {
                return None;
            }
            tail
        }
        None => bytes,
    };
    let mut wide = [fill; 16];
    wide[16 - significant.len()..].copy_from_slice(significant);
    Some(i128::from_be_bytes(wide))
}

/// Whether `unscaled` has at most `precision` digits.
pub(super) fn fits(unscaled: i128, precision: u8) -> bool {
    10_u128.checked_pow(u32::from(precision)).is_none_or(|limit| unscaled.unsigned_abs() < limit)
}
