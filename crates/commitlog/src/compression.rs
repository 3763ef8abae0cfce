//! How a section's block becomes records again.
//!
//! The length a section claims is never believed before it is weighed: against the caller's
//! limit, and against what the compressor could at most have packed into the block. So a few
//! damaged bytes cannot ask for gigabytes.

use std::io::Read as _;

use helenus_cql::wire::Reader;
use thiserror::Error;

/// Compressors of the commit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Sections hold records as they are.
    None,
    /// A little-endian length, then a raw LZ4 block.
    Lz4,
    /// A raw Snappy block.
    Snappy,
    /// A zlib stream.
    Deflate,
    /// A Zstandard frame.
    Zstd,
    /// Framed like a compressed section, but the bytes are plain.
    Noop,
}

impl Compression {
    /// The compressor behind a class name, fully qualified or not.
    #[must_use]
    pub fn from_class(class: &str) -> Option<Self> {
        match class.rsplit('.').next()? {
            "LZ4Compressor" => Some(Self::Lz4),
            "SnappyCompressor" => Some(Self::Snappy),
            "DeflateCompressor" => Some(Self::Deflate),
            "ZstdCompressor" => Some(Self::Zstd),
            "NoopCompressor" => Some(Self::Noop),
            _ => None,
        }
    }

    /// A short name for display.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
            Self::Noop => "noop",
        }
    }

    /// Upper bound of how far one compressed byte can expand.
    const fn ratio_max(self) -> usize {
        match self {
            Self::None | Self::Noop => 1,
            Self::Lz4 => 255,
            Self::Snappy => 64,
            Self::Deflate => 1032,
            // A run of one byte costs a block header of four bytes per 128 KiB.
            Self::Zstd => 1 << 17,
        }
    }
}

/// Why a section's block could not be expanded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InflateError {
    /// More than the caller allows.
    #[error("the section claims {claimed} bytes, the limit is {limit}")]
    Limit {
        /// Length in the section's header.
        claimed: usize,
        /// The caller's bound.
        limit: usize,
    },
    /// More than the compressor can pack into a block of this size.
    #[error("the section claims {claimed} bytes from a block of {packed}")]
    Impossible {
        /// Length in the section's header.
        claimed: usize,
        /// Length of the block.
        packed: usize,
    },
    /// The block gave another number of bytes than the section claims.
    #[error("the section claims {claimed} bytes, its block holds {found}")]
    Length {
        /// Length in the section's header.
        claimed: usize,
        /// Length that came out.
        found: usize,
    },
    /// The compressor's own complaint.
    #[error("the block is damaged: {0}")]
    Block(Box<str>),
}

/// Expands `block` into `out`, which is cleared first and holds exactly `claimed` bytes after.
pub(crate) fn inflate(
    compression: Compression,
    block: &[u8],
    claimed: usize,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), InflateError> {
    out.clear();
    if claimed == 0 {
        // The closing section of an unused segment; strict decompressors refuse its block.
        return Ok(());
    }
    if claimed > limit {
        return Err(InflateError::Limit { claimed, limit });
    }
    if claimed > block.len().saturating_mul(compression.ratio_max()) {
        return Err(InflateError::Impossible { claimed, packed: block.len() });
    }
    match compression {
        Compression::None | Compression::Noop => out.extend_from_slice(block),
        Compression::Lz4 => lz4(block, claimed, out)?,
        Compression::Snappy => snappy(block, claimed, out)?,
        Compression::Deflate => deflate(block, claimed, out)?,
        Compression::Zstd => zstandard(block, claimed, out)?,
    }
    match out.len() {
        found if found == claimed => Ok(()),
        found => Err(InflateError::Length { claimed, found }),
    }
}

fn lz4(block: &[u8], claimed: usize, out: &mut Vec<u8>) -> Result<(), InflateError> {
    let mut reader = Reader::new(block);
    let inner = reader.array().map(u32::from_le_bytes).map_err(damaged)?;
    if usize::try_from(inner) != Ok(claimed) {
        let found = usize::try_from(inner).unwrap_or(usize::MAX);
        return Err(InflateError::Length { claimed, found });
    }
    out.resize(claimed, 0);
    let found = lz4_flex::block::decompress_into(reader.rest(), out).map_err(damaged)?;
    out.truncate(found);
    Ok(())
}

