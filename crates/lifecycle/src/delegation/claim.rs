//! Exclusive leases on paths: which claims conflict, and whether a fence is still valid.
//!
//! A claim is acquired as a whole and never grows. So no run waits while it has a part of its claim, and there is no
//! deadlock. Leases expire, so no run waits forever.

use bailiwick_model::capability::GateSeverity;
use bailiwick_model::claim::{Claim, Release};
use bailiwick_model::globs::{Area, Overlap};
use bailiwick_model::module::GateModule;
use bailiwick_model::settings::OnOverlap;
use bailiwick_model::well_known::report_path;
use bailiwick_model::{AgentId, Fence};
use bailiwick_policy::Policy;
use bailiwick_policy::policy::Rule;
use bailiwick_policy::tool::matches;
use bailiwick_verify::Change;
use serde::{Deserialize, Serialize};

/// A request for a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Who.
    pub run: AgentId,
    /// The runs above it.
    pub line: Vec<AgentId>,
    /// The repository, by its path.
    pub repository: String,
    /// The claimed paths, as globs.
    pub inside: Vec<String>,
    /// Exceptions from those paths.
    pub except: Vec<String>,
    /// The duration in milliseconds.
    pub lease: u64,
    /// Runs that have ended and left their files to this one: it takes over their claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes_over: Vec<AgentId>,
}

impl ClaimRequest {
    fn replaces(&self, claim: &Claim) -> bool {
        self.takes_over.contains(&claim.run)
    }

    /// The paths that it is on.
    pub fn area(&self) -> Area {
        Area::new(&self.inside, &self.except)
    }

    /// The claim that is created from it.
    pub fn granted(&self, fence: Fence, now: u64) -> Claim {
        Claim {
            fence,
            run: self.run.clone(),
            line: self.line.clone(),
            repository: self.repository.clone(),
            inside: self.inside.clone(),
            except: self.except.clone(),
            taken_at: now,
            leased_until: now.saturating_add(self.lease),
            release: None,
        }
    }
}

/// The paths that an agent may write under its policy; `None` if none. Without a list, every path.
pub fn writable(policy: &Policy) -> Option<(Vec<String>, Vec<String>)> {
    let tools = policy.tools.as_ref();
    let has = |name| tools.is_none_or(|tools| tools.iter().any(|glob| matches(glob, name)));
    // A gate that only warns denies no write.
    let bound = |gate| {
        let blocks = |rule: &Rule| rule.severity == GateSeverity::Block;
        policy.rules.iter().any(|rule| rule.gate == Some(gate) && blocks(rule))
    };
    let inside = match bound(GateModule::ScopeFilesWhitelist) {
        true => policy.whitelist.clone(),
        false => vec!["**".to_owned()],
    };
    let except = match bound(GateModule::ScopeFilesDenylist) {
        true => policy.denylist.clone(),
        false => Vec::new(),
    };
    // An agent without a tool that writes may not write by the shell either.
    let only_reads = policy.all().any(|policy| policy.read_only);
    let writes = !only_reads && (has("Write") || has("Edit")) && !inside.is_empty();
    writes.then_some((inside, except))
}

/// The same with every module of which it has a part, as a whole. What is excepted within such a module is claimed as
/// well.
pub fn with_modules(
    mut inside: Vec<String>,
    mut except: Vec<String>,
    modules: &[String],
) -> (Vec<String>, Vec<String>) {
    let area = Area::new(&inside, &except);
    let meets = |area: &Area, glob: &str| {
        area.overlap(&Area::new(&[glob.to_owned()], &[])) != Overlap::Never
    };
    // A leading slash, so that it is the directory at the root alone.
    let rooted = modules.iter().map(|module| format!("/{module}"));
    let whole: Vec<String> = rooted.filter(|module| meets(&area, module)).collect();
    except.retain(|glob| {
        let excepted = Area::new(std::slice::from_ref(glob), &[]);
        !whole.iter().any(|module| meets(&excepted, module))
    });
    inside.extend(whole.into_iter().filter(|module| !inside.contains(module)).collect::<Vec<_>>());
    (inside, except)
}

/// A conflicting claim, and the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The claim.
    pub claim: Claim,
    /// Where both meet.
    pub at: Overlap,
}

impl Obstacle {
    /// The reason as a sentence.
    pub fn reason(&self) -> String {
        let Self { claim, at } = self;
        format!("`{}` has claim {} there: {}", claim.run, claim.fence, where_both_meet(at))
    }
}

/// The claims that conflict with a request, oldest first.
pub fn obstacles(request: &ClaimRequest, others: &[Claim], now: u64) -> Vec<Obstacle> {
    let live = others.iter().filter(|claim| claim.is_live(now) && !request.replaces(claim));
    meeting(&request.run, &request.line, &request.repository, &request.area(), live)
}

