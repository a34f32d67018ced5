//! Rules, runs, and where they work.

use bailiwick_resources::MAX_OWN_WORK_DEPTH;

use super::agents::write_back;
use super::{Limit, Limits, MAX_U32, holds, name, some};

/// `owner/name`; neither is `.` or `..`.
const FULL_NAME: &str = r"^([A-Za-z0-9_-]|\.[A-Za-z0-9_-]|\.\.[A-Za-z0-9_.-])[A-Za-z0-9_.-]*/([A-Za-z0-9_-]|\.[A-Za-z0-9_-]|\.\.[A-Za-z0-9_.-])[A-Za-z0-9_.-]*$";

pub(super) fn trigger_rule() -> Limits {
    let mut limits = vec![
        ("sources", Limit::NotEmpty),
        ("ownWorkDepth", Limit::Range(0.0, f64::from(MAX_OWN_WORK_DEPTH))),
        ("contextBundleTemplate.redactSecrets", Limit::Only(vec![true.into()])),
        write_back("writeBackPolicy.modes"),
        (
            "concurrencyPolicy",
            Limit::AlsoCalled { field: "maxActive", also: "maxActivePerPullRequest" },
        ),
        (
            "",
            holds(
                "('schedule' in self.sources) == has(self.schedule)",
                "the source `schedule` and a schedule belong together",
            ),
        ),
    ];
    limits.extend(name("agentStack"));
    limits.extend(name("taskKind"));
    limits
}

pub(super) fn run() -> Limits {
    vec![
        ("repository", Limit::NotEmpty),
        ("ref", Limit::Pattern("^refs/")),
        write_back("writeBackPolicy.modes"),
    ]
}

pub(super) fn repository() -> Limits {
    vec![
        ("fullName", Limit::Pattern(FULL_NAME)),
        ("checkout", Limit::Pattern("^/")),
        ("accounts{}[]", Limit::Pattern("^[^@/][^/]*$")),
        (
            "",
            holds(
                "!(self.forge in ['github', 'gitea']) || has(self.apiUrl)",
                "this forge needs `apiUrl`: the address of its API",
            ),
        ),
    ]
}

pub(super) fn runner_pool() -> Limits {
    let labels = some("self.workerLabels");
    let on_workers = "has(self.runsOn) && self.runsOn == 'workers'";
    let rule = format!("!{labels} || ({on_workers})");
    let cores_rule = format!("!has(self.workerCores) || ({on_workers})");
    let checks_elsewhere = "has(self.checksOn) && self.checksOn == 'workers'";
    let checks_rule = format!("!({checks_elsewhere}) || ({on_workers})");
    let trust_rule = format!("!({checks_elsewhere}) || self.trustTier == 'trusted'");
    vec![
        ("capacity", Limit::Range(1.0, MAX_U32)),
        ("", holds(rule, "labels of workers need `runsOn: workers`")),
        ("", holds(cores_rule, "cores of workers need `runsOn: workers`")),
        ("", holds(checks_rule, "`checksOn: workers` needs `runsOn: workers`")),
        ("", holds(trust_rule, "workers check the work of trusted runs only")),
    ]
}
