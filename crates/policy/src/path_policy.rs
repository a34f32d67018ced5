//! The path limits of a policy, to enforce by mounts: which files of a worktree may change, by any program.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bailiwick_model::capability::GateSeverity;
use bailiwick_model::module::GateModule;
use bailiwick_model::well_known::{is_manifest, is_rule, report_path};

use crate::paths::Globs;
use crate::policy::Policy;

/// Above this many, files outside of the scope are protected by directory: a mount for each would cost more
/// than a run's start may.
const MAX_PROTECTED_FILES: usize = 4_096;

/// Which paths of a worktree may change.
#[derive(Debug, Clone)]
pub struct PathPolicy {
    limits: Vec<PathLimit>,
    /// The path of the report, which is always writable.
    report: Option<String>,
}

#[derive(Debug, Clone)]
struct PathLimit {
    capability: String,
    forbids: ForbiddenPaths,
}

#[derive(Debug, Clone)]
enum ForbiddenPaths {
    Everything,
    AllBut(Globs),
    These(Globs),
    Rules,
    Manifests,
}

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnforcedBy {
    /// The gate, which reads the text of calls.
    Text,
    /// The gate, and the mounts of a full sandbox, which bind every program.
    Kernel,
}

impl EnforcedBy {
    /// What enforces the limit of a gate.
    pub fn of(gate: GateModule) -> Self {
        match gate {
            GateModule::ScopeFilesWhitelist
            | GateModule::ScopeFilesDenylist
            | GateModule::ScopeNoRuleEdits
            | GateModule::SafetyNoDepBump
            | GateModule::PolicyNoGitOps
            | GateModule::PolicyGitReadOnly => Self::Kernel,
            GateModule::SafetyNoMassDelete
            | GateModule::ToolsBashAllowlist
            | GateModule::ToolsDenyTools => Self::Text,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Kernel => "kernel",
        }
    }
}

/// A file of the base commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    /// Relative to the root of the worktree. Limits are applied to it as text.
    pub path: PathBuf,
    pub kind: TrackedKind,
}

/// The kind of a tracked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackedKind {
    /// A file with contents.
    File,
    /// A symbolic link. What it leads to is protected by its own path.
    Link,
    /// The directory of a submodule.
    Submodule,
}

/// How a worktree is mounted for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountPlan {
    /// Directories that can be written, from the root of the worktree; the empty path is all of it. What is
    /// written elsewhere goes to scratch space.
    pub writable: Vec<String>,
    /// Files and directories that can only be read.
    pub protected: Vec<PathBuf>,
}

impl Tracked {
    fn text(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }
}

impl PathPolicy {
    /// The limits on paths of a policy, and of all above it.
    pub fn of(policy: &Policy) -> Self {
        let mut limits = Vec::new();
        for policy in policy.all() {
            if policy.read_only {
                limits.push(PathLimit {
                    capability: "template::read-only".to_owned(),
                    forbids: ForbiddenPaths::Everything,
                });
            }
            for rule in policy.rules.iter().filter(|rule| rule.severity == GateSeverity::Block) {
                let forbids = match rule.gate {
                    Some(GateModule::ScopeFilesWhitelist) => {
                        ForbiddenPaths::AllBut(Globs::parse(&policy.whitelist))
                    }
                    Some(GateModule::ScopeFilesDenylist) if !policy.denylist.is_empty() => {
                        ForbiddenPaths::These(Globs::parse(&policy.denylist))
                    }
                    Some(GateModule::ScopeNoRuleEdits) => ForbiddenPaths::Rules,
                    Some(GateModule::SafetyNoDepBump) if !policy.dependencies_may_change => {
                        ForbiddenPaths::Manifests
                    }
                    Some(
                        GateModule::ScopeFilesDenylist
                        | GateModule::SafetyNoDepBump
                        | GateModule::PolicyNoGitOps
                        | GateModule::PolicyGitReadOnly
                        | GateModule::SafetyNoMassDelete
                        | GateModule::ToolsBashAllowlist
                        | GateModule::ToolsDenyTools,
                    )
                    | None => continue,
                };
                limits.push(PathLimit { capability: rule.capability.clone(), forbids });
            }
        }
        Self { limits, report: policy.agent.as_deref().map(report_path) }
    }

    /// The capability that forbids to change this path, from the root of the worktree.
    pub fn forbids(&self, path: &str) -> Option<&str> {
        self.forbids_beside(path, |_| false)
    }

