//! The descriptor that opens every segment: version, id, compression, checksum.
//!
//! A file is refused here or not at all: past a valid header, damage is a matter of single
//! sections and records. Whether the id agrees with the file's name is the caller's to check,
//! since names are I/O.

use std::fmt;

use helenus_cql::wire::{Reader, Short};
use serde_json::Value;
use thiserror::Error;

use crate::compression::Compression;

/// The id of a segment: unique and increasing on one node, not across nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub i64);

impl fmt::Display for SegmentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Commit log versions that can be read. They say little of the release: a stock 5.0 node
/// writes version 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// Cassandra 3.0 and 3.11.
    V6,
    /// Cassandra 4.0, 4.1, and 5.0 in its default compatibility mode.
    V7,
    /// Cassandra 5.0 with local deletion times beyond 2038.
    V8,
}

impl Version {
    /// The number in the file.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::V6 => 6,
            Self::V7 => 7,
            Self::V8 => 8,
        }
    }

    const fn from_number(number: i32) -> Option<Self> {
        match number {
            6 => Some(Self::V6),
            7 => Some(Self::V7),
            8 => Some(Self::V8),
            _ => None,
        }
    }
}

/// Why a file is not a segment that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Fewer bytes than a header has; in `commitlog/` the node may still be writing it.
    #[error("the header is cut short: {0}")]
    Short(#[from] Short),
    /// A version this reader does not know, or not a segment at all.
    #[error("commit log version {0} is not supported (6, 7 and 8 are), or this is not a segment")]
    Version(i32),
    /// The checksum over version, id and parameters does not match.
    #[error("the header's checksum is {stored:08x}, its bytes give {computed:08x}")]
    Checksum {
        /// As written in the file.
        stored: u32,
        /// As computed over the header's bytes.
        computed: u32,
    },
    /// The parameters are not a JSON object.
    #[error("the header's parameters are not a JSON object: {0}")]
    Parameters(Box<str>),
    /// A compressor that is not one of Cassandra's own.
    #[error("compressor {0} is not supported")]
    Compressor(Box<str>),
    /// Transparent data encryption; the key is in the node's keystore.
    #[error(
        "segment {id} is encrypted with {cipher}, key alias {alias}; encrypted commit logs are \
         not supported"
    )]
    Encrypted {
        /// The segment.
        id: SegmentId,
        /// Cipher name, as the header has it.
        cipher: Box<str>,
        /// Key alias, as the header has it.
        alias: Box<str>,
    },
}

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Layout version.
    pub version: Version,
    /// The segment's id; must equal the one in the file's name.
    pub id: SegmentId,
    /// How the sections are compressed.
    pub compression: Compression,
    /// Bytes the header takes, which is where the first sync marker is.
    pub length: usize,
}

impl Header {
    /// Reads the header from the first bytes of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let mut reader = Reader::new(bytes);
        let number = reader.i32()?;
        let version = Version::from_number(number).ok_or(HeaderError::Version(number))?;
        let id = reader.i64()?;
        let parameters_length = reader.u16()?;
        let parameters = reader.take(usize::from(parameters_length))?;
        let stored = reader.u32()?;
        let computed = checksum(number, id, parameters_length, parameters);
        if stored != computed {
            return Err(HeaderError::Checksum { stored, computed });
        }
        let id = SegmentId(id);
        let compression = compression(id, parameters)?;
        Ok(Self { version, id, compression, length: reader.position() })
    }
}

/// The id goes in low half first, the parameters' length as four bytes.
fn checksum(version: i32, id: i64, parameters_length: u16, parameters: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&version.to_be_bytes());
    hash_id(&mut crc, SegmentId(id));
    crc.update(&u32::from(parameters_length).to_be_bytes());
    crc.update(parameters);
    crc.finalize()
}

/// Feeds an id to a checksum as Cassandra does: low half, then high half.
pub(crate) fn hash_id(crc: &mut crc32fast::Hasher, id: SegmentId) {
    let [a, b, c, d, e, f, g, h] = id.0.to_be_bytes();
    crc.update(&[e, f, g, h, a, b, c, d]);
}

fn compression(id: SegmentId, parameters: &[u8]) -> Result<Compression, HeaderError> {
    let parameters: Value = serde_json::from_slice(parameters)
        .map_err(|error| HeaderError::Parameters(error.to_string().into()))?;
    let Value::Object(parameters) = parameters else {
        return Err(HeaderError::Parameters(parameters.to_string().into()));
    };
    let text = |key: &str| parameters.get(key).and_then(Value::as_str);
    if let (Some(cipher), Some(alias)) = (text("encCipher"), text("encKeyAlias")) {
        return Err(HeaderError::Encrypted { id, cipher: cipher.into(), alias: alias.into() });
    }
    match text("compressionClass") {
        None => Ok(Compression::None),
        Some(class) => {
            Compression::from_class(class).ok_or_else(|| HeaderError::Compressor(class.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A real header, of a 5.0.9 node.
    const REAL: [u8; 20] = [
        0, 0, 0, 7, 0, 0, 1, 0xa1, 0xe0, 0x9f, 0x52, 0x1c, 0, 2, 0x7b, 0x7d, 0x78, 0x88, 0xc5, 0x6d,
    ];

    fn with_parameters(version: i32, parameters: &str) -> Vec<u8> {
        let length = u16::try_from(parameters.len()).unwrap();
        let mut bytes = version.to_be_bytes().to_vec();
        bytes.extend(9i64.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(parameters.as_bytes());
        bytes.extend(checksum(version, 9, length, parameters.as_bytes()).to_be_bytes());
        bytes
    }

    #[test]
    fn a_real_header() {
        let header = Header::parse(&REAL).unwrap();
        assert_eq!(header.version, Version::V7);
        assert_eq!(header.id, SegmentId(1_794_769_900_060));
        assert_eq!(header.compression, Compression::None);
        assert_eq!(header.length, 20);
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_refused() {
        for cut in 0..REAL.len() {
            assert!(matches!(Header::parse(&REAL[..cut]), Err(HeaderError::Short(_))));
        }
        for bit in 0..REAL.len() * 8 {
            let mut bytes = REAL;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn parameters() {
        for (text, expected) in [
            (r"{}", Ok(Compression::None)),
            (r#"{"compressionClass":"LZ4Compressor"}"#, Ok(Compression::Lz4)),
            (
                r#"{"compressionClass":"org.apache.cassandra.io.compress.ZstdCompressor"}"#,
                Ok(Compression::Zstd),
            ),
            (
                r#"{"compressionClass":"com.example.Foo"}"#,
                Err("compressor com.example.Foo is not supported"),
            ),
            (
                r#"{"encCipher":"AES/CBC/PKCS5Padding","encKeyAlias":"k:1","encIV":"00"}"#,
                Err("segment 9 is encrypted with AES/CBC/PKCS5Padding, key alias k:1; encrypted \
                     commit logs are not supported"),
            ),
            ("[]", Err("the header's parameters are not a JSON object: []")),
        ] {
            let parsed = Header::parse(&with_parameters(7, text)).map(|header| header.compression);
            assert_eq!(parsed.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn versions_outside_the_known_ones_are_named() {
        assert_eq!(Header::parse(&with_parameters(9, "{}")), Err(HeaderError::Version(9)));
        assert_eq!(Header::parse(&with_parameters(6, "{}")).unwrap().version, Version::V6);
    }
}
