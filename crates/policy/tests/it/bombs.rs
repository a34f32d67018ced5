//! Oversized texts: each is read, or reported as hiding; none of them hangs or crashes.

use bailiwick_policy::shell::{ShellEffects, read};

/// Every pair that can be nested in itself, around a program that would run.
pub(crate) const PAIRS: [(&str, &str); 22] = [
    ("(", ")"),
    ("( ", " )"),
    ("{ ", "; }"),
    ("$(", ")"),
    ("\"$(", ")\""),
    ("echo $(", ")"),
    ("echo `", "`"),
    ("echo ${x:-", "}"),
    ("echo \"${x:-", "}\""),
    ("echo ${x[", "]}"),
    ("echo ${x:-'", "'}"),
    ("echo $((", "))"),
    ("echo $[", "]"),
    ("((", "))"),
    ("[[ ( ", " ) ]]"),
    ("cat <(", ")"),
    ("if ", "; then :; fi"),
    ("while ", "; do :; done"),
    ("for x in a; do ", "; done"),
    ("case a in a) ", " ;; esac"),
    ("f() { ", "; }; f"),
    ("eval ", ""),
];

fn nested(open: &str, close: &str, depth: usize) -> String {
    open.repeat(depth) + "git" + &close.repeat(depth)
}

/// The reading names the program that would run, or reports that something is hidden.
fn is_closed(reading: &ShellEffects) -> bool {
    let sees = reading.runs.iter().filter_map(|run| run.program()).any(|name| name == "git");
    sees || !reading.hidden.is_empty()
}

#[test]
fn nesting_of_every_kind_is_read_or_hides() {
    for (open, close) in PAIRS {
        for depth in [2, 5, 10, 20, 40, 59, 60, 61, 100, 200] {
            let text = nested(open, close, depth);
            // Inside of these, the name is a number or a string and runs nothing.
            let only_mentions =
                ["echo `", "echo ${x", "echo \"${x", "echo $((", "echo $[", "((", "[[ ( "];
            let reading = read(&text);
            let mentions = open == "(" || only_mentions.iter().any(|only| open.starts_with(only));
            let closed = mentions || is_closed(&reading);
            assert!(closed, "{depth} times {open}: {reading:?}");
        }
    }
}

#[test]
fn nesting_beyond_the_limit_hides() {
    for (open, close) in PAIRS.into_iter().filter(|(open, _)| *open != "eval ") {
        let reading = read(&nested(open, close, 200));
        assert!(!reading.hidden.is_empty(), "200 times {open}");
    }
}

#[test]
fn nesting_without_an_end_hides() {
    for (open, _) in PAIRS.into_iter().filter(|(open, _)| *open != "eval ") {
        // An odd number, because every second backquote is an end.
        for depth in [1, 11, 201] {
            let reading = read(&open.repeat(depth));
            assert!(!reading.hidden.is_empty(), "{depth} times {open}: {reading:?}");
        }
    }
}

#[test]
fn long_texts_are_read_or_hide() {
    let line = |piece: &str| piece.repeat((1 << 20) / piece.len());
    for text in [
        line("a"),
        line("a "),
        line("git;"),
        line("git\n"),
        line("# git\n") + "git",
        line("'"),
        line("\"$x\" "),
        line("\\\n"),
        line("x=git;") + "$x",
        line("ü"),
        "echo ".to_owned() + &line("*"),
        format!("git '{}'", line("x")),
        format!("cat <<'E'\n{}\nE\ngit", line("$(git)\n")),
        format!("bash <<E\n{}\nE\n", line("git\n")),
    ] {
        assert!(is_closed(&read(&text)), "{:.40}", text);
    }
}

#[test]
fn many_words_are_read_or_hide() {
    for text in [
        "git ".to_owned() + &"x ".repeat(10_000),
        "git ".to_owned() + &"$x ".repeat(10_000),
        "git ".to_owned() + &"{a,b} ".repeat(10_000),
        "git ".to_owned() + &"\"$(ls)\" ".repeat(5_000),
        "for x in ".to_owned() + &"git ".repeat(10_000) + "; do $x; done",
        "x=(".to_owned() + &"git ".repeat(10_000) + "); \"${x[@]}\"",
        "git; ".repeat(10_000),
        "git && ".repeat(9_000) + "git",
        "git | ".repeat(9_000) + "git",
        "x=a; ".repeat(9_000) + "git",
        "git ".to_owned() + &"> x ".repeat(10_000),
    ] {
        assert!(is_closed(&read(&text)), "{:.40}", text);
    }
}

