//! The token of a partition key: Cassandra's Murmur3.
//!
//! Rows of a full scan come in token order. Cassandra's variant widens the bytes of an
//! unfinished block with their sign, so common Murmur3 libraries give other tokens for keys with
//! bytes above 127.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The position of a partition on the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The token of a serialized partition key.
    ///
    /// ```
    /// use helenus_cql::token::Token;
    ///
    /// assert_eq!(Token::of(b"test"), Token(-6017608668500074083));
    /// assert!(Token::of(b"test") < Token::of(&[0]));
    /// ```
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        if key.is_empty() {
            return Self(i64::MIN);
        }
        // The smallest number is the ring's own boundary and no key's token.
        match hash(key) {
            i64::MIN => Self(i64::MAX),
            token => Self(token),
        }
    }
}

/// The first half of the 128-bit hash.
fn hash(key: &[u8]) -> i64 {
    let (blocks, tail) = key.as_chunks::<16>();
    let (mut h1, mut h2) = (0u64, 0u64);
    for block in blocks {
        let [a, b, c, d, e, f, g, h, rest @ ..] = *block;
        h1 = (h1 ^ mix1(u64::from_le_bytes([a, b, c, d, e, f, g, h]))).rotate_left(27);
        h1 = h1.wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix2(u64::from_le_bytes(rest))).rotate_left(31);
        h2 = h2.wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (first, second) = tail.split_at_checked(8).unwrap_or((tail, &[]));
    h2 ^= mix2(signed_tail(second));
    h1 ^= mix1(signed_tail(first));
    let length = key.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2)).cast_signed()
}

fn signed_tail(bytes: &[u8]) -> u64 {
    let widened = bytes.iter().map(|byte| i64::from(byte.cast_signed()).cast_unsigned());
    widened.zip(0u32..).fold(0, |sum, (byte, index)| sum ^ (byte << (8 * index)))
}

const fn mix1(block: u64) -> u64 {
    block.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn mix2(block: u64) -> u64 {
    block.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

const fn finish(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SELECT k, token(k)` of a real node.
    #[test]
    fn tokens_of_a_real_node() {
        for (key, token) in [
            ("74657374", -6_017_608_668_500_074_083),
            ("ff", -4_442_228_696_663_692_417),
            ("80808080808080808080808080808080", -3_634_615_257_541_804_556),
            ("c38672c3b8736bc3b862696e67", -1_359_317_334_889_052_236),
            (
                "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                1_006_116_951_175_961_861,
            ),
            ("78797a7b7c7d7e7f808182838485868788898a8b8c8d8e", 1_535_160_739_800_598_294),
            ("00", 5_048_724_184_180_415_669),
        ] {
            assert_eq!(Token::of(&crate::hex::decode(key).unwrap()), Token(token), "{key}");
        }
    }
}
