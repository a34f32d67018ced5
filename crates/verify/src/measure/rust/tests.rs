//! Generated sources with known lengths, and sources that could overflow the parser.

use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;

use super::*;

fn measured(text: &str) -> Vec<(String, usize, usize, usize)> {
    let functions = measure(text).unwrap_or_else(|why| panic!("{why}\n{text}")).functions;
    functions
        .into_iter()
        .map(|function| (function.path, function.line, function.lines, function.parameters))
        .collect()
}

fn row(path: &str, line: usize, lines: usize, parameters: usize) -> (String, usize, usize, usize) {
    (path.to_owned(), line, lines, parameters)
}

#[test]
fn every_kind_of_function_is_found_with_its_qualified_name() {
    let text = "#!/usr/bin/env run\n\
        fn free() {}\n\
        mod inner {\n    pub(crate) async unsafe fn deep(a: u8, b: u8) {\n        fn nested() {}\n    }\n}\n\
        trait Shape {\n    fn area(&self) -> f64;\n    fn name(&self, long: bool) -> u8 {\n        1\n    }\n}\n\
        impl<T> Shape for Vec< T > {\n    fn area(&self) -> f64 { 0.0 }\n}\n\
        impl Thing {\n    pub const unsafe extern \"C\" fn make(self: Box<Self>, x: (u8, u8)) {}\n}\n\
        const X: u8 = { fn hidden() -> u8 { 1 } 2 };\n";
    assert_eq!(
        measured(text),
        [
            row("free", 2, 1, 0),
            row("inner::deep", 4, 3, 2),
            row("inner::deep::nested", 5, 1, 0),
            row("Shape::area", 9, 0, 0),
            row("Shape::name", 10, 3, 1),
            row("<Vec< T > as Shape>::area", 15, 1, 0),
            row("Thing::make", 18, 1, 1),
            row("hidden", 20, 1, 0),
        ]
    );
}

#[test]
fn fault_6_signature_over_several_lines_and_with_pub_crate_is_found() {
    let text = "/// Docs\n#[inline]\npub(crate) async fn long(\n    a: impl Fn(u8) -> u8,\n    b: u8,\n)\n\
                -> u8\nwhere\n    u8: Copy,\n{\n    a(b)\n}\n";
    assert_eq!(measured(text), [row("long", 3, 10, 2)]);
}

#[test]
fn function_in_a_string_or_comment_is_not_counted() {
    let text = "fn real() {\n    let x = \"fn no() { }\";\n    // fn never() {\n    /* } */\n    \
                let y = r#\"}}}\"#; let z = '}';\n}\n";
    assert_eq!(measured(text), [row("real", 1, 6, 0)]);
}

#[test]
fn measured_lengths_match_generated_sources() {
    let mut random = Random::rotating("lengths of functions");
    for _ in 0..Depth::from_env().cases(2_000) {
        let mut source = Generated::default();
        source.items(&mut random, &mut Vec::new(), 0);
        assert_eq!(measured(&source.text), source.expected, "{}", source.text);
    }
}

/// A generated source and the functions that must be found in it.
#[derive(Default)]
struct Generated {
    text: String,
    line: usize,
    count: usize,
    expected: Vec<(String, usize, usize, usize)>,
}

impl Generated {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
        self.line += text.split('\n').count();
    }

    fn name(&mut self, letter: &str) -> String {
        self.count += 1;
        format!("{letter}{}", self.count)
    }

    fn items(&mut self, random: &mut Random, names: &mut Vec<String>, depth: usize) {
        for _ in 0..1 + random.below(3) {
            self.noise(random);
            match random.below(if depth > 2 { 1 } else { 4 }) {
                1 => self.block(random, names, depth, "mod"),
                2 => self.block(random, names, depth, "impl"),
                3 => self.block(random, names, depth, "trait"),
                _ => self.function(random, names, depth, random_prefix),
            }
        }
    }

    fn block(&mut self, random: &mut Random, names: &mut Vec<String>, depth: usize, kind: &str) {
        let name = self.name("N");
        self.push(&format!("{kind} {name} {{"));
        names.push(name);
        if kind == "mod" {
            self.items(random, names, depth + 1);
        } else {
            let prefix = if kind == "impl" { random_prefix } else { plain_prefix };
            for _ in 0..1 + random.below(3) {
                self.noise(random);
                self.function(random, names, depth + 1, prefix);
            }
        }
        names.pop();
        self.push("}");
    }

    fn function(
        &mut self,
        random: &mut Random,
        names: &mut Vec<String>,
        depth: usize,
        prefix: fn(&mut Random) -> &'static str,
    ) {
        let (name, start, place) = (self.name("f"), self.line + 1, self.expected.len());
        let parameters = random.below(5);
        names.push(name.clone());
        self.expected.push((names.join("::"), start, 0, parameters));
        let list: Vec<String> = (0..parameters).map(|number| format!("p{number}: u8")).collect();
        let break_or_blank = if random.once_in(2) { "\n    " } else { " " };
        let list = list.join(&format!(",{break_or_blank}"));
        let output = ["", " -> u8", "\n-> fn(u8) -> u8", "\nwhere\n    u8: Copy"][random.below(4)];
        self.push(&format!("{}fn {name}({list}){output} {{", prefix(random)));
        for _ in 0..random.below(6) {
            match random.below(6) {
                0 if depth < 4 => self.function(random, names, depth + 1, random_prefix),
                1 => self.push("    if a { b() } else if c { d() } else { e() }"),
                2 => self.push("    let s = \"} fn x() {\n\";"),
                3 => self.push("    /* fn y() {\n */"),
                4 => self.push("    call(|x| {\n        x\n    });"),
                _ => self.push(""),
            }
        }
        self.push("}");
        names.pop();
        self.expected[place].2 = self.line + 1 - start;
    }

    fn noise(&mut self, random: &mut Random) {
        match random.below(5) {
            0 => self.push("/// A doc with fn and {"),
            1 => self.push("#[cfg(test)]"),
            2 => self.push("// fn none() {"),
            _ => {}
        }
    }
}

