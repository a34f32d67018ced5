//! Tests of reading findings.

use super::*;

fn grades_of(report: &str) -> Vec<Vec<&'static str>> {
    match findings(report) {
        Findings::Some(found) => {
            found.into_iter().map(|finding| finding.grades.into_iter().collect()).collect()
        }
        other @ (Findings::None | Findings::NotMentioned) => panic!("{other:?} in {report}"),
    }
}

#[test]
fn findings_are_read_in_every_format() {
    for report in [
        "## Findings\n\n- HIGH a.rs:1: x\n- LOW b.rs:2: y\n",
        "## Findings\n\nTwo of them:\n\nHIGH a.rs:1: x\n  and more\nLOW b.rs:2: y\nwrapped\n",
        "# Review findings\n1. **HIGH** a.rs:1: x\n   - see the LOWEST one\n   - how\n2. [LOW] b.rs\n",
        "findings:\n- HIGH: x\n- (LOW) y\nsummary: all",
        "summary: x\nfindings: 2\n- HIGH x\n- LOW y\n\nfiles-read: a.rs",
        "**Findings**\n\n* HIGH x\n* LOW y",
        "## Findings\n| Severity | Where |\n|---|---|\n| HIGH | a.rs |\n| LOW | b.rs |\n",
        "## Findings\n### HIGH a.rs:1\nText.\n- point\n### [LOW] b.rs\nText.\n## Else\n- no finding",
        "## Findings\n### HIGH\n- a.rs: x\n### LOW (1)\n- b.rs: y\n### MEDIUM\nNone.\n",
        "## Findings\n### 1. The cache\nSeverity: HIGH\nText.\n### 2. The name\nLOW, as I said.\n",
        "## Findings\n### Parser\n- HIGH x\n### Printer\n- LOW y\n",
        "Summary.\n\nHIGH src/a.rs:42: x\n\nLOW src/b.rs:1: y\n\nThat is all.",
        "```\n## Findings\nHIGH a\nLOW b\n```",
        "    HIGH a.rs:1: x\n    LOW b.rs:2: y",
        "## Findings\n\nI found two, the worst first.\n\n- HIGH x\n- LOW y\n\nNone is CRITICAL.\n",
        "## Findings\n- HIGH x\n  I hesitated between HIGH and MEDIUM.\n- LOW y\n",
        "## Findings\n### HIGH\n\n**1. a.rs: x**\nText.\n\n### LOW\n**2. b.rs: y**\n",
        "## Findings\n### HIGH: x\nIt is not CRITICAL, as one can see.\n\n### LOW: y\n",
        "## Findings\n- `HIGH` a.rs: x\n- LOW b.rs: `HIGH` is never used\n",
    ] {
        assert_eq!(grades_of(report), [["HIGH"], ["LOW"]], "{report}");
    }
}

#[test]
fn finding_can_have_no_grade_or_two() {
    assert_eq!(grades_of("## Findings\n- the value is BELOW the limit\n"), [Vec::<&str>::new()]);
    assert_eq!(grades_of("## Findings\n- a.rs: x\n- HIGH y"), [vec![], vec!["HIGH"]]);
    let titled = "## Findings\n### Parser\n- a.rs: x\n- HIGH y";
    assert_eq!(grades_of(titled), [vec![], vec!["HIGH"]]);
    assert_eq!(grades_of("## Findings\n|#|What|\n|-|-|\n|1|HIGH|\n|2|x|"), [vec!["HIGH"], vec![]]);
    assert_eq!(grades_of("## Findings\n- HIGH/LOW x"), [["HIGH", "LOW"]]);
    assert_eq!(grades_of("## Findings\nIt leaks.\n"), [Vec::<&str>::new()]);
    assert_eq!(grades_of("HIGH a.rs:1: x\nb.rs:2: y").len(), 1, "outside of a section, one line");
    assert_eq!(grades_of("## Findings\nHIGH a.rs:1: x\nb.rs:2: y"), [vec!["HIGH"], vec![]]);
    assert_eq!(grades_of("## Findings\n### HIGH\n- LOW x"), [["HIGH", "LOW"]]);
}

#[test]
fn no_findings_and_a_missing_section_differ() {
    for report in [
        "No findings.",
        "## Findings\n\nNone.\n",
        "findings: none",
        "## Findings\nNo findings.",
        "- **No findings.**",
        "summary: x\nfindings: No findings were made",
        "## Findings: none",
    ] {
        assert_eq!(findings(report), Findings::None, "{report}");
    }
    for report in ["All good.", "", "## Findings\n", "findings: 3", "I looked for no findings here"]
    {
        assert_eq!(findings(report), Findings::NotMentioned, "{report}");
    }
}
