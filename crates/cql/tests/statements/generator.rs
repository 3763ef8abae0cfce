//! Makes statements of which the tables are known.
//!
//! The statements are ones that Cassandra 5.0 can parse; types and columns make no sense. Names are
//! chosen to be confused: columns, fields, functions, keyspaces and markers are called like tables,
//! and like every keyword that is not reserved.

use helenus_cql::parser::Operation;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::spelling::Piece;

type Pieces = Vec<Piece>;

/// Names that could be taken for something else.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "features", "features_v7", "t", "k", "v", "a1", "p1d", "pt", "abcdefab", "e5", "x", "shop",
    "key", "json", "distinct", "as", "ttl", "writetime", "count", "cast", "group", "per",
    "partition", "contains", "like", "filtering", "values", "exists", "timestamp", "type", "int",
    "from", "select", "table", "Features", "say \"from t\"",
];

/// Literals of every sort, with other things' names inside.
#[rustfmt::skip]
const LITERALS: &[&str] = &[
    "0", "42", "1.5", "1e10", "2.5E-3", "0x", "0xCAFE", "1h30m", "P1Y2MT3S", "PT5M", "P2W",
    "P0001-02-03T04:05:06", "123e4567-e89b-12d3-a456-426614174000",
    "abcdefab-cdef-abcd-efab-cdefabcdefab", "''", "'FROM features'", "'it''s'", "'-- x'", "'/* '",
    "$$FROM features; '$$", "?", "'größer'",
];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(NAMES).prop_map(str::to_owned),
        2 => "[a-z][a-z0-9_]{0,8}",
        1 => "[a-zA-Z \"'$./äß€-]{1,6}",
    ]
}

/// Names for what stands alone before an operator, where `json` and its like are modifiers.
fn plain_name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_]{0,3}_c"
}

fn word(name: String) -> Pieces {
    vec![Piece::Name(name)]
}

/// Pieces from a template: `_` stands for the next of `parts`, words in capitals are keywords.
fn fill(template: &'static str, parts: Vec<Pieces>) -> Pieces {
    let mut parts = parts.into_iter();
    let mut pieces = Vec::new();
    for token in template.split_ascii_whitespace() {
        if token == "_" {
            pieces.extend(parts.next().expect("a part for every blank"));
        } else if token.starts_with(|c: char| c.is_ascii_uppercase()) {
            pieces.push(Piece::Keyword(token));
        } else {
            pieces.push(Piece::Exact(token.to_owned()));
        }
    }
    assert!(parts.next().is_none(), "a blank for every part of {template}");
    pieces
}

fn separated(items: Vec<Pieces>, separator: &Piece) -> Pieces {
    items.join(separator)
}

fn commas(items: Vec<Pieces>) -> Pieces {
    separated(items, &Piece::Exact(",".to_owned()))
}

fn list_of(
    item: impl Strategy<Value = Pieces>,
    sizes: std::ops::Range<usize>,
) -> impl Strategy<Value = Pieces> {
    vec(item, sizes).prop_map(commas)
}

fn optionally(clause: impl Strategy<Value = Pieces>) -> impl Strategy<Value = Pieces> {
    proptest::option::of(clause).prop_map(Option::unwrap_or_default)
}

fn table(operation: Operation) -> impl Strategy<Value = Pieces> {
    (proptest::option::of(name()), name())
        .prop_map(move |(keyspace, table)| vec![Piece::Table { keyspace, table, operation }])
}

fn literal() -> impl Strategy<Value = Pieces> {
    let fixed = select(LITERALS);
    prop_oneof![
        4 => fixed.prop_map(|text| vec![Piece::Exact(text.to_owned())]),
        1 => select(&["NULL", "TRUE", "FALSE", "NAN", "INFINITY"][..])
            .prop_map(|word| vec![Piece::Keyword(word)]),
        1 => any::<u32>().prop_map(|number| vec![Piece::Exact(number.to_string())]),
        1 => "[a-z\"$;? -]{0,8}".prop_map(|text| vec![Piece::Exact(format!("'{text}'"))]),
        2 => name().prop_map(|name| vec![Piece::Exact(":".to_owned()), Piece::Name(name)]),
    ]
}

