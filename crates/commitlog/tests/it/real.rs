//! What comes out of real segments is what the nodes themselves answered.

use helenus_commitlog::{End, Options, Segment, Version};

use crate::fixtures::{CATALOG, SEGMENTS, answers, fold, payloads, rows};

#[test]
fn every_segment_gives_the_rows_that_its_node_gave() {
    for (variant, bytes) in SEGMENTS {
        let version = Segment::parse(bytes).unwrap().header().version;
        assert_eq!(version, if variant == "v8" { Version::V8 } else { Version::V7 });
        let (payloads, damages) = payloads(bytes, Options { complete: true, ..Options::default() });
        assert_eq!(damages, [], "{variant}");
        let tables = fold(variant, payloads.iter(), version);
        let (got, expected) = (rows(variant, &tables), answers(variant));
        for (table, expected) in expected {
            assert_eq!(got[&table], expected, "{variant} {table}");
        }
    }
}

#[test]
fn order_and_repetition_of_records_do_not_matter() {
    for (variant, bytes) in SEGMENTS {
        let version = Segment::parse(bytes).unwrap().header().version;
        let (payloads, _) = payloads(bytes, Options::default());
        let straight = rows(variant, &fold(variant, payloads.iter(), version));
        let reversed = rows(variant, &fold(variant, payloads.iter().rev(), version));
        assert_eq!(reversed, straight, "{variant}");
        let repeated = payloads.iter().chain(payloads.iter().step_by(2));
        let twice = rows(variant, &fold(variant, repeated, version));
        assert_eq!(twice, straight, "{variant}");
    }
}

/// A reader that stops after every section and comes back sees what one that reads on sees.
#[test]
fn reading_resumes_at_every_section() {
    for (variant, bytes) in SEGMENTS {
        let segment = Segment::parse(bytes).unwrap();
        let (whole, _) = payloads(bytes, Options::default());
        let mut pieces = Vec::new();
        let mut position = segment.records(Options::default()).position();
        loop {
            let mut records = segment.records_from(position, Options::default());
            let mut section = None;
            while let Some(record) = records.next_record() {
                let record = record.unwrap();
                if *section.get_or_insert(record.section) != record.section {
                    break;
                }
                pieces.push(record.payload.to_vec());
                assert!(record.end > record.start && record.start >= position.logical);
            }
            let Some(section) = section else { break };
            // Step over the sections just read, one by one.
            let mut walker = helenus_commitlog::Walker::resume(*segment.header(), position);
            while walker.position().file <= section {
                let at = usize::try_from(walker.position().file).unwrap();
                walker.step(&bytes[at..], bytes.len() as u64, None);
            }
            position = walker.position();
        }
        assert_eq!(pieces, whole, "{variant}");
    }
}

#[test]
fn nothing_is_read_beyond_what_is_durable() {
    for (variant, bytes) in SEGMENTS {
        let segment = Segment::parse(bytes).unwrap();
        let mut all = segment.records(Options::default());
        let mut ends = Vec::new();
        while let Some(record) = all.next_record() {
            ends.push(record.unwrap().end);
        }
        assert!(matches!(all.end(), Some(End::Unwritten | End::File)), "{variant}");
        let bound = ends[ends.len() / 2];
        let mut some = segment.records(Options { until: Some(bound), ..Options::default() });
        let mut last = 0;
        while let Some(record) = some.next_record() {
            last = record.unwrap().end;
        }
        assert!(last <= bound, "{variant}");
        assert_eq!(some.end(), Some(End::Bound), "{variant}");
    }
}

#[test]
fn an_unknown_table_is_named_and_what_comes_before_it_can_be_had() {
    let (payloads, _) = payloads(crate::fixtures::PLAIN, Options::default());
    let empty = helenus_cql::schema::Catalog::default();
    for payload in &payloads {
        let error = helenus_commitlog::mutation::decode(payload, Version::V7, &empty).unwrap_err();
        assert!(error.to_string().contains("is not in the schema"), "{error}");
        assert_eq!(error.offset, 1);
        assert!(error.table.is_some());
    }
    // A schema change writes to several tables; here only the first is known.
    let several = payloads.iter().find(|payload| payload[0] > 1).unwrap();
    let updates =
        helenus_commitlog::mutation::Updates::new(several, Version::V7, &*CATALOG).unwrap();
    let tables: Vec<_> = updates.map(|update| update.unwrap().table.clone()).collect();
    let known = helenus_cql::schema::Catalog::new([tables[0].clone()]);
    let mut updates =
        helenus_commitlog::mutation::Updates::new(several, Version::V7, &known).unwrap();
    assert!(updates.next().unwrap().is_ok());
    assert_eq!(updates.next().unwrap().unwrap_err().table, Some(tables[1].id));
    assert!(updates.next().is_none());
}
