//! Tests of reading simple commands.

use bailiwick_testkit::random::Random;
use brush_parser::{parse_tokens, uncached_tokenize_str};

use super::*;
use crate::shell::parse;

/// The syntax tree of brush-parser, without source positions.
fn parsed(text: &str) -> Option<String> {
    let options = parse::options();
    let text = format!("{text}\n\n");
    let parse = || {
        let tokens = uncached_tokenize_str(&text, &options.tokenizer_options()).ok()?;
        parse_tokens(&tokens, &options).ok()
    };
    let tree = std::panic::catch_unwind(parse).ok().flatten()?;
    Some(without_places(&format!("{tree:?}")))
}

fn without_places(tree: &str) -> String {
    let mut bare = String::new();
    let mut remaining = tree;
    while let Some((before, behind)) = remaining.split_once("loc: ") {
        bare.push_str(before);
        let places = ["index: ", "line: ", "column: "];
        // Two positions of three numbers, or none.
        let positions = if behind.starts_with("None") { 0 } else { 2 };
        remaining = behind;
        for place in std::iter::repeat_n(places, positions).flatten() {
            remaining = remaining.split_once(place).unwrap().1;
        }
        remaining =
            remaining.trim_start_matches(|c: char| c.is_alphanumeric() || " })".contains(c));
    }
    bare + remaining
}

/// Whether a text is read, with the same result as brush-parser.
fn agrees(text: &str) -> bool {
    let Some(tree) = program(text) else { return false };
    let tree = without_places(&format!("{tree:?}"));
    assert_eq!(Some(tree), parsed(text), "{text:?}");
    true
}

#[test]
fn simple_commands_are_read_like_by_the_parser() {
    for text in [
        "",
        "\n\n# nothing\n",
        "cargo test -p model 2>&1 && cargo check --lib || cargo doc\nls",
        "A=1 B+='x y' >out 2>>err <in make CC=gcc -j4 -- a=b --x=y",
        "A=1",
        "> file",
        "a | b |\n c &&\n\n d & e; f &\ng;",
        "cat <>a 3<&0 4>&- >|b &>c &>>d >&e 2>1",
        "echo \"$a ${b}c $ \\\" \\$(\" 'it''s' \\; \\# a#b $1$? $\"x\" ü",
        "echo if then { } ! [[ time; x=if y+=1 z",
        "echo a;# b\nc",
        "a 2 >b 2&>c x2>d",
        "a+b=c a++=b 1a=b =c a=b[1]=c ü=1",
    ] {
        assert!(agrees(text), "{text:?} is left to the parser");
    }
}

#[test]
fn other_commands_are_left_to_the_parser() {
    for text in [
        "if a; then b; fi",
        "! a",
        "time a",
        "A=1 if",
        "(a)",
        "f() { a; }",
        "{ a; }",
        "a $(b)",
        "a \"$(b)\"",
        "a `b`",
        "a \"`b`\"",
        "a $'b'",
        "a \\$'b'",
        "a $((1))",
        "a $[1]",
        "a ${b:-c}",
        "a <<E\nE",
        "a <<< b",
        "a <(b)",
        "a |& b",
        "a[0]=1",
        "a=(b)",
        "a;;",
        "a && ",
        "| a",
        "a ; ; b",
        "a >",
        "a >2>b",
        "a 'b",
        "a \"b",
        "a \\",
        "a 99999999999>b",
    ] {
        assert!(program(text).is_none(), "{text:?}");
    }
}

#[test]
fn random_texts_are_read_like_by_the_parser() {
    const PIECES: &str = concat!(
        "a·bc·cargo·git·-x·--y=z·A=1·b+=2·c[1]=d·=·1·22·=e· · · · ·  ·\t·\n·\n·;·&·&&·||·",
        "|·|&·;;·<·>·>>·>&·<&·<>·>|·&>·&>>·<<·<<<·2>&1· >f·'·\"·'x y'·\"p $q\"·",
        "\"r\\\"s\"·\\·\\;·$·$t·${u}·${v·$(·$((·`·#·# w·(·)·{·}·if·!·ü",
    );
    let pieces: Vec<&str> = PIECES.split('·').collect();
    let mut random = Random::rotating("simple commands");
    let mut read = 0;
    for _ in 0..20_000 {
        let length = 1 + random.below(12);
        let text: String = (0..length).map(|_| pieces[random.below(pieces.len())]).collect();
        read += usize::from(agrees(&text));
    }
    assert!(read > 2_000, "too few texts were read: {read}");
}