fn native_type() -> impl Strategy<Value = Pieces> {
    select(&["INT", "TEXT", "TIMEUUID"][..]).prop_map(|word| vec![Piece::Keyword(word)])
}

fn type_name() -> impl Strategy<Value = Pieces> {
    native_type().prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|item| fill("LIST < _ >", vec![item])),
            inner.clone().prop_map(|item| fill("FROZEN < SET < _ > >", vec![item])),
            inner.clone().prop_map(|item| fill("VECTOR < _ , 3 >", vec![item])),
            (inner.clone(), inner).prop_map(|(key, item)| fill("MAP < _ , _ >", vec![key, item])),
        ]
    })
}

/// What may stand for a value.
fn term() -> impl Strategy<Value = Pieces> {
    literal().prop_recursive(3, 12, 3, |inner| {
        let pair = (inner.clone(), inner.clone()).prop_map(|(k, v)| fill("_ : _", vec![k, v]));
        let field = (name(), inner.clone()).prop_map(|(f, v)| fill("_ : _", vec![word(f), v]));
        prop_oneof![
            list_of(inner.clone(), 0..3).prop_map(|items| fill("[ _ ]", vec![items])),
            list_of(inner.clone(), 0..3).prop_map(|items| fill("{ _ }", vec![items])),
            list_of(pair, 1..3).prop_map(|items| fill("{ _ }", vec![items])),
            list_of(field, 1..3).prop_map(|items| fill("{ _ }", vec![items])),
            list_of(inner.clone(), 2..4).prop_map(|items| fill("( _ )", vec![items])),
            (plain_name(), list_of(inner.clone(), 0..3))
                .prop_map(|(function, items)| fill("_ ( _ )", vec![word(function), items])),
            (type_name(), literal()).prop_map(|(of, value)| fill("( _ ) _", vec![of, value])),
            (inner.clone(), select(&["_ + _", "_ - _", "_ * _", "_ / _", "_ % _"][..]), inner)
                .prop_map(|(left, operator, right)| fill(operator, vec![left, right])),
        ]
    })
}

fn selector() -> impl Strategy<Value = Pieces> {
    let leaf = prop_oneof![
        3 => name().prop_map(word),
        1 => (plain_name(), literal()).prop_map(|(m, k)| fill("_ [ _ ]", vec![word(m), k])),
        1 => (plain_name(), literal()).prop_map(|(m, k)| fill("_ [ _ .. ]", vec![word(m), k])),
        1 => (plain_name(), name()).prop_map(|(u, f)| fill("_ . _", vec![word(u), word(f)])),
        1 => name().prop_map(|column| fill("WRITETIME ( _ )", vec![word(column)])),
        1 => (plain_name(), name())
            .prop_map(|(u, f)| fill("TTL ( _ . _ )", vec![word(u), word(f)])),
        1 => Just(fill("COUNT ( * )", vec![])),
        1 => (name(), native_type()).prop_map(|(c, of)| fill("CAST ( _ AS _ )", vec![word(c), of])),
        1 => list_of(plain_name().prop_map(word), 1..3)
            .prop_map(|columns| fill("TOKEN ( _ )", vec![columns])),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (plain_name(), list_of(inner.clone(), 1..3))
                .prop_map(|(function, items)| fill("_ ( _ )", vec![word(function), items])),
            (plain_name(), plain_name(), inner.clone())
                .prop_map(|(ks, f, item)| fill("_ . _ ( _ )", vec![word(ks), word(f), item])),
            (inner, literal()).prop_map(|(left, right)| fill("_ + _", vec![left, right])),
        ]
    })
}

