//! Complete, incomplete and false reports.

use std::collections::BTreeMap;

use super::*;
use crate::example::{
    added, agent, changed, evidence, facts, reason, result, subject, task, texts,
};
use crate::job::{CrateTests, Crates, Harness, TestProgram, TestResult};

fn reported(text: &str) -> Facts {
    let report = Report { place: "review.md".to_owned(), text: Ok(text.to_owned()) };
    Facts { report: Some(report), ..facts() }
}

fn judged(fields: &str, changes: &[Change], facts: &Facts) -> Verdict {
    let task = task(&format!("[output]\nreport-fields-required = {fields}"));
    judge(&subject(&task, &agent(), changes), facts)
}

fn measured(text: &str, capability: &str, pass: Pass, verdict: Verdict) -> Facts {
    Facts { measured: vec![(capability.to_owned(), pass, verdict)], ..reported(text) }
}

fn tested(text: &str, passed: usize, failed: usize) -> Facts {
    let name = |number| format!("t{number}");
    let results = (0..passed)
        .map(|number| (name(number), TestResult::Ok))
        .chain((passed..passed + failed).map(|number| (name(number), TestResult::Failed)));
    let harness = Harness::Standard {
        listed: (0..passed + failed).map(name).collect(),
        results: BTreeMap::from_iter(results),
    };
    let code = if failed == 0 { 0 } else { 101 };
    let program = TestProgram { target: "lib".into(), harness, run: result("lib", code, "") };
    let documentation = Some(result("cargo test --doc", 0, "test result: ok. 2 passed; 0 failed"));
    let crates = vec![CrateTests { name: "one".into(), programs: vec![program], documentation }];
    let job = Job::CargoTest { of: Crates::Named(vec!["one".into()]) };
    let outcome = JobOutcome::Tests { build: vec![result("build", 0, "")], crates };
    Facts { jobs: BTreeMap::from([(job, outcome)]), ..reported(text) }
}

#[test]
fn every_required_field_must_have_a_value() {
    let fields = r#"["summary", "Open Questions"]"#;
    let complete = reported("summary: done\n\n## Open questions\n\nNone.\n");
    assert!(evidence(&judged(fields, &[], &complete)).contains("the 2 required fields"));
    let incomplete = judged(fields, &[], &reported("summary: TODO\n"));
    assert_eq!(reason(&incomplete), "the report gives no value for `summary`, `Open Questions`");
}

#[test]
fn fault_6_sentence_about_a_field_is_not_the_field() {
    let fields = r#"["cargo-test"]"#;
    assert!(!judged(fields, &[], &reported("I did not run cargo-test")).is_pass());
    assert!(judged(fields, &[], &reported("cargo-test: not run")).is_pass());
}

#[test]
fn required_fields_need_a_report() {
    let fields = r#"["summary"]"#;
    assert!(reason(&judged(fields, &[], &facts())).contains("was not looked up"));
    assert!(reason(&judged(fields, &[], &without(ReportError::Missing))).contains("review.md"));
    assert!(reason(&judged(fields, &[], &reported(" \n"))).contains("is empty"));
    assert!(judged(fields, &[], &reported("summary: done")).is_pass());
}

#[test]
fn without_required_fields_a_report_may_be_missing_but_not_unreadable() {
    assert!(judged("[]", &[], &without(ReportError::Missing)).is_pass());
    assert!(judged("[]", &[], &reported(" \n")).is_pass());
    assert!(judged("[]", &[], &reported("Done.")).is_pass());
    let unreadable = without(ReportError::Unreadable("it is a link".to_owned()));
    assert!(reason(&judged("[]", &[], &unreadable)).contains("it is a link"));
    assert!(reason(&judged("[]", &[], &facts())).contains("was not looked up"));
}

fn without(why: ReportError) -> Facts {
    let report = Report { place: "review.md".to_owned(), text: Err(why) };
    Facts { report: Some(report), ..facts() }
}

