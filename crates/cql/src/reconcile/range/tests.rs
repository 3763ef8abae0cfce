//! The flattened ranges against a model that asks every range for every row.

use proptest::prelude::*;

use super::*;
use crate::datatype::CqlType;
use crate::schema::{Column, ColumnKind, Table, TableId};
use crate::update::{Bound, Seconds, Side, Timestamp};

fn column(name: &str, kind: ColumnKind, descending: bool) -> Column {
    Column { descending, ..Column::new(name, name.as_bytes(), kind, CqlType::TinyInt) }
}

/// Two clustering columns, the second one descending.
fn table() -> Table {
    let columns = vec![
        column("id", ColumnKind::PartitionKey, false),
        column("a", ColumnKind::Clustering, false),
        column("b", ColumnKind::Clustering, true),
    ];
    Table::new(TableId(uuid::Uuid::nil()), "ks", "t", columns)
}

type Sample = ((Vec<u8>, bool), (Vec<u8>, bool), (i64, i64));

fn sample() -> impl Strategy<Value = Sample> {
    let prefix = || (proptest::collection::vec(0u8..4, 0..=2), any::<bool>());
    (prefix(), prefix(), (0i64..4, 0i64..2))
}

fn cut(table: &Table, (values, after): &(Vec<u8>, bool)) -> Cut {
    let values: Vec<_> = values.iter().map(|value| Some(std::slice::from_ref(value))).collect();
    let side = if *after { Side::After } else { Side::Before };
    Cut::new(table, &Bound { values, side }).unwrap()
}

fn deletion((timestamp, at): (i64, i64)) -> Deletion {
    Deletion { timestamp: Timestamp(timestamp), at: Seconds(at) }
}

fn fold(table: &Table, samples: &[Sample]) -> Ranges {
    let mut ranges = Ranges::default();
    for (start, end, strength) in samples {
        ranges.add(cut(table, start), cut(table, end), deletion(*strength));
    }
    ranges
}

proptest! {
    #[test]
    fn every_row_is_covered_by_the_strongest(samples in proptest::collection::vec(sample(), 0..8)) {
        let table = table();
        let ranges = fold(&table, &samples);
        for a in 0..4u8 {
            for b in 0..4u8 {
                let row = ClusteringKey::new(&table, &[Some(&[a]), Some(&[b])]).unwrap();
                let inside = |(start, end, _): &&Sample| {
                    cut(&table, start).compare_row(&row).is_lt()
                        && cut(&table, end).compare_row(&row).is_gt()
                };
                let strongest = samples.iter().filter(inside).map(|range| deletion(range.2)).max();
                prop_assert_eq!(ranges.covering(&row), strongest);
            }
        }
    }

    #[test]
    fn any_order_and_any_repetition_give_the_same_form(
        samples in proptest::collection::vec(sample(), 0..8),
        split in 0usize..8,
    ) {
        let table = table();
        let whole = fold(&table, &samples);
        let (first, second) = samples.split_at(split.min(samples.len()));
        let mut merged = fold(&table, second);
        merged.merge(fold(&table, first));
        prop_assert_eq!(&merged, &whole);
        merged.merge(whole.clone());
        prop_assert_eq!(&merged, &whole);
        let reversed: Vec<_> = samples.iter().rev().cloned().collect();
        prop_assert_eq!(fold(&table, &reversed), whole);
    }

    #[test]
    fn ranges_stay_in_order_and_apart(samples in proptest::collection::vec(sample(), 0..8)) {
        let ranges = fold(&table(), &samples).ranges;
        prop_assert!(ranges.iter().all(|range| range.start < range.end));
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start
            || pair[0].end == pair[1].start && pair[0].deletion != pair[1].deletion));
    }
}
