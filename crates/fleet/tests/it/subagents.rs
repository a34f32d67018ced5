//! The output contracts of sub-agents, and the limits for parallel sub-agents.

use std::collections::BTreeMap;

use bailiwick_fleet::subagents::{
    ActiveSubagents, ParallelLimits, contract_faults, is_checkable, may_start,
};
use bailiwick_resources::{AgentSubagent, OutputContract, OutputFormat};
use serde_json::json;

fn contract(format: OutputFormat, sections: &[&str]) -> OutputContract {
    let required_sections = sections.iter().map(ToString::to_string).collect();
    OutputContract { format, required_sections }
}

#[test]
fn contract_accepts_only_the_required_output() {
    use OutputFormat as F;
    let patch = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n";
    let comments = r#"[{"path":"a.rs","line":3,"body":"why?"}]"#;
    for (format, sections, good, bad) in [
        (F::Summary, vec!["Findings"], "## Findings\nnone", "Findings: none"),
        (F::Summary, vec!["Findings"], "**Findings:**\nnone", "## Finding\nnone"),
        (F::Summary, vec![], "well", "  \n"),
        (F::Checklist, vec![], "- [x] built\n- [ ] tested", "built and tested"),
        (F::Patch, vec![], patch, "--- a/a\n+++ b/a\n"),
        (F::Patch, vec![], patch, "I changed a"),
        (F::Patch, vec![], patch, "--- a/a\n+++ b/a\n@@ -x +1 @@\n+y\n"),
        (F::Json, vec!["risk"], r#"{"risk":"low"}"#, r#"{"risky":"low"}"#),
        (F::Json, vec![], "```json\n{}\n```", "{"),
        (F::ReviewComments, vec![], comments, r#"[{"path":"a.rs","body":"why?"}]"#),
        (F::ReviewComments, vec![], "- src/a.rs:3: why?", "why?"),
        (F::TestReport, vec!["Passed", "Failed"], "# Passed\n2\n# failed\n0", "# Passed\n2"),
        (F::ReleaseReadiness, vec!["Verdict"], "### Verdict\ngo", "go"),
        (F::RiskAssessment, vec!["Risks"], "# Risks\nnone", ""),
    ] {
        let contract = contract(format, &sections);
        assert!(is_checkable(&contract));
        assert_eq!(contract_faults(&contract, good), [""; 0], "{format:?} {good}");
        assert_ne!(contract_faults(&contract, bad), [""; 0], "{format:?} {bad}");
    }
    assert!(!is_checkable(&contract(F::Patch, &["Why"])));
    assert!(!is_checkable(&contract(F::Json, &[" "])));
}

#[test]
fn each_parallelism_limit_applies_separately() {
    let definition: AgentSubagent = serde_json::from_value(json!({
        "rolePrompt": "x", "taskKinds": ["review"], "maxParallelTasks": 2,
    }))
    .unwrap();
    let limits =
        ParallelLimits { run: Some(3), stack: Some(4), pool: Some(5), repository: Some(6) };
    let by_definition = |own: u32| BTreeMap::from([("r".to_owned(), own)]);
    let below = ActiveSubagents {
        run: 2,
        by_definition: by_definition(1),
        stack: 3,
        pool: 4,
        repository: 5,
    };
    assert_eq!(may_start("r", &definition, &below, &limits), Ok(()));
    assert_eq!(may_start("r", &definition, &below, &ParallelLimits::default()), Ok(()));
    for (active, place) in [
        (ActiveSubagents { by_definition: by_definition(2), ..below.clone() }, "as `r`"),
        (ActiveSubagents { run: 3, ..below.clone() }, "for this run"),
        (ActiveSubagents { stack: 4, ..below.clone() }, "for this stack"),
        (ActiveSubagents { pool: 5, ..below.clone() }, "in this pool"),
        (ActiveSubagents { repository: 9, ..below.clone() }, "in this repository"),
    ] {
        assert_eq!(may_start("r", &definition, &active, &limits).unwrap_err().place, place);
    }
    let other = ActiveSubagents { by_definition: by_definition(2), ..below };
    assert_eq!(may_start("other", &definition, &other, &limits), Ok(()));
}
