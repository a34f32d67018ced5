//! Long functions and files that count as faults of the work.

use super::*;
use crate::example::{
    added, agent, changed, deleted, detail, evidence, facts, reason, renamed, subject, task, texts,
};

type Case<'a> = (Change, Option<&'a str>, Option<&'a str>);

fn judged_by(rest: &str, cases: &[Case<'_>]) -> Verdict {
    let mut facts = facts();
    for (change, before, after) in cases {
        facts.texts.insert(change.path.clone(), texts(*before, *after));
    }
    let changes: Vec<Change> = cases.iter().map(|(change, ..)| change.clone()).collect();
    let (task, agent) = (task(rest), agent());
    let subject = subject(&task, &agent, &changes);
    judge(&subject, &facts)
}

fn judged(cases: &[Case<'_>]) -> Verdict {
    judged_by("", cases)
}

/// A function of this many lines.
fn function(name: &str, lines: usize) -> String {
    format!("pub(crate) fn {name}(\n    a: u8,\n) {{\n{}}}\n", "    a();\n".repeat(lines - 4))
}

#[test]
fn function_at_the_limit_passes_and_one_line_more_fails() {
    let (short, long) = (function("f", 30), function("f", 31));
    assert!(judged(&[(added("a.rs"), None, Some(&short))]).is_pass());
    let verdict = judged(&[(added("a.rs"), None, Some(&long))]);
    assert_eq!(reason(&verdict), "a.rs:1 f has 31 lines: the limit is 30");
}

#[test]
fn file_at_the_limit_passes_and_one_line_more_fails() {
    let lines = |count: usize| "// x\n".repeat(count);
    for path in ["a.rs", "a.py", "web/a.tsx"] {
        assert!(judged(&[(added(path), None, Some(&lines(200)))]).is_pass());
        let verdict = judged(&[(added(path), None, Some(&lines(201)))]);
        assert_eq!(reason(&verdict), format!("{path} has 201 lines: the limit is 200"));
    }
    for path in ["data.json", "README.md", "Cargo.lock"] {
        assert!(judged(&[(added(path), None, Some(&lines(999)))]).is_pass());
    }
}

#[test]
fn task_can_set_the_limits() {
    let text = "fn f(a: u8, b: u8, c: u8) {}\nstruct S;\nimpl S { fn m(&self, a: u8, b: u8) {} }\n";
    let case = || [(added("a.rs"), None, Some(text))];
    assert!(judged(&case()).is_pass(), "without a number, parameters are not limited");
    let verdict = judged_by("[verification]\nmax-parameters = 2", &case());
    assert_eq!(reason(&verdict), "a.rs:1 f has 3 parameters: the limit is 2");
    assert!(!judged_by("[verification]\nmax-file-lines = 2", &case()).is_pass());
    let long = function("f", 50);
    let rest = "[verification]\nmax-function-lines = 50";
    assert!(judged_by(rest, &[(added("a.rs"), None, Some(&long))]).is_pass());
}

#[test]
fn fault_6_old_code_is_not_a_fault_until_it_grows() {
    let (old, longer, shorter) = (function("f", 80), function("f", 81), function("f", 79));
    let with_more = format!("fn g() {{}}\n{old}");
    assert!(judged(&[(changed("a.rs"), Some(&old), Some(&with_more))]).is_pass());
    assert!(judged(&[(changed("a.rs"), Some(&old), Some(&shorter))]).is_pass());
    let verdict = judged(&[(changed("a.rs"), Some(&old), Some(&longer))]);
    assert!(reason(&verdict).contains("has 81 lines (it had 80)"));
    let legacy = "// x\n".repeat(500);
    let (grown, shrunk) = ("// x\n".repeat(501), "// x\n".repeat(499));
    assert!(judged(&[(changed("a.py"), Some(&legacy), Some(&shrunk))]).is_pass());
    assert!(judged(&[(changed("a.py"), Some(&legacy), Some(&legacy))]).is_pass());
    assert!(!judged(&[(changed("a.py"), Some(&legacy), Some(&grown))]).is_pass());
}

#[test]
fn renamed_file_is_compared_with_its_old_text_and_a_copy_is_new() {
    let old = function("f", 80);
    let moved = renamed("old.rs", "new.rs");
    assert!(judged(&[(moved.clone(), Some(&old), Some(&old))]).is_pass());
    let copied = Change { copied: true, ..moved };
    assert!(!judged(&[(copied, Some(&old), Some(&old))]).is_pass());
}

#[test]
fn moved_function_is_not_new_but_a_duplicate_is() {
    let old = function("f", 80);
    let nested = format!("mod m {{\n{old}}}\n");
    let moved = [(changed("a.rs"), Some(&*old), Some("")), (added("b.rs"), None, Some(&*nested))];
    assert!(evidence(&judged(&moved)).contains("2 source files"));
    let deleted_file =
        [(deleted("a.rs"), Some(&*old), None), (added("b.rs"), None, Some(&*nested))];
    assert!(judged(&deleted_file).is_pass());
    let doubled =
        [(changed("a.rs"), Some(&*old), Some(&*old)), (added("b.rs"), None, Some(&*nested))];
    assert!(reason(&judged(&doubled)).contains("b.rs:2 m::f has 80 lines"));
    let named = old.replace("fn f(", "fn g(");
    assert!(judged(&[(changed("a.rs"), Some(&old), Some(&named))]).is_pass(), "under another name");
    let wider = named.replace("    a: u8,", "    a: u8,\n    b: u8,");
    assert!(
        !judged(&[(changed("a.rs"), Some(&old), Some(&wider))]).is_pass(),
        "under another name and longer"
    );
    let twice = format!("{old}mod m {{\n{old}}}\n");
    let split = [(changed("a.rs"), Some(&*old), Some("")), (added("b.rs"), None, Some(&*twice))];
    assert!(!judged(&split).is_pass());
}

#[test]
fn functions_with_the_same_name_are_matched_by_length() {
    let both =
        |first, second| format!("#[cfg(unix)]\n{}{}", function("f", first), function("f", second));
    let (before, swapped, grown) = (both(40, 10), both(10, 40), both(40, 41));
    assert!(judged(&[(changed("a.rs"), Some(&before), Some(&swapped))]).is_pass());
    assert!(!judged(&[(changed("a.rs"), Some(&before), Some(&grown))]).is_pass());
}

#[test]
fn file_that_cannot_be_measured_fails() {
    let broken = judged(&[(added("a.rs"), None, Some("fn f( {"))]);
    assert!(reason(&broken).contains("`a.rs` could not be measured"));
    let unchanged = judged(&[(changed("a.rs"), Some("fn f( {"), Some("fn f( {"))]);
    assert!(!unchanged.is_pass());
    let (task, agent) = (task(""), agent());
    let changes = [added("a.rs")];
    let unknown = judge(&subject(&task, &agent, &changes), &facts());
    assert!(reason(&unknown).contains("its text is not known"));
    let mut facts = facts();
    facts
        .texts
        .insert("a.rs".into(), crate::facts::Texts { before: None, after: Some(vec![0xff]) });
    assert!(reason(&judge(&subject(&task, &agent, &changes), &facts)).contains("UTF-8"));
}

#[test]
fn only_a_file_that_was_generated_before_is_exempt() {
    let text = format!("// @generated by x\n{}", function("f", 300));
    assert!(judged(&[(changed("a.rs"), Some("// @generated by x\n"), Some(&text))]).is_pass());
    assert!(
        !judged(&[(added("a.rs"), None, Some(&text))]).is_pass(),
        "the agent could add the marker"
    );
}

#[test]
fn many_faults_are_counted_and_the_first_are_listed() {
    let text: String = (0..25).map(|number| function(&format!("f{number}"), 31)).collect();
    let verdict = judged(&[(added("a.rs"), None, Some(&text))]);
    assert!(reason(&verdict).contains("and 25 more"), "the file is too long too");
    assert_eq!(detail(&verdict).lines().count(), 21);
}