fn random_prefix(random: &mut Random) -> &'static str {
    ["", "pub ", "pub(crate) async ", "const unsafe ", "pub(in crate::a) extern \"C\" "]
        [random.below(5)]
}

fn plain_prefix(random: &mut Random) -> &'static str {
    ["", "async ", "unsafe "][random.below(3)]
}

#[test]
fn deeply_nested_sources_never_overflow_the_stack() {
    let many = |count: usize, text: &str| text.repeat(count);
    for count in [40, 120, 1_200, 1_950, 3_900, 12_000] {
        for body in [
            format!("{}1{}", many(count, "("), many(count, ")")),
            format!("{}1{}", many(count, "["), many(count, "]")),
            format!("{}1{}", many(count, "{"), many(count, "}")),
            format!("{}x", many(count, "!")),
            format!("{}x", many(count, "- ")),
            format!("{}x", many(count, "&mut ")),
            format!("x{}", many(count, ".y")),
            format!("x{}", many(count, "()")),
            format!("x{}", many(count, "?")),
            format!("x{}", many(count, " + x")),
            format!("x{}", many(count, " = x")),
            format!("x{}", many(count, " as u8")),
            format!("{}x", many(count, "return ")),
            format!("{}x", many(count, "|a| ")),
            format!("{}x", many(count, "..")),
            format!("{}x", many(count, "return !(")),
            format!("{}x{}", many(count, "return !("), many(count, ")")),
            format!("{}{{}}", many(count, "if a {} else ")),
            format!("{}a {{}}", many(count, "if ")),
            format!("let x: {}u8{} = 1", many(count, "Box<"), many(count, "> ")),
            format!("let x: {}u8 = 1", many(count, "*const ")),
            format!("let x: {}u8 = 1", many(count, "fn() -> ")),
            format!("let x: {}u8 = 1", many(count, "impl Fn() -> ")),
            format!("let {}x = 1", many(count, "&")),
            format!("let {}x{} = 1", many(count, "S("), many(count, ")")),
            format!("let {}x = 1", many(count, "a @ ")),
            format!("{}x", many(count, "a::<")),
            format!("json!{{ {} }}", many(count, "a b ")),
        ] {
            let _measured = measure(&format!("fn f() {{ {body} }}"));
        }
    }
    let flat = format!("fn f() {{ {} }}", many(10_000, "x + y; "));
    assert_eq!(measured(&flat).len(), 1, "a long function is not deeply nested");
    let files = many(2_000, "/// Docs\n#[a]\nfn f() { if a { b } else { c } }\n");
    assert_eq!(measured(&files).len(), 2_000);
    assert!(measure(&format!("fn f() {{ {} }}", many(200, "{"))).is_err());
}

#[test]
fn random_tokens_never_panic() {
    let mut random = Random::rotating("random sources");
    let words = [
        "fn",
        "x",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "impl",
        "for",
        "trait",
        "mod",
        "\"",
        "'",
        "'a",
        "r#\"",
        "/*",
        "*/",
        "//",
        "\n",
        "#!",
        "#",
        "[",
        "]",
        "->",
        "async",
        "pub",
        "(crate)",
        "::",
        "\u{feff}",
        "é",
        "\0",
        "1e9",
        "macro_rules!",
        ";",
        ",",
        "=",
        "&",
        "!",
        "self",
    ];
    for _ in 0..Depth::from_env().cases(4_000) {
        let count = random.below(60);
        let text: String = (0..count)
            .map(|_| {
                format!(
                    "{}{}",
                    words[random.below(words.len())],
                    if random.once_in(2) { " " } else { "" }
                )
            })
            .collect();
        let _measured = measure(&text);
    }
}
