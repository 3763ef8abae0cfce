//! The memory that librdkafka takes for records, kept by the process between one batch and the next.
//!
//! The library lives on the system's heap, not on the one of the program. glibc gives the end of that heap
//! back to the kernel as soon as 128 KiB of it are free, and takes it anew, page by page and zeroed, for
//! the next records: a quarter of all that publishing costs. It stops doing so for what is smaller than
//! twice the largest piece that was ever mapped and freed (mallopt(3), `M_MMAP_THRESHOLD`), so one such
//! piece is all that is needed. It goes for all of the process: who embeds this keeps some megabytes more
//! on that heap. To other allocators it is a piece like any other.

use std::sync::Once;

use rdkafka::message::{Header, OwnedHeaders};

/// The heap keeps twice as much as this at its end; a batch takes less.
const PIECE_BYTES: usize = 4 << 20;

/// Takes and frees one large piece of memory, once in the life of a process.
pub(super) fn keep() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        let piece = vec![0; PIECE_BYTES];
        // Headers are what the library copies at once, whole, and without a client.
        drop(OwnedHeaders::new().insert(Header { key: "", value: Some(&piece) }));
    });
}
