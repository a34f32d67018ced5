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

/// An amount of Kubernetes above zero, without fractions.
const QUANTITY: &str = "^[1-9][0-9]{0,11}(m|k|M|G|T|Ki|Mi|Gi|Ti)?$";

/// A name of a namespace, which has no dots.
const NAMESPACE: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
/// The maximum length of a name of a namespace.
const MAX_NAMESPACE: i64 = 63;
/// A duration of ten minutes or more.
const TEN_MINUTES: &str = "^0*(([6-9][0-9]{5}|[1-9][0-9]{6,})ms|([6-9][0-9]{2}|[1-9][0-9]{3,})s|[1-9][0-9]+m|[1-9][0-9]*(h|d))$";

pub(super) fn runner_pool() -> Limits {
    let labels = some("self.workerLabels");
    let on_workers = "has(self.runsOn) && self.runsOn == 'workers'";
    let rule = format!("!{labels} || ({on_workers})");
    let cores_rule = format!("!has(self.workerCores) || ({on_workers})");
    let checks_elsewhere = "has(self.checksOn) && self.checksOn == 'workers'";
    let checks_rule = format!("!({checks_elsewhere}) || ({on_workers})");
    let trust_rule = format!("!({checks_elsewhere}) || self.trustTier == 'trusted'");
    let jobs = "has(self.runsOn) && self.runsOn == 'jobs'";
    let is_separate = format!(
        "!({jobs}) || self.trustTier != 'untrusted' || (has(self.job) && has(self.job.__namespace__))"
    );
    let mut limits = vec![
        ("capacity", Limit::Range(1.0, MAX_U32)),
        ("", holds(rule, "labels of workers need `runsOn: workers`")),
        ("", holds(cores_rule, "cores of workers need `runsOn: workers`")),
        ("", holds(checks_rule, "`checksOn: workers` needs `runsOn: workers`")),
        ("", holds(trust_rule, "workers check the work of trusted runs only")),
        ("", holds(format!("!has(self.job) || ({jobs})"), "`job` needs `runsOn: jobs`")),
        ("", holds(is_separate, "an untrusted pool needs a namespace of its own for its Jobs")),
        (
            "job.image",
            Limit::Pattern(
                r"^[^\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+$",
            ),
        ),
        ("job.namespace", Limit::Pattern(NAMESPACE)),
        ("job.namespace", Limit::AtMost(MAX_NAMESPACE)),
        ("job.keepFor", Limit::Pattern(TEN_MINUTES)),
        ("job.resources.cpu", Limit::Pattern(QUANTITY)),
        ("job.resources.memory", Limit::Pattern(QUANTITY)),
        ("job.resources.ephemeralStorage", Limit::Pattern(QUANTITY)),
    ];
    for field in
        ["job.runtimeClass", "job.priorityClass", "job.serviceAccount", "job.imagePullSecrets[]"]
    {
        limits.extend(name(field));
    }
    limits
}
