//! The checks, one file each, named as their capability; each says what it needs and judges it.

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
mod ran;
mod repository;
mod safety_no_dep_bump;
mod safety_no_mass_delete;
mod scope_files_denylist;
mod scope_files_whitelist;
mod scope_no_rule_edits;
mod test_tally;

use bailiwick_model::module::CheckModule;
use bailiwick_model::{AgentId, CapabilityName, Task};

use crate::change::Change;
use crate::facts::{Facts, Needs};
use crate::job::Job;
use crate::verdict::Verdict;

/// A check of a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Whose check it is.
    pub capability: CapabilityName,
    /// How it is done.
    pub how: How,
}

/// How a check is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By code of this crate.
    Module(CheckModule),
    /// By a command of the capability's own, which must exit 0 in the root of the tree.
    Command(String),
}

/// What is checked.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The agent, where it has an id.
    pub agent: Option<&'a AgentId>,
    /// Its task, whose parameters the checks read.
    pub task: &'a Task,
    /// What it changed on this tree.
    pub changes: &'a [Change],
}

/// What a check needs to know beyond the changes.
pub fn needs(check: &Check, subject: &Subject<'_>) -> Needs {
    let module = match &check.how {
        How::Module(module) => module,
        How::Command(line) => {
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
        CheckModule::QualityNoWarnings => quality_no_warnings::needs(subject),
        CheckModule::QualityCommandsGreen => quality_commands_green::needs(subject),
        CheckModule::SafetyNoDepBump => safety_no_dep_bump::needs(subject),
        CheckModule::SafetyNoMassDelete => safety_no_mass_delete::needs(subject),
        CheckModule::OutputReportFormat => output_report_format::needs(subject),
        CheckModule::OutputSeverityGrade => output_severity_grade::needs(subject),
        CheckModule::OutputLedgerRowRequired => output_ledger_row_required::needs(subject),
    }
}

/// The verdict from what was found out.
pub fn judge(check: &Check, subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let module = match &check.how {
        How::Module(module) => module,
        How::Command(line) => {
            return quality_commands_green::all_succeeded(&[command(line)], facts);
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
