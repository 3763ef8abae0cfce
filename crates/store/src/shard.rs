//! Which shard a message is in: those with one ordering key are in one.

use helenus_cql::token::Token;
use helenus_model::MessageId;

/// The token a message's shard is the remainder of: that of its ordering key, else of its id.
pub(crate) fn token(ordering_key: Option<&str>, message_id: &MessageId) -> i64 {
    Token::of(ordering_key.unwrap_or(message_id.as_str()).as_bytes()).0
}

/// The shard that a message is in, of so many.
///
/// ```
/// use helenus_model::MessageId;
/// use helenus_store::shard_of;
///
/// let (one, other) = (MessageId::new("m-1")?, MessageId::new("m-2")?);
/// assert_eq!(shard_of(Some("order-7"), &one, 16), shard_of(Some("order-7"), &other, 16));
/// # Ok::<(), helenus_model::InvalidId>(())
/// ```
pub fn shard_of(ordering_key: Option<&str>, message_id: &MessageId, shards: u16) -> u16 {
    shard(token(ordering_key, message_id), shards)
}

/// The shard of a token, of so many.
pub(crate) fn shard(token: i64, shards: u16) -> u16 {
    u16::try_from(token.rem_euclid(i64::from(shards.max(1)))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_decides_and_its_token_never_changes() {
        let id = |text| MessageId::new(text).unwrap();
        let keyed = token(Some("test"), &id("m-1"));
        assert_eq!(keyed, token(Some("test"), &id("m-2")));
        assert_eq!(keyed, token(None, &id("test")));
        // Stored: the shard is part of a row's key.
        assert_eq!(keyed, -6_017_608_668_500_074_083);
    }
}
