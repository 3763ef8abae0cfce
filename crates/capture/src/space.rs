//! How full `cdc_raw` is, and how long until the node would refuse writes.
//!
//! A node whose folder is full refuses writes to tables with CDC (or, told so, deletes what nobody has
//! read). The time left is what is free, over how fast the log has grown of late.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

/// How far back growth is looked at.
const WINDOW: Duration = Duration::from_secs(60);

/// The folder's room.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Space {
    /// Bytes in the folder.
    pub used_bytes: u64,
    /// Bytes it may hold, where that is known.
    pub limit_bytes: Option<u64>,
    /// Until the node would refuse writes if nothing were released, at the pace of the last minute; 0
    /// while it does, nothing while the log does not grow.
    pub seconds_left: Option<u64>,
}

/// Watches the folder grow.
#[derive(Debug)]
pub struct Watch {
    limit: Option<u64>,
    /// When, and how many bytes had been written by then.
    samples: VecDeque<(Duration, u64)>,
    /// Bytes released since the watch began: they make the folder smaller, not the log slower.
    released: u64,
}

impl Watch {
    /// A watch over a folder that may hold so much.
    #[must_use]
    pub const fn new(limit: Option<u64>) -> Self {
        Self { limit, samples: VecDeque::new(), released: 0 }
    }

    /// The folder may hold so much from now on.
    pub const fn limit(&mut self, bytes: u64) {
        self.limit = Some(bytes);
    }

    /// Remembers that the agent made room.
    pub const fn released(&mut self, bytes: u64) {
        self.released += bytes;
    }

    /// Looks at the folder's size. A node begins no segment that might not fit.
    pub fn look(&mut self, elapsed: Duration, used_bytes: u64, segment_bytes: u64) -> Space {
        self.samples.push_back((elapsed, used_bytes.saturating_add(self.released)));
        while let Some((at, _)) = self.samples.front()
            && elapsed.saturating_sub(*at) > WINDOW
            && self.samples.len() > 2
        {
            self.samples.pop_front();
        }
        let taken = used_bytes.saturating_add(segment_bytes);
        let free = self.limit.map(|limit| limit.saturating_sub(taken));
        let seconds_left = match (free, self.bytes_per_second()) {
            // The log stands still because writes are refused.
            (Some(0), _) => Some(0),
            (Some(free), Some(pace)) => Some(free / pace.max(1)),
            _ => None,
        };
        Space { used_bytes, limit_bytes: self.limit, seconds_left }
    }

    /// The pace of the last minute; nothing while the log stands still.
    fn bytes_per_second(&self) -> Option<u64> {
        let ((from, before), (to, after)) = (self.samples.front()?, self.samples.back()?);
        let milliseconds = u64::try_from(to.saturating_sub(*from).as_millis()).ok()?;
        let grown = after.saturating_sub(*before);
        (grown > 0).then(|| grown.saturating_mul(1000).checked_div(milliseconds)).flatten()
    }
}

/// Bytes of all files in a folder. What disappears meanwhile counts nothing.
pub fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        total += entry?.metadata().map_or(0, |file| file.len());
    }
    Ok(total)
}

/// Bytes of a size as the node's settings spell it: `4096MiB`, `16GiB`, `512KiB`, or a bare number of
/// mebibytes from 4.0.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.trim().parse().ok()?;
    let unit = text.trim().strip_prefix(digits)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "b" => 0,
        "kib" => 10,
        "" | "mib" => 20,
        "gib" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_pace() {
        let mut watch = Watch::new(Some(1_000_000));
        let at = Duration::from_secs;
        assert_eq!(watch.look(at(0), 100_000, 0).seconds_left, None, "one look tells no pace");
        assert_eq!(watch.look(at(10), 200_000, 0).seconds_left, Some(80));
        // Releasing makes room; the log goes on as fast as before.
        watch.released(150_000);
        assert_eq!(watch.look(at(20), 150_000, 0).seconds_left, Some(85));
        for second in 21..120 {
            watch.look(at(second), 150_000, 0);
        }
        assert_eq!(watch.look(at(121), 150_000, 0).seconds_left, None, "it stands still");
        assert_eq!(watch.look(at(122), 150_000, 850_000).seconds_left, Some(0), "it is full");
        assert_eq!(Watch::new(None).look(at(0), 5, 1).limit_bytes, None);
    }

    #[test]
    fn sizes_as_nodes_spell_them() {
        for (text, bytes) in [
            ("4096MiB", Some(4 << 30)),
            ("16GiB", Some(16 << 30)),
            ("512KiB", Some(512 << 10)),
            ("4096", Some(4 << 30)),
            ("7B", Some(7)),
            ("0MiB", Some(0)),
            ("many", None),
            ("5 parsecs", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }
}
