//! Hexadecimal, as blobs and type names are spelt. Lower case on output, either on input.

use std::fmt::Write as _;

/// Appends two digits a byte.
pub(crate) fn encode_into(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _infallible = write!(out, "{byte:02x}");
    }
}

/// The bytes of an even number of digits.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut text = String::new();
        encode_into(&[0, 0x7f, 0xab], &mut text);
        assert_eq!(text, "007fab");
        assert_eq!(decode("007FaB"), Some(vec![0, 0x7f, 0xab]));
        assert_eq!(decode("0"), None);
        assert_eq!(decode("zz"), None);
        assert_eq!(decode(""), Some(Vec::new()));
    }
}
