//! The gates and checks that are compiled in, as capability.toml names them.
//!
//! A capability's `rust-module` must be one of these. The policy and verify crates match on the
//! enums, so that a module named here cannot lack its code.

use std::fmt;

use crate::nearest::nearest;

macro_rules! modules {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, { $($variant:ident => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = concat!("`", $prefix, $text, "`")] $variant,)*
        }

        impl $name {
            /// Every module of this kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The path as capability.toml writes it.
            pub fn path(self) -> &'static str {
                match self { $(Self::$variant => concat!($prefix, $text),)* }
            }

            /// Finds the module of this path.
            pub fn parse(path: &str) -> Result<Self, NoSuchModule> {
                let path = current(path);
                Self::ALL.iter().copied().find(|module| module.path() == path).ok_or_else(|| {
                    let near = nearest(path, Self::ALL.iter().map(|module| module.path()));
                    NoSuchModule { path: path.to_owned(), near }
                })
            }
        }
    };
}

modules!(
    /// A gate: judges a tool call before it runs.
    GateModule, "gates::", {
        PolicyNoGitOps => "policy_no_git_ops",
        PolicyGitReadOnly => "policy_git_read_only",
        ScopeFilesWhitelist => "scope_files_whitelist",
        ScopeFilesDenylist => "scope_files_denylist",
        ScopeNoRuleEdits => "scope_no_rule_edits",
        SafetyNoDepBump => "safety_no_dep_bump",
        SafetyNoMassDelete => "safety_no_mass_delete",
        ToolsDenyTools => "tools_deny_tools",
        ToolsBashAllowlist => "tools_bash_allowlist",
    }
);

modules!(
    /// A check: measures the work on a tree.
    CheckModule, "verifies::", {
        PolicyNoGitOps => "policy_no_git_ops",
        PolicyGitReadOnly => "policy_git_read_only",
        ScopeFilesWhitelist => "scope_files_whitelist",
        ScopeFilesDenylist => "scope_files_denylist",
        ScopeNoRuleEdits => "scope_no_rule_edits",
        QualityConstructorPattern => "quality_constructor_pattern",
        QualityCargoCheckGreen => "quality_cargo_check_green",
        QualityTestsGreen => "quality_tests_green",
        QualityTestsKept => "quality_tests_kept",
        QualityNoWarnings => "quality_no_warnings",
        QualityCommandsGreen => "quality_commands_green",
        SafetyNoDepBump => "safety_no_dep_bump",
        SafetyNoMassDelete => "safety_no_mass_delete",
        OutputReportFormat => "output_report_format",
        OutputSeverityGrade => "output_severity_grade",
        OutputLedgerRowRequired => "output_ledger_row_required",
    }
);

/// Modules of an earlier version are called otherwise now, as their capabilities are.
fn current(path: &str) -> &str {
    match path {
        "gates::tools_read_only" => "gates::tools_deny_tools",
        "gates::tools_cargo_only_bash" => "gates::tools_bash_allowlist",
        other => other,
    }
}

/// A `rust-module` that is not compiled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NoSuchModule {
    /// The path as written.
    pub path: String,
    /// The most similar module.
    pub near: Option<&'static str>,
}

impl fmt::Display for NoSuchModule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "there is no module `{}`", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_is_found_by_its_path_and_suggested_for_a_typo() {
        let gate = GateModule::parse("gates::policy_no_git_ops");
        assert_eq!(gate, Ok(GateModule::PolicyNoGitOps));
        let missing = CheckModule::parse("verifies::quality_test_green").unwrap_err();
        assert_eq!(missing.near, Some("verifies::quality_tests_green"));
    }
}
