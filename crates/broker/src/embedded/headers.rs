//! Headers of a record in one blob: for each, name and value, both with their length in front.
//!
//! Values are bytes and names may repeat, so JSON does not fit. Lengths are 32 bits, big-endian.

use crate::contract::Headers;

pub(super) fn encode(headers: &Headers) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        for part in [name.as_bytes(), value] {
            // A part of 4 GiB would not fit into a SQLite row either.
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            encoded.extend_from_slice(&length.to_be_bytes());
            encoded.extend_from_slice(part);
        }
    }
    encoded
}

/// `None` if the bytes are not what [`encode`] wrote.
pub(super) fn decode(mut encoded: &[u8]) -> Option<Headers> {
    let mut headers = Vec::new();
    while !encoded.is_empty() {
        let name = String::from_utf8(take(&mut encoded)?.to_vec()).ok()?;
        headers.push((name.into(), take(&mut encoded)?.to_vec().into()));
    }
    Some(headers)
}

fn take<'a>(encoded: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = encoded.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (part, rest) = rest.split_at_checked(length)?;
    *encoded = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_went() {
        let values = [("a", vec![0, 255]), ("a", vec![]), ("", b"x".to_vec())];
        let headers = values.map(|(name, value)| (name.into(), value.into())).to_vec();
        let encoded = encode(&headers);
        assert_eq!(decode(&encoded), Some(headers));
        assert_eq!(decode(&[]), Some(vec![]));
    }

    #[test]
    fn cut_bytes_are_refused() {
        let encoded = encode(&vec![("name".into(), b"value".as_slice().into())]);
        for length in 1..encoded.len() {
            assert_eq!(decode(&encoded[..length]), None, "{length}");
        }
    }
}
