//! Any order, any grouping, any repetition: the same state, and the same rows at every moment.

use helenus_cql::reconcile::TableState;
use helenus_cql::schema::Table;
use helenus_cql::update::Seconds;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::history::{Write, catalog, write};

fn fold(table: &Table, writes: &[Write]) -> TableState {
    let mut state = TableState::default();
    for write in writes {
        state.apply(&write.on(table)).expect("a valid write");
    }
    state
}

fn merged(left: &TableState, right: &TableState) -> TableState {
    let mut merged = left.clone();
    merged.merge(right.clone());
    merged
}

fn rows(table: &Table, state: &TableState, now: i64) -> Vec<String> {
    state.select(table, Seconds(now)).map(|row| row.expect("a row")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn merging_is_a_join(
        a in vec(write(), 0..5),
        b in vec(write(), 0..5),
        c in vec(write(), 0..5),
        counters in any::<bool>(),
    ) {
        let catalog = catalog();
        let table = catalog.by_name("ks", if counters { "k" } else { "t" }).unwrap();
        let [a, b, c] = [a, b, c].map(|writes| fold(table, &writes));
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(&merged(&a, &a), &a);
        let both = merged(&a, &b);
        prop_assert_eq!(&merged(&both, &a), &both);
    }

    #[test]
    fn writes_in_any_order_and_twice_give_the_same_rows(
        writes in vec(write(), 0..8),
        turn in 0usize..8,
        counters in any::<bool>(),
    ) {
        let catalog = catalog();
        let table = catalog.by_name("ks", if counters { "k" } else { "t" }).unwrap();
        let state = fold(table, &writes);
        let mut shuffled: Vec<Write> = writes.iter().rev().cloned().collect();
        shuffled.rotate_left(turn.min(writes.len()));
        shuffled.extend(writes);
        let other = fold(table, &shuffled);
        prop_assert_eq!(&other, &state);
        for now in [-1, 5, 10, 100] {
            prop_assert_eq!(rows(table, &other, now), rows(table, &state, now));
        }
    }

    #[test]
    fn compacting_changes_no_row_and_forgets_no_deletion(
        writes in vec(write(), 0..8),
        later in vec(write(), 0..3),
    ) {
        let catalog = catalog();
        let table = catalog.by_name("ks", "t").unwrap();
        let state = fold(table, &writes);
        let mut compacted = state.clone();
        compacted.compact();
        prop_assert_eq!(rows(table, &compacted, 5), rows(table, &state, 5));
        let later = fold(table, &later);
        let (mut left, mut right) = (merged(&state, &later), merged(&compacted, &later));
        prop_assert_eq!(rows(table, &left, 5), rows(table, &right, 5));
        left.compact();
        right.compact();
        prop_assert_eq!(left, right);
    }
}
