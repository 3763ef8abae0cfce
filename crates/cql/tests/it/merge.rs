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
        is_a_join([a, b, c], counters)?;
    }

    /// Deletions of a collection and of its row meet the cells they cover in every order here.
    #[test]
    fn merging_is_a_join_where_much_was_written_to_one_row(
        a in vec(write(), 0..5),
        b in vec(write(), 0..5),
        c in vec(write(), 0..5),
        counters in any::<bool>(),
    ) {
        let on_one_row =
            |all: Vec<Write>| all.into_iter().map(Write::on_one_row).collect::<Vec<_>>();
        is_a_join([a, b, c].map(on_one_row), counters)?;
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
        counters in any::<bool>(),
    ) {
        compacting_keeps_what_is_said(&writes, &later, counters)?;
    }

    /// Deletions of a counter, of its row, of a range and of the partition meet here in every case.
    #[test]
    fn compacting_changes_no_row_that_much_was_written_to(
        writes in vec(write(), 0..8),
        later in vec(write(), 0..4),
        counters in any::<bool>(),
    ) {
        let [writes, later] =
            [writes, later].map(|all| all.into_iter().map(Write::on_one_row).collect::<Vec<_>>());
        compacting_keeps_what_is_said(&writes, &later, counters)?;
    }
}

fn is_a_join(writes: [Vec<Write>; 3], counters: bool) -> Result<(), TestCaseError> {
    let catalog = catalog();
    let table = catalog.by_name("ks", if counters { "k" } else { "t" }).expect("both are there");
    let [a, b, c] = writes.map(|writes| fold(table, &writes));
    prop_assert_eq!(merged(&a, &b), merged(&b, &a));
    prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
    prop_assert_eq!(&merged(&a, &a), &a);
    let both = merged(&a, &b);
    prop_assert_eq!(&merged(&both, &a), &both);
    Ok(())
}

/// The rows are the same before and after, and also if more is merged into both, or both into it.
fn compacting_keeps_what_is_said(
    writes: &[Write],
    later: &[Write],
    counters: bool,
) -> Result<(), TestCaseError> {
    let catalog = catalog();
    let table = catalog.by_name("ks", if counters { "k" } else { "t" }).expect("both are there");
    let (state, later) = (fold(table, writes), fold(table, later));
    let mut compacted = state.clone();
    compacted.compact();
    let (mut left, mut right) = (merged(&state, &later), merged(&compacted, &later));
    let turned = merged(&later, &compacted);
    for now in [-1, 5, 10, 100] {
        prop_assert_eq!(rows(table, &compacted, now), rows(table, &state, now));
        prop_assert_eq!(rows(table, &right, now), rows(table, &left, now));
        prop_assert_eq!(rows(table, &turned, now), rows(table, &left, now));
    }
    left.compact();
    right.compact();
    prop_assert_eq!(left, right);
    Ok(())
}