fn selection() -> impl Strategy<Value = Pieces> {
    let aliased = (selector(), optionally(name().prop_map(|a| fill("AS _", vec![word(a)]))))
        .prop_map(|(selector, alias)| [selector, alias].concat());
    prop_oneof![
        1 => Just(fill("*", vec![])),
        1 => Just(fill("JSON *", vec![])),
        1 => list_of(plain_name().prop_map(word), 1..3)
            .prop_map(|columns| fill("JSON DISTINCT _", vec![columns])),
        6 => list_of(aliased, 1..4),
    ]
}

fn relation() -> impl Strategy<Value = Pieces> {
    let operator = select(
        &["_ = _", "_ < _", "_ >= _", "_ != _", "_ LIKE _", "_ CONTAINS _", "_ CONTAINS KEY _"][..],
    );
    let column = || plain_name().prop_map(word);
    prop_oneof![
        4 => (name(), operator, term()).prop_map(|(c, op, value)| fill(op, vec![word(c), value])),
        1 => (column(), list_of(term(), 0..3)).prop_map(|(c, items)| fill("_ IN ( _ )", vec![c, items])),
        1 => column().prop_map(|c| fill("_ IN ?", vec![c])),
        1 => column().prop_map(|c| fill("_ IS NOT NULL", vec![c])),
        1 => (column(), literal(), term()).prop_map(|(m, k, v)| fill("_ [ _ ] = _", vec![m, k, v])),
        1 => (list_of(column(), 1..3), list_of(literal(), 1..3))
            .prop_map(|(columns, values)| fill("TOKEN ( _ ) > TOKEN ( _ )", vec![columns, values])),
        1 => (list_of(column(), 2..4), list_of(literal(), 2..4))
            .prop_map(|(columns, values)| fill("( _ ) >= ( _ )", vec![columns, values])),
        1 => list_of(column(), 2..4)
            .prop_map(|columns| fill("( _ ) IN ( ( 1 , 2 ) , ( ? , ? ) )", vec![columns])),
    ]
}

fn relations() -> impl Strategy<Value = Pieces> {
    vec(relation(), 1..4).prop_map(|items| separated(items, &Piece::Keyword("AND")))
}

fn conditions() -> impl Strategy<Value = Pieces> {
    let condition =
        (plain_name(), select(&["_ = _", "_ != _", "_ [ 1 ] < _", "_ IN ( _ )"][..]), literal())
            .prop_map(|(column, operator, value)| fill(operator, vec![word(column), value]));
    prop_oneof![
        Just(fill("IF EXISTS", vec![])),
        vec(condition, 1..3)
            .prop_map(|items| fill("IF _", vec![separated(items, &Piece::Keyword("AND"))])),
    ]
}

fn tail() -> impl Strategy<Value = Pieces> {
    (
        optionally(relations().prop_map(|all| fill("WHERE _", vec![all]))),
        optionally(
            list_of(plain_name().prop_map(word), 1..3).prop_map(|c| fill("GROUP BY _", vec![c])),
        ),
        optionally(prop_oneof![
            (plain_name(), plain_name())
                .prop_map(|(a, b)| fill("ORDER BY _ DESC , _", vec![word(a), word(b)])),
            plain_name().prop_map(|v| fill("ORDER BY _ ANN OF [ 1.5 , 2 ]", vec![word(v)])),
        ]),
        optionally(Just(fill("PER PARTITION LIMIT ?", vec![]))),
        optionally(Just(fill("LIMIT 10", vec![]))),
        optionally(Just(fill("ALLOW FILTERING", vec![]))),
    )
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].concat())
}

fn select_statement() -> impl Strategy<Value = Pieces> {
    (selection(), table(Operation::Select), tail()).prop_map(|(selection, table, tail)| {
        fill("SELECT _ FROM _ _", vec![selection, table, tail])
    })
}

fn using() -> impl Strategy<Value = Pieces> {
    select(&["USING TTL ?", "USING TIMESTAMP 5 AND TTL 10"][..]).prop_map(|t| fill(t, vec![]))
}

