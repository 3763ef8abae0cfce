//! A cursor over bytes that Cassandra wrote: big-endian integers, variable-length integers,
//! length-prefixed runs.
//!
//! Values and commit log records use the same primitives, so the cursor sits below both. Every
//! read is checked against what is left and never allocates; a length that the input claims is
//! only ever used to take a sub-slice of the input. The cursor knows nothing of CQL.

use thiserror::Error;

/// The input ended before the value did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{wanted} bytes wanted, {left} left")]
pub struct Short {
    /// Bytes the value would have needed.
    pub wanted: u64,
    /// Bytes that were there.
    pub left: usize,
}

/// A cursor over borrowed bytes.
///
/// ```
/// use helenus_cql::wire::Reader;
///
/// let mut reader = Reader::new(&[0x80, 0x80, 0, 0, 0, 7]);
/// assert_eq!(reader.unsigned_vint()?, 128);
/// assert_eq!(reader.i32()?, 7);
/// assert!(reader.is_empty());
/// # Ok::<(), helenus_cql::wire::Short>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the first of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, total: bytes.len() }
    }

    /// Bytes read so far.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// The bytes not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True when nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Short> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.short(length as u64));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(N as u64));
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// A big-endian `u16`.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_be_bytes)
    }

    /// A big-endian `i16`.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, Short> {
        self.array().map(i16::from_be_bytes)
    }

    /// A big-endian `u32`.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_be_bytes)
    }

    /// A big-endian `i32`.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Short> {
        self.array().map(i32::from_be_bytes)
    }

    /// A big-endian `i64`.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, Short> {
        self.array().map(i64::from_be_bytes)
    }

    /// An unsigned variable-length integer: the leading one-bits of the first byte count the
    /// bytes that follow.
    #[inline]
    pub fn unsigned_vint(&mut self) -> Result<u64, Short> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.long_vint(first)
    }

    /// A signed variable-length integer (zigzag over [`Self::unsigned_vint`]).
    #[inline]
    pub fn signed_vint(&mut self) -> Result<i64, Short> {
        let raw = self.unsigned_vint()?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// A run of bytes after its length as an unsigned vint.
    #[inline]
    pub fn vint_bytes(&mut self) -> Result<&'a [u8], Short> {
        let length = self.unsigned_vint()?;
        let length = usize::try_from(length).map_err(|_| self.short(length))?;
        self.take(length)
    }

    /// A run of bytes after its `i32` length; a negative length is a null.
    #[inline]
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, Short> {
        let length = self.i32()?;
        usize::try_from(length).ok().map(|length| self.take(length)).transpose()
    }

    fn long_vint(&mut self, first: u8) -> Result<u64, Short> {
        let extra = first.leading_ones();
        let tail = self.take(extra as usize)?;
        let low = tail.iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let high = u64::from(u32::from(first) & (0xff_u32 >> extra));
        // With eight extra bytes the first one carries no value bits and the shift would overflow.
        Ok(high.checked_shl(8 * extra).unwrap_or(0) | low)
    }

    const fn short(&self, wanted: u64) -> Short {
        Short { wanted, left: self.rest.len() }
    }
}

/// Appends an unsigned variable-length integer, in as few bytes as it takes.
pub fn push_unsigned_vint(value: u64, out: &mut Vec<u8>) {
    let bits = (64 - value.leading_zeros()).max(1);
    // Each further byte takes a bit of the first one; nine bytes hold anything.
    let extra = ((bits - 1) / 7).min(8);
    let bytes = value.to_be_bytes();
    let prefix = (0xff00_u32 >> extra).to_be_bytes();
    let used = if extra == 8 { 8 } else { extra as usize + 1 };
    let mut tail = bytes.iter().skip(bytes.len() - used).copied();
    let [.., ones] = prefix;
    if extra == 8 {
        out.push(ones);
    } else {
        out.push(ones | tail.next().unwrap_or(0));
    }
    out.extend(tail);
}

/// Appends a signed variable-length integer (zigzag).
pub fn push_signed_vint(value: i64, out: &mut Vec<u8>) {
    push_unsigned_vint(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// The low 32 bits of a vint as an `i32`: 32-bit quantities are sign-extended before encoding.
#[must_use]
pub const fn low_i32(value: u64) -> i32 {
    let [_, _, _, _, a, b, c, d] = value.to_be_bytes();
    i32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_vints_of_every_length() {
        for (value, bytes) in [
            (0u64, &[0u8][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (16384, &[0xc0, 0x40, 0x00]),
            (2_097_151, &[0xdf, 0xff, 0xff]),
            (351_889_923, &[0xf0, 0x14, 0xf9, 0x6a, 0x03]),
            ((1 << 56) - 1, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (1 << 56, &[0xff, 0x01, 0, 0, 0, 0, 0, 0, 0]),
            (u64::MAX, &[0xff; 9]),
        ] {
            let mut written = Vec::new();
            push_unsigned_vint(value, &mut written);
            assert_eq!(written, bytes);
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.unsigned_vint(), Ok(value));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert!(Reader::new(&bytes[..cut]).unsigned_vint().is_err());
            }
        }
    }

    #[test]
    fn signed_vints_are_zigzag() {
        for (byte, value) in [(0u8, 0i64), (1, -1), (2, 1), (3, -2), (0x7f, -64)] {
            assert_eq!(Reader::new(&[byte]).signed_vint(), Ok(value));
        }
        assert_eq!(Reader::new(&[0xff; 9]).signed_vint(), Ok(i64::MIN));
        let mut written = Vec::new();
        push_signed_vint(i64::MIN, &mut written);
        push_signed_vint(-64, &mut written);
        assert_eq!(written, [&[0xff; 9][..], &[0x7f]].concat());
    }

    #[test]
    fn a_length_beyond_the_input_is_an_error_not_an_allocation() {
        let huge = [0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(
            Reader::new(&huge).vint_bytes(),
            Err(Short { wanted: 0x7fff_ffff_ffff_ffff, left: 0 })
        );
        assert_eq!(Reader::new(&[0xff; 4]).nullable_bytes(), Ok(None));
        assert_eq!(low_i32(u64::MAX), -1);
    }
}
