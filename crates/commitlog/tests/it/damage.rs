//! Truncation at every byte and random bit flips: a clean end or a reported loss, never a panic,
//! never a record that was not written.

use std::collections::HashSet;

use helenus_commitlog::{Options, Segment, Version, mutation};
use helenus_cql::reconcile::TableState;
use helenus_cql::update::Seconds;
use proptest::prelude::*;

use crate::fixtures::{CATALOG, PLAIN, SEGMENTS, index_of, payloads};

const COMPLETE: Options = Options { section_bytes_max: 16 << 20, until: None, complete: true };

#[test]
fn a_segment_cut_anywhere_gives_a_prefix_of_its_records() {
    for (variant, bytes) in SEGMENTS {
        let (whole, _) = payloads(bytes, Options::default());
        // Every byte of the plain one; the compressed ones, whose sections are long, in steps.
        let step = if variant == "plain" { 1 } else { 61 };
        for cut in (0..bytes.len()).step_by(step) {
            let (tailed, damages) = payloads(&bytes[..cut], Options::default());
            assert_eq!(damages, [], "a growing file is not damaged, {variant} cut at {cut}");
            assert!(whole.starts_with(&tailed), "{variant} cut at {cut}");
            let (salvaged, _) = payloads(&bytes[..cut], COMPLETE);
            assert!(whole.starts_with(&salvaged), "{variant} cut at {cut}");
            assert!(salvaged.len() >= tailed.len());
        }
    }
}

#[test]
fn a_complete_segment_that_was_cut_is_reported_as_damaged() {
    let segment = Segment::parse(PLAIN).unwrap();
    let mut records = segment.records(Options::default());
    let mut starts = Vec::new();
    while let Some(record) = records.next_record() {
        starts.push(usize::try_from(record.unwrap().start).unwrap());
    }
    for start in starts.into_iter().step_by(7) {
        let (_, damages) = payloads(&PLAIN[..start + 5], COMPLETE);
        assert_eq!(damages.len(), 1, "cut at {start}: {damages:?}");
    }
}

#[test]
fn a_mutation_cut_anywhere_is_an_error() {
    let (payloads, _) = payloads(PLAIN, Options::default());
    let mut seen = HashSet::new();
    for payload in payloads.iter().filter(|payload| payload.len() < 600) {
        for cut in 0..payload.len() {
            if seen.insert(payload[..cut].to_vec()) {
                let outcome = mutation::decode(&payload[..cut], Version::V7, &*CATALOG);
                assert!(outcome.is_err(), "{payload:?} cut at {cut}");
            }
        }
    }
    assert!(seen.len() > 1000);
}

/// Decodes, merges and prints whatever the bytes say.
fn digest(payload: &[u8], version: Version) {
    let Ok(mutation) = mutation::decode(payload, version, &*CATALOG) else { return };
    for update in &mutation.updates {
        let mut state = TableState::default();
        if state.apply(update).is_ok() {
            let rows = state.select(update.table, Seconds(0));
            assert!(rows.count() <= update.items.len() + 1);
            state.compact();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_in_a_file_cost_records_and_never_invent_any(
        variant in 0usize..SEGMENTS.len(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
    ) {
        let (name, original) = SEGMENTS[variant];
        // Behind what was durable may be records that no marker leads to yet; of a compressed
        // segment the index counts the bytes before they were compressed.
        let durable = usize::try_from(index_of(name)).expect("a place in the file");
        let original = original.get(..durable).unwrap_or(original);
        let mut bytes = original.to_vec();
        for (place, bit) in &flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        let (whole, _) = payloads(original, Options::default());
        let whole: HashSet<Vec<u8>> = whole.into_iter().collect();
        for options in [COMPLETE, Options::default()] {
            let (found, _) = payloads(&bytes, options);
            prop_assert!(found.len() <= 4096);
            prop_assert!(found.iter().all(|payload| whole.contains(payload)));
        }
    }

    #[test]
    fn flipped_bits_in_a_mutation_are_an_error_or_another_mutation(
        record in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..6),
        version in prop_oneof![Just(Version::V6), Just(Version::V7), Just(Version::V8)],
    ) {
        let (payloads, _) = payloads(PLAIN, Options::default());
        let mut payload = record.get(&payloads).clone();
        for (place, bit) in &flips {
            let place = place.index(payload.len());
            payload[place] ^= 1 << bit;
        }
        digest(&payload, version);
    }

    #[test]
    fn random_bytes_behind_a_real_beginning(
        record in any::<prop::sample::Index>(),
        kept in any::<prop::sample::Index>(),
        tail in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let (payloads, _) = payloads(PLAIN, Options::default());
        let payload = record.get(&payloads);
        let mut mixed = payload[..kept.index(payload.len())].to_vec();
        mixed.extend(tail);
        digest(&mixed, Version::V7);
    }

    #[test]
    fn random_bytes_are_no_segment(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Segment::parse(&bytes).is_err());
    }
}