#[test]
fn listed_files_must_be_the_touched_files() {
    let fields = r#"["files-touched"]"#;
    let changes = [changed("src/a.rs"), added(".claude/agents/ag-1/review.md")];
    let judged = |text: &str| judged(fields, &changes, &reported(text));
    assert!(evidence(&judged("files-touched: src/a.rs")).contains("as measured: files-touched"));
    assert!(judged("files-touched:\n- `src/a.rs` (more)\n").is_pass());
    assert!(reason(&judged("files-touched: none")).contains("leaves out src/a.rs"));
    assert!(reason(&judged("files-touched: src/a.rs, b.rs")).contains("names b.rs"));
}

#[test]
fn claimed_pass_must_agree_with_the_verdict() {
    let name = "quality::cargo-check-green";
    let facts = |text: &str, pass, verdict| measured(text, name, pass, verdict);
    let green = || Verdict::pass("ok");
    let red = || Verdict::fail("E0308");
    for text in ["cargo-check: pass", "quality::cargo-check-green: ok", "- cargo-check-green: ✓"]
    {
        assert!(
            evidence(&judged("[]", &[], &facts(text, Pass::Worktree, green())))
                .contains("as measured")
        );
        let false_claim = judged("[]", &[], &facts(text, Pass::Worktree, red()));
        assert!(
            reason(&false_claim).contains("it claims a pass")
                && reason(&false_claim).contains("E0308")
        );
    }
    for text in ["cargo-check: failed", "cargo-check: not run", "cargo-check: did not pass"] {
        assert!(judged("[]", &[], &facts(text, Pass::Worktree, red())).is_pass(), "{text}");
    }
    let merged = judged("[]", &[], &facts("cargo-check: pass", Pass::SimulatedMerge, red()));
    assert!(evidence(&merged).contains("claimed but not measured: cargo-check"));
    let warned = measured("warnings: none", "quality::no-warnings", Pass::Worktree, red());
    assert!(!judged("[]", &[], &warned).is_pass());
}

#[test]
fn claimed_number_of_tests_must_agree_with_the_count() {
    for text in [
        "cargo-test: 43 passed",
        "tests: pass",
        "cargo-test: 45 passed (2 of them in the documentation)",
        "cargo-test: 40 unit tests passed, 3 integration tests passed",
        "test-count: 43",
    ] {
        assert!(judged("[]", &[], &tested(text, 43, 0)).is_pass(), "{text}");
    }
    let false_claim = judged("[]", &[], &tested("cargo-test: 44 passed", 43, 0));
    assert!(reason(&false_claim).contains("44 tests passed, but 43 did"));
    assert!(!judged("[]", &[], &tested("test-count: 999", 43, 0)).is_pass());
    assert!(reason(&judged("[]", &[], &tested("cargo-test: pass", 43, 1))).contains("one lib t43"));
    assert!(judged("[]", &[], &tested("cargo-test: 43 passed, 1 failed", 43, 1)).is_pass());
    let nothing = judged("[]", &[], &reported("cargo-test: 44 passed"));
    assert!(evidence(&nothing).contains("claimed but not measured: cargo-test"));
}

#[test]
fn claimed_line_delta_must_agree_with_the_change() {
    let fields = r#"["loc-delta"]"#;
    let (task, agent) = (task(&format!("[output]\nreport-fields-required = {fields}")), agent());
    let changes = [changed("a.txt")];
    let subject = subject(&task, &agent, &changes);
    assert_eq!(needs(&subject).texts, ["a.txt"]);
    let with = |text: &str| {
        let mut facts = reported(text);
        facts.texts.insert("a.txt".into(), texts(Some("1\n2\n"), Some("1\n3\n4\n")));
        judge(&subject, &facts)
    };
    assert!(with("loc-delta: +2 -1").is_pass() && with("loc-delta: +1").is_pass());
    assert!(reason(&with("loc-delta: +120 -30")).contains("it is +1 lines (at least +2 -1)"));
    assert!(evidence(&with("loc-delta: small")).contains("claimed but not measured"));
    let unknown = judge(&subject, &reported("loc-delta: +120 -30"));
    assert!(evidence(&unknown).contains("claimed but not measured"));
}
