//! Which partition a key belongs to.
//!
//! Kafka's own rule, so that a topic has the same partitions whichever broker holds it and
//! whichever client wrote it: murmur2 of the key, without its sign, modulo the count.

/// The partition of `key` in a topic of `partitions`; the first one for a topic of none.
///
/// ```
/// use helenus_broker::partition::of_key;
///
/// assert_eq!(of_key(b"order-1", 8), of_key(b"order-1", 8));
/// assert!(of_key(b"order-1", 8) < 8);
/// ```
pub fn of_key(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff).checked_rem(partitions).unwrap_or(0)
}

fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    // The length is mixed in as 32 bits; a key of 4 GiB does not exist.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| (tail << 8) | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    #[test]
    fn the_hash_is_the_one_kafka_clients_use() {
        // Pairs published with Kafka's own client.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