#[test]
fn exponential_growth_is_read_or_hides() {
    let doubling = "x=git; ".to_owned() + &"x=$x$x; ".repeat(60) + "$x";
    let arrays =
        "x=(git); ".to_owned() + &"x=(\"${x[@]}\" \"${x[@]}\"); ".repeat(60) + "\"${x[@]}\"";
    let choices: String = (0..60).map(|n| format!("[ a ] && x{n}=git{n}; ")).collect();
    let uses: String = (0..60).map(|n| format!("$x{n}")).collect();
    let functions: String = (0..60).map(|n| format!("f{n}() {{ f{0}; f{0}; }}; ", n + 1)).collect();
    let definitions: String =
        (0..60).map(|n| format!("[ a ] && f() {{ git; f {n}; }}; ")).collect();
    for text in [
        doubling,
        arrays,
        choices + &uses,
        functions + "f60() { git; }; f0",
        definitions + "f",
        "{git,b}".repeat(40),
        "{git,{b,{c,d}}}".repeat(20),
        "{1..1000000000}{1..1000000000}".to_owned(),
        "git {1..1000000000}{a..z}".to_owned(),
        "f() { f; f; }; f".to_owned(),
        "f() { g; g; }; g() { f; f; }; f".to_owned(),
        "f() { f | f & }; f".to_owned(),
        "f() { eval 'f; f'; }; f".to_owned(),
        "f() { trap f EXIT; f; }; f".to_owned(),
        "git; alias a='b b' b='a a'; a".to_owned(),
        "trap 'trap \"git\" EXIT' EXIT".to_owned(),
        "while :; do x=$x$x; git; done".to_owned(),
        "for a in 1 2; do ".repeat(12) + "git" + &"; done".repeat(12),
        "if git; then :; el".to_owned() + &"if git; then :; el".repeat(50) + "se :; fi",
        "bash -c '".to_owned() + &"bash -c \"eval git\"; ".repeat(500) + "'",
        "x='eval $x'; eval $x; git".to_owned(),
    ] {
        assert!(is_closed(&read(&text)), "{:.60}", text);
    }
}

/// The memory for a command is limited by its length times a constant, for any nesting.
#[test]
fn memory_for_an_oversized_command_is_limited() {
    let wrapped = |wrapper: &str| wrapper.repeat(32_000 / wrapper.len()) + "git push";
    let variables: String = (0..6_000).map(|n| format!("a{n}=1;")).collect();
    let data = "x".repeat(60_000);
    for text in [
        wrapped("env "),
        wrapped("nice "),
        wrapped("timeout 5 "),
        wrapped("command "),
        wrapped("xargs "),
        wrapped("sudo -u root "),
        wrapped("env A=1 "),
        wrapped("bash -c "),
        format!("{variables}{}", "(git);".repeat(2_000)),
        format!("tee {} <<'E'\n{data}\nE\n", "a ".repeat(10_000)),
        format!("cat <<'E' {}\n{data}\nE\n", "> a ".repeat(8_000)),
        format!("rm {}", "$x/a ".repeat(10_000)),
        "echo <<a ".repeat(6_000),
        "cat <(git) ".repeat(5_000),
        "echo $(basename ".repeat(40) + "git" + &")".repeat(40),
    ] {
        let reading = read(&text);
        let fields: usize = reading.runs.iter().map(|run| run.argv.len()).sum();
        assert!(fields < 80_000, "{fields} words of {:.40}", text);
        let effects = reading.runs.len() + reading.writes.len();
        assert!(effects <= 20_000, "{effects} effects of {:.40}", text);
        assert!(is_closed(&reading) || text.starts_with("rm"), "{:.40}", text);
    }
}

#[test]
fn text_that_makes_the_parser_panic_hides() {
    for text in [
        "cat <<E > a ${x:-${y}`z}z`(\nE\n",
        "cat 33333333333333333333<<E\nE\n",
        "echo ${99999999999999999999}",
        "echo ~99999999999999999999",
        "echo $(<<  ",
    ] {
        assert!(!read(text).hidden.is_empty(), "{text}");
    }
}

#[test]
fn documents_with_an_empty_delimiter_end() {
    for open in ["cat <<''", "cat <<\"\"", "cat <<-''", "a <<<<< ( b", "a <<<<<<< "] {
        for around in ["", "$(", "echo \"$(", "${x:-$(", "<(", "{ ", "( ", "if "] {
            for end in ["", "\\", "\n", "\\\n", " \\", " #", " x", ")", "\nx\n", "\n\n", " <<''"] {
                read(&format!("{around}{open}{end}"));
            }
        }
    }
    // As found by the fuzzer.
    read("[[ -n $(g-n $(git) && !<<<<<<<<<<< ( aenv -9} b!ash t { v -+\n!ash it { v -+\n\nit");
}
