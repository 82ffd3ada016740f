//! Z85, the text encoding of Delta's inline vectors and file ids: four bytes become five characters.

use super::DeletionVectorError;

const ALPHABET: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Encodes `bytes`, padded with zeros to a multiple of four. The reader knows the true length from elsewhere.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for chunk in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let value = u32::from_be_bytes(word);
        for power in [85_u32.pow(4), 85_u32.pow(3), 85_u32.pow(2), 85, 1] {
            text.push(char::from(ALPHABET[(value / power % 85) as usize]));
        }
    }
    text
}

/// Decodes text of a multiple of five characters.
///
/// # Errors
/// [`DeletionVectorError::Z85`] for another length, another character, or five characters beyond 32 bits.
pub fn decode(text: &str) -> Result<Vec<u8>, DeletionVectorError> {
    let characters = text.as_bytes();
    if !characters.len().is_multiple_of(5) {
        return Err(DeletionVectorError::Z85);
    }
    let mut bytes = Vec::with_capacity(characters.len() / 5 * 4);
    for chunk in characters.chunks_exact(5) {
        let mut value: u64 = 0;
        for character in chunk {
            let digit = ALPHABET.iter().position(|a| a == character).ok_or(DeletionVectorError::Z85)?;
            value = value * 85 + digit as u64;
        }
        let value = u32::try_from(value).map_err(|_| DeletionVectorError::Z85)?;
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    Ok(bytes)
}
