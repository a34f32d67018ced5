//! The checks, one file for each capability: what the check needs to know, and its verdict.

mod command_results;
mod disabled_tests;
mod listing;
mod output_ledger_row_required;
mod output_report_format;
mod output_severity_grade;
mod paths;
mod policy_git_read_only;
mod policy_no_git_ops;
mod quality_cargo_check_green;
mod quality_commands_green;
mod quality_constructor_pattern;
mod quality_no_warnings;
mod quality_tests_green;
mod quality_tests_kept;
mod repository;
mod safety_no_dep_bump;
mod safety_no_mass_delete;
mod scope_files_denylist;
mod scope_files_whitelist;
mod scope_no_rule_edits;

pub use safety_no_dep_bump::changed_dependencies;

use bailiwick_model::module::CheckModule;
use bailiwick_model::{AgentId, CapabilityName, Task};

use crate::change::Change;
use crate::facts::{Facts, Needs};
use crate::job::Job;
use crate::verdict::Verdict;

/// The check of a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub capability: CapabilityName,
    pub method: CheckMethod,
}

/// How a check is performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckMethod {
    /// Code of this crate.
    Module(CheckModule),
    /// A command of the capability, which must exit with 0 in the root of the tree.
    Command(String),
}

/// The work that is checked.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The agent, if it has an id.
    pub agent: Option<&'a AgentId>,
    /// Its task, with the parameters of the checks.
    pub task: &'a Task,
    /// What the agent changed in this tree.
    pub changes: &'a [Change],
    /// Paths that commits of the work changed and changed back: the history shows them, the tree does
    /// not.
    pub intermediate_paths: &'a [String],
}

/// What a check needs to know in addition to the changes.
pub fn needs(check: &Check, subject: &Subject<'_>) -> Needs {
    let module = match &check.method {
        CheckMethod::Module(module) => module,
        CheckMethod::Command(line) => {
            return Needs { jobs: vec![command(line)], ..Needs::default() };
        }
    };
    match module {
        CheckModule::PolicyNoGitOps => policy_no_git_ops::needs(subject),
        CheckModule::PolicyGitReadOnly => policy_git_read_only::needs(subject),
        CheckModule::ScopeFilesWhitelist => scope_files_whitelist::needs(subject),
        CheckModule::ScopeFilesDenylist => scope_files_denylist::needs(subject),
        CheckModule::ScopeNoRuleEdits => scope_no_rule_edits::needs(subject),
        CheckModule::QualityConstructorPattern => quality_constructor_pattern::needs(subject),
        CheckModule::QualityCargoCheckGreen => quality_cargo_check_green::needs(subject),
        CheckModule::QualityTestsGreen => quality_tests_green::needs(subject),
        CheckModule::QualityTestsKept => quality_tests_kept::needs(subject),
        CheckModule::QualityNoWarnings => quality_no_warnings::needs(subject),
        CheckModule::QualityCommandsGreen => quality_commands_green::needs(subject),
        CheckModule::SafetyNoDepBump => safety_no_dep_bump::needs(subject),
        CheckModule::SafetyNoMassDelete => safety_no_mass_delete::needs(subject),
        CheckModule::OutputReportFormat => output_report_format::needs(subject),
        CheckModule::OutputSeverityGrade => output_severity_grade::needs(subject),
        CheckModule::OutputLedgerRowRequired => output_ledger_row_required::needs(subject),
    }
}

/// The verdict that follows from the facts.
pub fn judge(check: &Check, subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let module = match &check.method {
        CheckMethod::Module(module) => module,
        CheckMethod::Command(line) => {
            return command_results::all_succeeded(&[command(line)], facts);
        }
    };
    match module {
        CheckModule::PolicyNoGitOps => policy_no_git_ops::judge(subject, facts),
        CheckModule::PolicyGitReadOnly => policy_git_read_only::judge(subject, facts),
        CheckModule::ScopeFilesWhitelist => scope_files_whitelist::judge(subject, facts),
        CheckModule::ScopeFilesDenylist => scope_files_denylist::judge(subject, facts),
        CheckModule::ScopeNoRuleEdits => scope_no_rule_edits::judge(subject, facts),
        CheckModule::QualityConstructorPattern => {
            quality_constructor_pattern::judge(subject, facts)
        }
        CheckModule::QualityCargoCheckGreen => quality_cargo_check_green::judge(subject, facts),
        CheckModule::QualityTestsGreen => quality_tests_green::judge(subject, facts),
        CheckModule::QualityTestsKept => quality_tests_kept::judge(subject, facts),
        CheckModule::QualityNoWarnings => quality_no_warnings::judge(subject, facts),
        CheckModule::QualityCommandsGreen => quality_commands_green::judge(subject, facts),
        CheckModule::SafetyNoDepBump => safety_no_dep_bump::judge(subject, facts),
        CheckModule::SafetyNoMassDelete => safety_no_mass_delete::judge(subject, facts),
        CheckModule::OutputReportFormat => output_report_format::judge(subject, facts),
        CheckModule::OutputSeverityGrade => output_severity_grade::judge(subject, facts),
        CheckModule::OutputLedgerRowRequired => output_ledger_row_required::judge(subject, facts),
    }
}

fn command(line: &str) -> Job {
    Job::Command { line: line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{agent, changed, facts, subject, task};

    fn check(method: CheckMethod) -> Check {
        Check { capability: CapabilityName::parse("quality::own").unwrap(), method }
    }

    #[test]
    fn fault_4_check_without_its_facts_never_passes() {
        let task =
            task("[scope]\nfiles-whitelist = [\"**\"]\n[verification]\ncommands = [\"true\"]");
        let (agent, changes) = (agent(), [changed("src/a.rs"), changed("Cargo.toml")]);
        let subject = subject(&task, &agent, &changes);
        // These need only the changes.
        let by_changes = [
            CheckModule::ScopeFilesWhitelist,
            CheckModule::ScopeFilesDenylist,
            CheckModule::ScopeNoRuleEdits,
            CheckModule::SafetyNoMassDelete,
        ];
        for module in CheckModule::ALL {
            let check = check(CheckMethod::Module(*module));
            let needed = needs(&check, &subject) != Needs::default();
            let passes = judge(&check, &subject, &facts()).is_pass();
            let from_changes = by_changes.contains(module);
            assert_eq!((needed, passes), (!from_changes, from_changes), "{module:?}");
        }
    }

    #[test]
    fn command_of_a_capability_must_exit_with_0() {
        let check = check(CheckMethod::Command("make lint".to_owned()));
        let (task, agent) = (task(""), agent());
        let subject = subject(&task, &agent, &[]);
        let jobs = needs(&check, &subject).jobs;
        let judge_with = |code| {
            let result = crate::example::result("make lint", code, "");
            crate::example::after(jobs[0].clone(), crate::job::JobOutcome::Commands(vec![result]))
        };
        assert!(judge(&check, &subject, &judge_with(0)).is_pass());
        assert!(!judge(&check, &subject, &judge_with(1)).is_pass());
        assert!(!judge(&check, &subject, &facts()).is_pass());
    }
}
