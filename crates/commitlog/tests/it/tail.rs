//! A reader that follows a growing file, with nothing but [`Walker`] and small windows.

use helenus_commitlog::{End, Header, Options, Step, Walker};

use crate::fixtures::{PLAIN, SEGMENTS, payloads};

/// Takes every section that can be had from the file as it is now; returns why it stopped.
/// `sections` collects the file range of each.
fn follow(walker: &mut Walker, file: &[u8], sections: &mut Vec<(u64, u64)>) -> End {
    // Start with room for the marker alone, so that every section has to be asked for.
    let mut window = 8;
    loop {
        let from = usize::try_from(walker.position().file).expect("a small file");
        let rest = file.get(from..).unwrap_or_default();
        let visible = rest.get(..window).unwrap_or(rest);
        match walker.step(visible, file.len() as u64, None) {
            Step::Section(section) => {
                sections.push((section.start.file, section.end.file));
                window = 8;
            }
            Step::Need(bytes) => {
                let bytes = usize::try_from(bytes).expect("a small file");
                assert!(bytes > visible.len(), "asks for more than it has");
                assert!(bytes <= rest.len(), "asks for no more than there is");
                window = bytes;
            }
            Step::End(end) => return end,
        }
    }
}

fn whole(bytes: &[u8]) -> (Vec<(u64, u64)>, End) {
    let mut sections = Vec::new();
    let mut walker = Walker::new(Header::parse(bytes).expect("a recorded header"));
    let end = follow(&mut walker, bytes, &mut sections);
    (sections, end)
}

/// Compressed and direct files grow at their end.
#[test]
fn a_file_that_grows_gives_each_section_once() {
    for (variant, bytes) in SEGMENTS {
        let header = Header::parse(bytes).unwrap();
        let mut walker = Walker::new(header);
        let mut sections = Vec::new();
        for length in (header.length..=bytes.len()).step_by(13).chain([bytes.len()]) {
            let end = follow(&mut walker, &bytes[..length], &mut sections);
            let calm = matches!(end, End::File | End::Unwritten | End::Outside { .. });
            assert!(calm, "{variant} at {length}: {end:?}");
            // The walker itself need not be kept: its position is enough.
            walker = Walker::resume(header, walker.position());
        }
        assert_eq!(sections, whole(bytes).0, "{variant}");
    }
}

/// Memory-mapped files have their full length from the start and fill up with sections.
#[test]
fn a_file_of_full_length_gives_each_section_once_it_is_marked() {
    let header = Header::parse(PLAIN).unwrap();
    let (expected, _) = whole(PLAIN);
    let mut walker = Walker::new(header);
    let mut sections = Vec::new();
    for (start, end) in &expected {
        let (start, end) = (usize::try_from(*start).unwrap(), usize::try_from(*end).unwrap());
        let mut file = PLAIN.to_vec();
        // Records are there before their marker is: nothing may be read yet.
        file[start..start + 8].fill(0);
        file[end..].fill(0);
        assert_eq!(follow(&mut walker, &file, &mut sections), End::Unwritten);
        // Half of the marker: its position without its checksum.
        file[start..start + 4].copy_from_slice(&PLAIN[start..start + 4]);
        assert_eq!(follow(&mut walker, &file, &mut sections), End::Torn);
        assert_eq!(walker.position().file, start as u64);
        file[start + 4..start + 8].copy_from_slice(&PLAIN[start + 4..start + 8]);
        assert_eq!(follow(&mut walker, &file, &mut sections), End::Unwritten);
    }
    assert_eq!(sections, expected);
    assert!(expected.len() > 3);
}

#[test]
fn a_torn_marker_in_a_complete_file_is_reported_and_its_records_are_saved() {
    let (expected, _) = whole(PLAIN);
    let last = usize::try_from(expected[expected.len() - 1].0).unwrap();
    let complete = Options { complete: true, ..Options::default() };
    let (all, _) = payloads(PLAIN, complete);
    let mut torn = PLAIN.to_vec();
    torn[last + 4..last + 8].fill(0);
    let (saved, damages) = payloads(&torn, complete);
    assert_eq!(saved, all);
    assert_eq!(damages.len(), 1);
    assert_eq!(damages[0].reason.to_string(), "the sync marker is torn");
    // A reader that follows the file waits instead.
    let (tailed, damages) = payloads(&torn, Options::default());
    assert!(tailed.len() < all.len() && damages.is_empty());
    // A marker with a wrong checksum is not trusted at all.
    let mut wrong = PLAIN.to_vec();
    wrong[last + 7] ^= 1;
    let (kept, damages) = payloads(&wrong, complete);
    assert_eq!(kept, tailed);
    assert_eq!(damages[0].reason.to_string(), "the sync marker's checksum does not match");
}

#[test]
fn logical_positions_are_what_the_node_wrote_to_its_index() {
    // `_cdc.idx` of each recorded segment, when it was copied.
    let indexes = [
        ("plain", 12_966),
        ("lz4", 12_047),
        ("snappy", 15_777),
        ("deflate", 13_018),
        ("zstd", 12_040),
        ("v8", 15_719),
    ];
    for ((variant, bytes), (name, index)) in SEGMENTS.into_iter().zip(indexes) {
        assert_eq!(variant, name);
        let mut walker = Walker::new(Header::parse(bytes).unwrap());
        follow(&mut walker, bytes, &mut Vec::new());
        assert_eq!(walker.position().logical, index, "{variant}");
    }
}