fn insert() -> impl Strategy<Value = Pieces> {
    let row = (list_of(name().prop_map(word), 1..4), list_of(term(), 1..4))
        .prop_map(|(columns, values)| fill("( _ ) VALUES ( _ )", vec![columns, values]));
    let json = select(&["JSON ?", "JSON '{}' DEFAULT UNSET", "JSON ? DEFAULT NULL"][..])
        .prop_map(|template| fill(template, vec![]));
    let condition = Just(fill("IF NOT EXISTS", vec![]));
    (
        table(Operation::Insert),
        prop_oneof![3 => row, 1 => json],
        optionally(condition),
        optionally(using()),
    )
        .prop_map(|(table, values, condition, using)| {
            fill("INSERT INTO _ _ _ _", vec![table, values, condition, using])
        })
}

fn update() -> impl Strategy<Value = Pieces> {
    let assignment = (
        plain_name(),
        select(&["_ = _", "_ += _", "_ -= _", "_ [ 0 ] = _", "_ . field = _"][..]),
        term(),
    )
        .prop_map(|(column, assign, value)| fill(assign, vec![word(column), value]));
    (
        table(Operation::Update),
        optionally(using()),
        list_of(assignment, 1..4),
        relations(),
        optionally(conditions()),
    )
        .prop_map(|(table, using, set, all, condition)| {
            fill("UPDATE _ _ SET _ WHERE _ _", vec![table, using, set, all, condition])
        })
}

fn delete() -> impl Strategy<Value = Pieces> {
    let column = (name(), select(&["_", "_ [ 'k' ]", "_ . field"][..]))
        .prop_map(|(column, part)| fill(part, vec![word(column)]));
    (list_of(column, 0..3), table(Operation::Delete), relations(), optionally(conditions()))
        .prop_map(|(columns, table, all, condition)| {
            fill("DELETE _ FROM _ WHERE _ _", vec![columns, table, all, condition])
        })
}

fn batch() -> impl Strategy<Value = Pieces> {
    let statement = (prop_oneof![insert(), update(), delete()], select(&["_ ;", "_"][..]))
        .prop_map(|(statement, end)| fill(end, vec![statement]));
    let begin = select(
        &[
            "BEGIN BATCH _ APPLY BATCH",
            "BEGIN UNLOGGED BATCH _ APPLY BATCH",
            "BEGIN COUNTER BATCH USING TIMESTAMP 1 _ APPLY BATCH",
        ][..],
    );
    (begin, vec(statement, 0..4)).prop_map(|(begin, all)| fill(begin, vec![all.concat()]))
}

fn schema() -> impl Strategy<Value = Pieces> {
    let one = |operation, template: &'static str| {
        table(operation).prop_map(move |table| fill(template, vec![table])).boxed()
    };
    prop_oneof![
        one(Operation::Truncate, "TRUNCATE _"),
        one(Operation::Truncate, "TRUNCATE TABLE _"),
        one(Operation::CreateTable, "CREATE TABLE IF NOT EXISTS _ ( features INT PRIMARY KEY )"),
        one(Operation::AlterTable, "ALTER TABLE _ ADD features INT"),
        one(Operation::DropTable, "DROP TABLE IF EXISTS _"),
        one(Operation::CreateIndex, "CREATE INDEX features ON _ ( features )"),
        one(Operation::Grant, "GRANT SELECT ON TABLE _ TO features"),
        one(Operation::Describe, "DESCRIBE TABLE _ WITH INTERNALS"),
        name().prop_map(|keyspace| fill("USE _", vec![word(keyspace)])),
    ]
}

/// Any statement, with semicolons after it or not.
pub(crate) fn statement() -> impl Strategy<Value = Pieces> {
    let any = prop_oneof![
        6 => select_statement(),
        1 => insert(),
        1 => update(),
        1 => delete(),
        1 => batch(),
        1 => schema(),
    ];
    (any, select(&["_", "_ ;", "_ ; ;"][..])).prop_map(|(all, end)| fill(end, vec![all]))
}