    /// The same if some directories of the path were files before.
    pub fn forbids_beside(&self, path: &str, was_file: impl Fn(&str) -> bool) -> Option<&str> {
        if self.report.as_deref() == Some(path) {
            return None;
        }
        let forbids = |limit: &&PathLimit| match &limit.forbids {
            ForbiddenPaths::Everything => true,
            ForbiddenPaths::AllBut(globs) => !globs.matches_beside(path, false, &was_file),
            ForbiddenPaths::These(globs) => globs.matches(path, false),
            ForbiddenPaths::Rules => is_rule(path),
            ForbiddenPaths::Manifests => is_manifest(path),
        };
        self.limits.iter().find(forbids).map(|limit| limit.capability.as_str())
    }

    /// Whether every path may change.
    pub fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }

    /// How to mount a worktree that has these files.
    pub fn mounts(&self, tracked: &[Tracked]) -> MountPlan {
        let mut writable = self.roots(tracked);
        let within = |path: &str, roots: &[String]| roots.iter().any(|root| is_below(path, root));
        let forbidden = tracked.iter().filter(|entry| {
            let text = entry.text();
            let seen = entry.kind != TrackedKind::Link || is_rule(&text);
            seen && self.forbids(&text).is_some()
        });
        let (inside, outside): (Vec<&Tracked>, Vec<&Tracked>) =
            forbidden.partition(|entry| within(&entry.text(), &writable));
        let path = |entry: &&Tracked| entry.path.clone();
        let mut protected: Vec<PathBuf> = inside.iter().map(path).collect();
        match outside.len() > MAX_PROTECTED_FILES {
            false => protected.extend(outside.iter().map(path)),
            true => protected.extend(tops(&outside, &writable)),
        }
        if let Some(report) = &self.report
            && !within(report, &writable)
            && let Some((directory, _)) = report.rsplit_once('/')
            && !writable.is_empty()
        {
            writable.push(directory.to_owned());
        }
        MountPlan { writable, protected }
    }

    /// The directories below which something may change.
    fn roots(&self, tracked: &[Tracked]) -> Vec<String> {
        let is_directory = |path: &str| {
            let first = tracked.iter().find(|entry| is_below(&entry.text(), path));
            let submodule = |entry: &Tracked| entry.kind == TrackedKind::Submodule;
            first.is_some_and(|entry| entry.text() != path || submodule(entry))
        };
        let mut roots = BTreeSet::from([String::new()]);
        for limit in &self.limits {
            let other = match &limit.forbids {
                ForbiddenPaths::Everything => BTreeSet::new(),
                ForbiddenPaths::AllBut(globs) => globs.directories(is_directory),
                ForbiddenPaths::These(_) | ForbiddenPaths::Rules | ForbiddenPaths::Manifests => {
                    continue;
                }
            };
            roots = both(&roots, &other);
        }
        let outermost =
            |root: &&String| !roots.iter().any(|other| other != *root && is_below(root, other));
        roots.iter().filter(outermost).cloned().collect()
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The directories that are below one of each.
fn both(some: &BTreeSet<String>, others: &BTreeSet<String>) -> BTreeSet<String> {
    let pairs = some.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
    pairs
        .filter_map(|(one, other)| match (is_below(one, other), is_below(other, one)) {
            (true, _) => Some(one.clone()),
            (false, true) => Some(other.clone()),
            (false, false) => None,
        })
        .collect()
}

/// The outermost directories and files that have these files and nothing that can be written.
fn tops(files: &[&Tracked], writable: &[String]) -> BTreeSet<PathBuf> {
    let holds = |part: &Path| writable.iter().any(|root| is_below(root, &part.to_string_lossy()));
    let top = |path: &Path| {
        let mut parts: Vec<&Path> = path.ancestors().collect();
        // The last is the root.
        parts.pop();
        parts.into_iter().rev().find(|part| !holds(part)).unwrap_or(path).to_owned()
    };
    files.iter().map(|entry| top(&entry.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(whitelist: &[&str], denylist: &[&str], gates: &[&str]) -> PathPolicy {
        let rule = |gate: &&str| {
            json!({
                "capability": format!("of::{gate}"), "gate": format!("gates::{gate}"),
                "tools": ["*"], "severity": "block",
            })
        };
        let policy = json!({
            "format": 1, "role": "test", "agent": "one", "tools": null,
            "rules": gates.iter().map(rule).collect::<Vec<_>>(),
            "whitelist": whitelist, "denylist": denylist, "escalation": "ask-via-return",
        });
        PathPolicy::of(&serde_json::from_value(policy).unwrap())
    }

    fn files(paths: &[&str]) -> Vec<Tracked> {
        let file = |path: &&str| Tracked { path: path.into(), kind: TrackedKind::File };
        paths.iter().map(file).collect()
    }

    const TREE: [&str; 6] =
        ["AGENTS.md", "Cargo.toml", "docs/a.md", "src/lib.rs", "src/sub/Cargo.toml", "tests/a.rs"];
    const WHITELIST: &str = "scope_files_whitelist";
    const REPORT: &str = ".claude/agents/one";

    #[test]
    fn directory_of_the_scope_is_writable_and_the_rest_protected() {
        let plan = policy(&["src/**"], &[], &[WHITELIST]).mounts(&files(&TREE));
        assert_eq!(plan.writable, ["src", REPORT]);
        assert_eq!(
            plan.protected,
            ["AGENTS.md", "Cargo.toml", "docs/a.md", "tests/a.rs"].map(PathBuf::from)
        );
    }

    #[test]
    fn files_forbidden_by_other_limits_are_protected_within_the_scope() {
        let gates =
            [WHITELIST, "scope_files_denylist", "safety_no_dep_bump", "scope_no_rule_edits"];
        let policy = policy(&["src/**"], &["src/lib.rs"], &gates);
        let plan = policy.mounts(&files(&TREE));
        assert_eq!(plan.protected[..2], ["src/lib.rs", "src/sub/Cargo.toml"].map(PathBuf::from));
        assert_eq!(policy.forbids("src/new/package.json"), Some("of::safety_no_dep_bump"));
        assert_eq!(policy.forbids("src/new.rs"), None);
        assert_eq!(policy.forbids(".claude/agents/one/review.md"), None);
    }

    #[test]
    fn file_or_pattern_in_a_directory_makes_that_directory_writable() {
        for (glob, root) in [
            ("src/lib.rs", "src"),
            ("src/*.rs", "src"),
            ("/src", "src"),
            ("src/sub", "src/sub"),
            ("new/deep/**", "new/deep"),
        ] {
            let plan = policy(&[glob], &[], &[WHITELIST]).mounts(&files(&TREE));
            assert_eq!(plan.writable, [root, REPORT], "{glob}");
        }
        for glob in ["**/*.rs", "README.md", "*.rs", "src"] {
            let plan = policy(&[glob], &[], &[WHITELIST]).mounts(&files(&TREE));
            assert_eq!(plan.writable, [""], "{glob}");
        }
        let plan = policy(&["src/lib.rs"], &[], &[WHITELIST]).mounts(&files(&TREE));
        assert_eq!(
            plan.protected[0],
            Path::new("src/sub/Cargo.toml"),
            "other directories must stay protected"
        );
    }

    #[test]
    fn without_a_whitelist_everything_else_is_writable() {
        let plan = policy(&[], &["docs/**"], &["scope_files_denylist"]).mounts(&files(&TREE));
        assert_eq!(plan.writable, [""]);
        assert_eq!(plan.protected, [PathBuf::from("docs/a.md")]);
        let plan = policy(&[], &[], &[WHITELIST]).mounts(&files(&TREE));
        assert!(plan.writable.is_empty() && plan.protected.len() == TREE.len());
    }

    #[test]
    fn limits_of_all_ancestors_narrow_the_scope() {
        let own_policy = json!({"format": 1, "role": "own", "tools": null, "whitelist": ["src/**", "docs/**"],
            "rules": [{"capability": "own", "gate": "gates::scope_files_whitelist", "tools": ["*"],
            "severity": "block"}], "escalation": "ask-via-return"});
        let mut parent = own_policy.clone();
        parent["whitelist"] = json!(["src/sub/**", "docs/a.md"]);
        let (own_policy, parent): (Policy, Policy) =
            (serde_json::from_value(own_policy).unwrap(), serde_json::from_value(parent).unwrap());
        let policy = PathPolicy::of(&own_policy.with_ancestors_of(&parent));
        assert_eq!(policy.mounts(&files(&TREE)).writable, ["docs", "src/sub"]);
        assert!(policy.forbids("src/lib.rs").is_some() && policy.forbids("src/sub/x").is_none());
    }

    #[test]
    fn too_many_files_are_protected_by_directory() {
        let many_paths: Vec<String> =
            (0..=MAX_PROTECTED_FILES).map(|n| format!("a/b/{n}")).collect();
        let mut tracked = files(&["a/src/lib.rs", "top"]);
        tracked.extend(files(&many_paths.iter().map(String::as_str).collect::<Vec<_>>()));
        let plan = policy(&["a/src/**"], &[], &[WHITELIST]).mounts(&tracked);
        assert_eq!(plan.protected, ["a/b", "top"].map(PathBuf::from));
    }

    #[test]
    fn link_is_protected_if_it_is_a_rule_file() {
        let mut tracked = files(&["src/lib.rs"]);
        for path in ["latest", "CLAUDE.md"] {
            tracked.push(Tracked { path: path.into(), kind: TrackedKind::Link });
        }
        let gates = [WHITELIST, "scope_no_rule_edits"];
        let plan = policy(&["src/**"], &[], &gates).mounts(&tracked);
        assert_eq!(plan.protected, [PathBuf::from("CLAUDE.md")]);
    }
}