fn snappy(block: &[u8], claimed: usize, out: &mut Vec<u8>) -> Result<(), InflateError> {
    let found = snap::raw::decompress_len(block).map_err(damaged)?;
    if found != claimed {
        return Err(InflateError::Length { claimed, found });
    }
    out.resize(claimed, 0);
    let found = snap::raw::Decoder::new().decompress(block, out).map_err(damaged)?;
    out.truncate(found);
    Ok(())
}

fn deflate(block: &[u8], claimed: usize, out: &mut Vec<u8>) -> Result<(), InflateError> {
    // One byte more than claimed, so that a longer stream is noticed and nothing beyond is read.
    let bound = u64::try_from(claimed).unwrap_or(u64::MAX).saturating_add(1);
    flate2::read::ZlibDecoder::new(block).take(bound).read_to_end(out).map_err(damaged)?;
    Ok(())
}

fn zstandard(block: &[u8], claimed: usize, out: &mut Vec<u8>) -> Result<(), InflateError> {
    out.reserve(claimed);
    let mut decompressor = zstd::bulk::Decompressor::new().map_err(damaged)?;
    decompressor.decompress_to_buffer(block, out).map_err(damaged)?;
    Ok(())
}

fn damaged(error: impl std::fmt::Display) -> InflateError {
    InflateError::Block(error.to_string().into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pack(compression: Compression, plain: &[u8]) -> Vec<u8> {
        match compression {
            Compression::None | Compression::Noop => plain.to_vec(),
            Compression::Lz4 => {
                let mut block = u32::try_from(plain.len()).unwrap().to_le_bytes().to_vec();
                block.extend(lz4_flex::block::compress(plain));
                block
            }
            Compression::Snappy => snap::raw::Encoder::new().compress_vec(plain).unwrap(),
            Compression::Deflate => {
                let mut encoder =
                    flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => zstd::bulk::compress(plain, 3).unwrap(),
        }
    }

    const ALL: [Compression; 5] = [
        Compression::Lz4,
        Compression::Snappy,
        Compression::Deflate,
        Compression::Zstd,
        Compression::Noop,
    ];

    #[test]
    fn every_compressor_gives_back_what_it_took() {
        let plain: Vec<u8> = (0..20_000u32).flat_map(|number| (number / 7).to_be_bytes()).collect();
        let mut out = Vec::new();
        for compression in ALL {
            let block = pack(compression, &plain);
            inflate(compression, &block, plain.len(), 1 << 20, &mut out).unwrap();
            assert_eq!(out, plain, "{}", compression.name());
        }
    }

    #[test]
    fn wrong_lengths_and_cut_blocks_are_errors() {
        let plain = vec![7u8; 5000];
        let mut out = Vec::new();
        for compression in ALL {
            let block = pack(compression, &plain);
            for claimed in [4999, 5001, 1 << 19] {
                assert!(inflate(compression, &block, claimed, 1 << 20, &mut out).is_err());
            }
            for cut in 0..block.len() {
                assert!(inflate(compression, &block[..cut], 5000, 1 << 20, &mut out).is_err());
            }
            assert!(inflate(compression, &block, 0, 1 << 20, &mut out).is_ok());
        }
    }

    #[test]
    fn claims_beyond_the_limit_or_the_possible_allocate_nothing() {
        let mut out = Vec::new();
        let refused = inflate(Compression::Lz4, &[0; 10], 1 << 30, 1 << 20, &mut out);
        assert!(matches!(refused, Err(InflateError::Limit { .. })));
        let refused = inflate(Compression::Lz4, &[0; 10], 1 << 19, 1 << 20, &mut out);
        assert!(matches!(refused, Err(InflateError::Impossible { .. })));
        assert_eq!(out.capacity(), 0);
    }
}
