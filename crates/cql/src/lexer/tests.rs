//! What each spelling becomes, one row per token.

use std::fmt::Write;

use expect_test::{Expect, expect};

use super::{Lexer, TokenKind};

fn check(text: &str, expect: Expect) {
    let mut rows = String::new();
    for token in Lexer::new(text) {
        if token.kind != TokenKind::Whitespace {
            writeln!(rows, "{:?} {:?} {:?}", token.span(), token.kind, token.text).unwrap();
        }
    }
    expect.assert_eq(&rows);
}

#[test]
fn comments() {
    check(
        "a--b\nc//d\re/* f\n-- */g",
        expect![[r#"
        0..1 Word "a"
        1..4 LineComment "--b"
        5..6 Word "c"
        6..9 LineComment "//d"
        10..11 Word "e"
        11..21 BlockComment "/* f\n-- */"
        21..22 Word "g"
    "#]],
    );
    check(
        "/**/ /***/ /*/*/ -- at the end",
        expect![[r#"
        0..4 BlockComment "/**/"
        5..10 BlockComment "/***/"
        11..16 BlockComment "/*/*/"
        17..30 LineComment "-- at the end"
    "#]],
    );
    check(
        "a /* open",
        expect![[r#"
        0..1 Word "a"
        2..9 Unterminated(Comment) "/* open"
    "#]],
    );
}

#[test]
fn strings_and_names() {
    check(
        "'it''s' '' '''' \"a\"\"b\" \"\" \"größer\"'é'",
        expect![[r#"
        0..7 String "'it''s'"
        8..10 String "''"
        11..15 String "''''"
        16..22 QuotedName "\"a\"\"b\""
        23..25 QuotedName "\"\""
        26..36 QuotedName "\"größer\""
        36..40 String "'é'"
    "#]],
    );
    check(
        "$$it's $1$$ $$$$ $$a$b$$$ $",
        expect![[r#"
        0..11 DollarString "$$it's $1$$"
        12..16 DollarString "$$$$"
        17..24 DollarString "$$a$b$$"
        24..25 Unknown "$"
        26..27 Unknown "$"
    "#]],
    );
    check(
        "'a\\'",
        expect![[r#"
        0..4 String "'a\\'"
    "#]],
    );
    check(
        "'open",
        expect![[r#"
        0..5 Unterminated(String) "'open"
    "#]],
    );
    check(
        "\"open\"\"",
        expect![[r#"
        0..7 Unterminated(QuotedName) "\"open\"\""
    "#]],
    );
    check(
        "$$open$",
        expect![[r#"
        0..7 Unterminated(DollarString) "$$open$"
    "#]],
    );
}

#[test]
fn numbers() {
    check(
        "0 12 1.5 1. .5 1e5 1.5E-10 1e 1e+ 2e+3",
        expect![[r#"
        0..1 Integer "0"
        2..4 Integer "12"
        5..8 Float "1.5"
        9..11 Float "1."
        12..13 Dot "."
        13..14 Integer "5"
        15..18 Float "1e5"
        19..26 Float "1.5E-10"
        27..28 Integer "1"
        28..29 Word "e"
        30..31 Integer "1"
        31..32 Word "e"
        32..33 Plus "+"
        34..38 Float "2e+3"
    "#]],
    );
    check(
        "0x 0xCAFE 0Xab 0xg",
        expect![[r#"
        0..2 Blob "0x"
        3..9 Blob "0xCAFE"
        10..14 Blob "0Xab"
        15..17 Blob "0x"
        17..18 Word "g"
    "#]],
    );
    check(
        "1..2 1...2 1.0..2. a[..3]",
        expect![[r#"
        0..1 Integer "1"
        1..3 Range ".."
        3..4 Integer "2"
        5..7 Float "1."
        7..9 Range ".."
        9..10 Integer "2"
        11..14 Float "1.0"
        14..16 Range ".."
        16..18 Float "2."
        19..20 Word "a"
        20..21 LeftBracket "["
        21..23 Range ".."
        23..24 Integer "3"
        24..25 RightBracket "]"
    "#]],
    );
    check(
        "-1 - 1 NaN -Infinity",
        expect![[r#"
        0..1 Minus "-"
        1..2 Integer "1"
        3..4 Minus "-"
        5..6 Integer "1"
        7..10 Word "NaN"
        11..12 Minus "-"
        12..20 Word "Infinity"
    "#]],
    );
}

#[test]
fn uuids() {
    check(
        "123e4567-e89b-12d3-a456-426614174000 abcdefab-cdef-ABCD-efab-cdefabcdefab",
        expect![[r#"
            0..36 Uuid "123e4567-e89b-12d3-a456-426614174000"
            37..73 Uuid "abcdefab-cdef-ABCD-efab-cdefabcdefab"
        "#]],
    );
    check(
        "abcdefab-cdef-abcd-efab-cdefabcdefa abcdefab-1",
        expect![[r#"
        0..8 Word "abcdefab"
        8..9 Minus "-"
        9..13 Word "cdef"
        13..14 Minus "-"
        14..18 Word "abcd"
        18..19 Minus "-"
        19..23 Word "efab"
        23..24 Minus "-"
        24..35 Word "cdefabcdefa"
        36..44 Word "abcdefab"
        44..45 Minus "-"
        45..46 Integer "1"
    "#]],
    );
    check(
        "abcdefab abcdefab_c g23e4567-e89b-12d3-a456-426614174000",
        expect![[r#"
        0..8 Word "abcdefab"
        9..19 Word "abcdefab_c"
        20..28 Word "g23e4567"
        28..29 Minus "-"
        29..33 Word "e89b"
        33..34 Minus "-"
        34..37 Duration "12d"
        37..38 Integer "3"
        38..39 Minus "-"
        39..43 Word "a456"
        43..44 Minus "-"
        44..56 Integer "426614174000"
    "#]],
    );
}

#[test]
fn durations() {
    check(
        "1h30m 2mo3d 5us 5µs 1y2mo3w4d5h6m7s8ms9us10ns 1h30 1X",
        expect![[r#"
        0..5 Duration "1h30m"
        6..11 Duration "2mo3d"
        12..15 Duration "5us"
        16..20 Duration "5µs"
        21..46 Duration "1y2mo3w4d5h6m7s8ms9us10ns"
        47..49 Duration "1h"
        49..51 Integer "30"
        52..53 Integer "1"
        53..54 Word "X"
    "#]],
    );
    check(
        "P1Y2M3DT4H5M6S PT1S P3W P1YT P0001-02-03T04:05:06",
        expect![[r#"
        0..14 Duration "P1Y2M3DT4H5M6S"
        15..19 Duration "PT1S"
        20..23 Duration "P3W"
        24..28 Duration "P1YT"
        29..49 Duration "P0001-02-03T04:05:06"
    "#]],
    );
    check(
        "P PT p1y Pt1s P1Day P1D2Y P1DX PT1D P1WT POINTS",
        expect![[r#"
        0..1 Word "P"
        2..4 Word "PT"
        5..8 Word "p1y"
        9..13 Word "Pt1s"
        14..19 Word "P1Day"
        20..25 Word "P1D2Y"
        26..30 Word "P1DX"
        31..35 Word "PT1D"
        36..40 Word "P1WT"
        41..47 Word "POINTS"
    "#]],
    );
}

#[test]
fn symbols() {
    check(
        "?:;,.()[]{}+-*/%=!=<<=>>=+=-=..",
        expect![[r#"
        0..1 Question "?"
        1..2 Colon ":"
        2..3 Semicolon ";"
        3..4 Comma ","
        4..5 Dot "."
        5..6 LeftParen "("
        6..7 RightParen ")"
        7..8 LeftBracket "["
        8..9 RightBracket "]"
        9..10 LeftBrace "{"
        10..11 RightBrace "}"
        11..12 Plus "+"
        12..13 Minus "-"
        13..14 Star "*"
        14..15 Slash "/"
        15..16 Percent "%"
        16..17 Equal "="
        17..19 NotEqual "!="
        19..20 Less "<"
        20..22 LessEqual "<="
        22..23 Greater ">"
        23..25 GreaterEqual ">="
        25..27 PlusEqual "+="
        27..29 MinusEqual "-="
        29..31 Range ".."
    "#]],
    );
    check(
        ":name : \"Name\" :?",
        expect![[r#"
        0..1 Colon ":"
        1..5 Word "name"
        6..7 Colon ":"
        8..14 QuotedName "\"Name\""
        15..16 Colon ":"
        16..17 Question "?"
    "#]],
    );
    check(
        "_a @ ! é\u{a0}a\u{0}",
        expect![[r#"
        0..1 Unknown "_"
        1..2 Word "a"
        3..4 Unknown "@"
        5..6 Unknown "!"
        7..9 Unknown "é"
        9..11 Unknown "\u{a0}"
        11..12 Word "a"
        12..13 Unknown "\0"
    "#]],
    );
}
