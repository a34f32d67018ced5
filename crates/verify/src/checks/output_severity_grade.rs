//! `output::severity-grade`: every finding of the report has exactly one grade.

use super::{Subject, listing};
use crate::facts::{Facts, Needs, Report};
use crate::report::findings::{Finding, Findings, findings};
use crate::report::grades::GRADES;
use crate::verdict::Verdict;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs { report: true, ..Needs::default() }
}

pub(super) fn judge(_subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let text = match &facts.report {
        None => return Verdict::fail("the report was not looked up"),
        Some(Report { place, text: Err(why) }) => {
            return Verdict::fail(format!("cannot read the report at {place}: {why}"));
        }
        Some(Report { text: Ok(text), .. }) => text,
    };
    match findings(text) {
        Findings::None => Verdict::pass("the report says that there are no findings"),
        Findings::NotMentioned => Verdict::fail(
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
            let detail = listing::limited(&faults, listing::MAX_LISTED);
            Verdict::fail_with(format!("{count} of {of} findings: {first}"), detail)
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
    let text: String =
        finding.text.chars().filter(|character| !character.is_control()).take(80).collect();
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
    use crate::facts::ReportError;

    fn judged(text: Result<&str, &str>) -> Verdict {
        let text = text.map(ToOwned::to_owned).map_err(|_| ReportError::Missing);
        let report = Some(Report { place: "review.md".to_owned(), text });
        let (task, agent) = (task(""), agent());
        judge(&subject(&task, &agent, &[]), &Facts { report, ..facts() })
    }

    #[test]
    fn each_finding_has_exactly_one_grade() {
        let passed = judged(Ok("## Findings\n- HIGH a\n- LOW b\n- LOW c"));
        assert_eq!(evidence(&passed), "3 findings: 0 CRITICAL, 1 HIGH, 0 MEDIUM, 2 LOW");
        let failed = judged(Ok("## Findings\n- HIGH a\n- b\n- HIGH or LOW c"));
        assert!(reason(&failed).contains("2 of 3 findings: no grade: b"));
        assert!(detail(&failed).contains("more than one grade (HIGH and LOW): HIGH or LOW c"));
    }

    #[test]
    fn fault_6_the_word_below_is_not_a_grade() {
        assert!(!judged(Ok("## Findings\n- the value is BELOW the limit")).is_pass());
    }

    #[test]
    fn report_without_findings_must_say_so() {
        assert!(judged(Ok("No findings.")).is_pass());
        assert!(!judged(Ok("All good.")).is_pass());
        assert!(!judged(Ok("")).is_pass());
        assert!(reason(&judged(Err("missing"))).contains("review.md"));
        let (task, agent) = (task(""), agent());
        assert!(!judge(&subject(&task, &agent, &[]), &facts()).is_pass());
    }
}