/// The claims that end because this request is granted: expired ones, and those that it takes over.
pub fn overtaken(request: &ClaimRequest, others: &[Claim], now: u64) -> Vec<Fence> {
    let is_over = |claim: &Claim| !claim.is_live(now) || request.replaces(claim);
    let over = others.iter().filter(|claim| claim.release.is_none() && is_over(claim));
    let met = meeting(&request.run, &request.line, &request.repository, &request.area(), over);
    met.into_iter().map(|obstacle| obstacle.claim.fence).collect()
}

/// The first earlier request that waits for paths of this one, with the overlap. It is not overtaken, except by a
/// run whose own line of runs holds those paths, or that takes over the claim on them: the earlier request must wait for
/// these anyway, and waiting for it would be a deadlock.
pub fn ahead<'a>(
    request: &ClaimRequest,
    before: &'a [ClaimRequest],
    claims: &[Claim],
    now: u64,
) -> Option<(&'a ClaimRequest, Overlap)> {
    let is_kin = |claim: &&Claim| request.line.contains(&claim.run) || request.replaces(claim);
    let kin: Vec<Claim> = claims.iter().filter(is_kin).cloned().collect();
    before.iter().find_map(|other| {
        let strange = other.repository == request.repository
            && other.run != request.run
            && !request.line.contains(&other.run)
            && !other.line.contains(&request.run);
        if !strange || !obstacles(other, &kin, now).is_empty() {
            return None;
        }
        match request.area().overlap(&other.area()) {
            Overlap::Never => None,
            at @ (Overlap::At(_) | Overlap::Unclear(_)) => Some((other, at)),
        }
    })
}

/// Describes where two areas overlap.
pub fn where_both_meet(at: &Overlap) -> String {
    match at {
        Overlap::At(path) => format!("both have `{path}`"),
        Overlap::Unclear(why) => why.clone(),
        Overlap::Never => "both are the same".to_owned(),
    }
}

fn meeting<'a>(
    run: &AgentId,
    line: &[AgentId],
    repository: &str,
    area: &Area,
    others: impl Iterator<Item = &'a Claim>,
) -> Vec<Obstacle> {
    let strange = |claim: &&Claim| {
        claim.repository == repository
            && claim.run != *run
            && !line.contains(&claim.run)
            && !claim.line.contains(run)
    };
    let meet = |claim: &Claim| match area.overlap(&claim.area()) {
        Overlap::Never => None,
        at @ (Overlap::At(_) | Overlap::Unclear(_)) => Some(Obstacle { claim: claim.clone(), at }),
    };
    let mut met: Vec<Obstacle> = others.filter(strange).filter_map(meet).collect();
    met.sort_by_key(|obstacle| obstacle.claim.fence);
    met
}

/// The state of a claim, by its fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FenceState {
    /// No other run claimed the paths since. The lease may have expired: then it can be renewed.
    Valid,
    /// It was released or revoked.
    Released(Release),
    /// Another run was granted a higher fence on the same paths since.
    Stale(Box<Obstacle>),
}

/// What a claim still proves, given the later claims of the same repository.
pub fn holding(own: &Claim, later: &[Claim]) -> FenceState {
    use bailiwick_model::claim::ClaimOutcome;
    let later = later.iter().filter(|claim| claim.fence > own.fence);
    let met = meeting(&own.run, &own.line, &own.repository, &own.area(), later);
    match (met.into_iter().next(), own.release) {
        (Some(obstacle), _) => FenceState::Stale(Box::new(obstacle)),
        // An expired claim that no other run has claimed.
        (None, None | Some(Release { outcome: ClaimOutcome::Expired, .. })) => FenceState::Valid,
        (None, Some(release)) => FenceState::Released(release),
    }
}

/// The first path of these changes that an area does not have. The run's own report needs none: it may be
/// written wherever the lists end.
pub fn outside<'a>(area: &Area, run: &AgentId, changes: &'a [Change]) -> Option<&'a str> {
    let report = report_path(run.as_str());
    changes.iter().find_map(|change| {
        let is_free = |path: &str| {
            area.contains_entry(path, change.is_directory()) || path == report && change.is_plain()
        };
        change.paths().find(|path| !is_free(path))
    })
}

/// The result of a claim request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// A new claim.
    Granted(Claim),
    /// The run has the claim already; its lease was extended.
    Renewed(Claim),
    /// Conflicting claims, oldest first. Nothing was claimed.
    Obstructed(Vec<Obstacle>),
}

/// The result of releasing a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// It has ended now.
    Now(Claim),
    /// It had ended before, and stays as it was.
    Before(Claim),
    /// The claim does not exist.
    Unknown,
}

/// What to do about conflicting claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictAction {
    /// Try again later.
    Wait,
    /// Refuse the run.
    Refuse,
}

/// The action that the repository's settings require. After the timeout, the request is refused, because a
/// conflicting lease can be renewed forever.
pub fn next(on_overlap: OnOverlap, waited: u64, timeout: u64) -> ConflictAction {
    match on_overlap {
        OnOverlap::Wait if waited < timeout => ConflictAction::Wait,
        OnOverlap::Wait | OnOverlap::Refuse => ConflictAction::Refuse,
    }
}

#[cfg(test)]
mod tests;
