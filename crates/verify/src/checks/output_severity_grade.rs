//! `output::severity-grade`: every finding of the report has one grade.

use super::Subject;
use crate::facts::{Facts, Needs, Report};
use crate::report::findings::{Finding, Findings, findings};
use crate::report::grades::GRADES;
use crate::verdict::Verdict;

/// How many findings a verdict lists.
const LISTED: usize = 20;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs { report: true, ..Needs::default() }
}

pub(super) fn judge(_subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let text = match &facts.report {
        None => return Verdict::fail("the report could not be looked for"),
        Some(Report { place, text: Err(why) }) => {
            return Verdict::fail(format!("there is no report to read at {place}: {why}"));
        }
        Some(Report { text: Ok(text), .. }) => text,
    };
    match findings(text) {
        Findings::None => Verdict::pass("the report says that there are no findings"),
        Findings::Unsaid => Verdict::fail(
            "the report has no findings and does not say so: write each with its grade, or \"No \
             findings.\"",
        ),
        Findings::Some(all) => graded(&all),
    }
}

fn graded(all: &[Finding]) -> Verdict {
    let faults: Vec<String> = all.iter().filter_map(fault).collect();
    match faults.first() {
        Some(first) => {
            let (count, of) = (faults.len(), all.len());
            let listed = faults.iter().take(LISTED).cloned().collect::<Vec<_>>().join("\n");
            Verdict::fail_with(format!("{count} of {of} findings: {first}"), listed)
        }
        None => {
            let counts = GRADES.map(|grade| {
                let count = all.iter().filter(|finding| finding.grades.contains(grade)).count();
                format!("{count} {grade}")
            });
            Verdict::pass(format!("{} findings: {}", all.len(), counts.join(", ")))
        }
    }
}

fn fault(finding: &Finding) -> Option<String> {
    let text: String = finding.text.chars().filter(|sign| !sign.is_control()).take(80).collect();
    match finding.grades.len() {
        0 => Some(format!("no grade: {text}")),
        1 => None,
        _ => {
            let grades = finding.grades.iter().copied().collect::<Vec<_>>().join(" and ");
            Some(format!("more than one grade ({grades}): {text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{agent, detail, evidence, facts, reason, subject, task};
    use crate::facts::NoReport;

    fn judged(text: Result<&str, &str>) -> Verdict {
        let text = text.map(ToOwned::to_owned).map_err(|_| NoReport::Missing);
        let report = Some(Report { place: "review.md".to_owned(), text });
        let (task, agent) = (task(""), agent());
        judge(&subject(&task, &agent, &[]), &Facts { report, ..facts() })
    }

    #[test]
    fn each_finding_has_exactly_one_grade() {
        let good = judged(Ok("## Findings\n- HIGH a\n- LOW b\n- LOW c"));
        assert_eq!(evidence(&good), "3 findings: 0 CRITICAL, 1 HIGH, 0 MEDIUM, 2 LOW");
        let bad = judged(Ok("## Findings\n- HIGH a\n- b\n- HIGH or LOW c"));
        assert!(reason(&bad).contains("2 of 3 findings: no grade: b"));
        assert!(detail(&bad).contains("more than one grade (HIGH and LOW): HIGH or LOW c"));
    }

    #[test]
    fn fault_6_the_word_below_is_no_grade() {
        assert!(!judged(Ok("## Findings\n- the value is BELOW the limit")).holds());
    }

    #[test]
    fn none_must_be_said() {
        assert!(judged(Ok("No findings.")).holds());
        assert!(!judged(Ok("All good.")).holds());
        assert!(!judged(Ok("")).holds());
        assert!(reason(&judged(Err("missing"))).contains("review.md"));
        let (task, agent) = (task(""), agent());
        assert!(!judge(&subject(&task, &agent, &[]), &facts()).holds());
    }
}
