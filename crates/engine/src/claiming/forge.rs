//! Claims of runs that are bound to an issue, stored in a shared git reference: acquired before the agent
//! starts, checked when its work lands, and released when the run has ended.

use std::path::{Path, PathBuf};

use bailiwick_lifecycle::delegation::claim::{ConflictAction, next, with_modules, writable};
use bailiwick_lifecycle::ports::{Landing, RunStore as _, Work as _};
use bailiwick_memory::{
    ClaimError, ClaimRefusal, ClaimRequest, IssueMemory as _, MemoryError, Protocol, Resource,
    ResourceKind, TableClaim, migration_of,
};
use bailiwick_model::{AgentId, IssueName, RunStatus};
use bailiwick_resources::Moment;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::issues::AnyIssues;
use serde::{Deserialize, Serialize};

use super::RULE;
use crate::context::Context;
use crate::failure::Failure;
use crate::issues::OpenIssues;
use crate::verifying::AgentWork;
use crate::{issues, policy_file, system};

/// The file of a run that has such a claim.
const FILE: &str = "forge-claim.json";
/// How often a waiting claim is tried again.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

/// A claim that a run has, or is about to take.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ForgeClaim {
    issue: IssueName,
    /// The repository that the run is of.
    root: PathBuf,
    /// Other machines may have a run of the same name.
    invocation: String,
    resources: Vec<Resource>,
    fence: Option<u64>,
}

/// A run that left its files to another one. Its name alone does not say that a claim is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlierRun {
    /// A run of this machine. The record of its claim is here.
    Here(AgentId),
    /// A run of another machine, which handed the issue on at this time by the clock of the forge.
    Elsewhere { agent: AgentId, handed_at: Moment },
}

/// Whether the claim of an agent was left by one of these runs. Another run can have the same name: on another machine,
/// or later.
fn is_left(
    state: &Path,
    earlier: &[EarlierRun],
    (agent, invocation, claimed_at): (&str, &str, Moment),
) -> Result<bool, Failure> {
    for run in earlier {
        let is_own = match run {
            EarlierRun::Here(id) if id.as_str() == agent => {
                let path = RunDirectory::new(state, agent).path().join(FILE);
                let claim = system::read_json::<ForgeClaim>(&path)?;
                claim.is_some_and(|claim| claim.invocation == invocation)
            }
            // Forges write the times of comments in whole seconds.
            EarlierRun::Elsewhere { agent: name, handed_at } if name.as_str() == agent => {
                claimed_at.millis() / 1_000 <= handed_at.millis() / 1_000
            }
            EarlierRun::Here(_) | EarlierRun::Elsewhere { .. } => false,
        };
        if is_own {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Acquires or renews the claim of a run that is about to start, if the repository uses claims. The claims of the runs
/// that left their files to it are taken over in one step, so that nobody else gets the paths in between.
pub fn take(
    subject: &AgentWork,
    id: &AgentId,
    (issue, opened): (&IssueName, &OpenIssues),
    earlier: &[EarlierRun],
) -> Result<(), Failure> {
    let Some(claims) = &subject.settings.claims else { return Ok(()) };
    let directory = RunDirectory::new(&subject.context.state, id.as_str());
    let policy = policy_file::recorded(&directory)?.policy;
    let Some((inside, except)) = writable(&policy) else { return Ok(()) };
    let (inside, _) = with_modules(inside, except, &claims.modules);
    let path = directory.path().join(FILE);
    let mut claim = match system::read_json::<ForgeClaim>(&path)? {
        Some(claim) if claim.issue == *issue => claim,
        Some(_) | None => ForgeClaim {
            issue: issue.clone(),
            root: subject.repository.root().to_owned(),
            invocation: format!("{id}-{}", system::random_name()?),
            resources: resources(&inside, &claims.modules),
            fence: None,
        },
    };
    // A claim whose answer is lost is found again by its invocation.
    system::write_json(&path, &claim)?;
    let minutes = subject.bound.task.budget.minutes.unwrap_or_default();
    let lease_ms = claims.lease().max(minutes.saturating_mul(60_000));
    let mut request = ClaimRequest {
        agent: id.to_string(),
        invocation: claim.invocation.clone(),
        issue: Some(issue.number),
        resources: claim.resources.clone(),
        lease_ms,
        takes_over: Vec::new(),
    };
    let begun = system::now_ms();
    let mut is_noted = false;
    loop {
        let result = with_claims_of(opened, issue.number, async |protocol, now| {
            protocol.claim(&request, now).await
        })?;
        let refusal = match result {
            Ok(fence) => {
                claim.fence = Some(fence);
                return system::write_json(&path, &claim);
            }
            Err(refusal) => refusal,
        };
        if let ClaimRefusal::VersionUsed(_) = &refusal {
            return Err(Failure::refused(format!("{RULE}: `{id}` may not begin: {refusal}"))
                .help(format!("begin again, with a new version: bailiwick respawn {id}")));
        }
        if let ClaimRefusal::Held { agent, invocation, fence, claimed_at, .. } = &refusal
            && is_left(&subject.context.state, earlier, (agent, invocation, *claimed_at))?
            && !request.takes_over.contains(fence)
        {
            request.takes_over.push(*fence);
            continue;
        }
        if let ClaimRefusal::Held { fence, .. } = &refusal
            && release_ended(&subject.context, issue, *fence)?
        {
            continue;
        }
        let waited = system::now_ms().saturating_sub(begun);
        match next(claims.on_overlap, waited, claims.wait_timeout()) {
            ConflictAction::Wait => {
                if !is_noted {
                    subject.context.notices.note(format_args!("`{id}` waits: {refusal}"));
                    is_noted = true;
                }
                std::thread::sleep(PAUSE);
            }
            ConflictAction::Refuse => {
                return Err(Failure::refused(format!(
                    "{RULE}: `{id}` may not write there now: {refusal}"
                ))
                .help(
                    "land or reject that run first, on the machine that has it, or give this task other files",
                ));
            }
        }
    }
}

/// Notes the claim of a run that was recovered, so that it is given back when the run is rejected or removed.
pub fn adopt(
    context: &Context,
    id: &AgentId,
    issue: &IssueName,
    root: &Path,
    claim: &TableClaim,
) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, id.as_str());
    directory.make().map_err(|error| {
        Failure::general(format!("{} cannot be made: {error}", directory.path().display()))
    })?;
    let claim = ForgeClaim {
        issue: issue.clone(),
        root: root.to_owned(),
        invocation: claim.invocation.clone(),
        resources: claim.resources.clone(),
        fence: Some(claim.fence),
    };
    system::write_json(&directory.path().join(FILE), &claim)
}

/// Returns an error if the landing changes what the run's claim is not on, or if another run acquired it
/// since. The claim is renewed, so that no other run can acquire it meanwhile.
pub fn require(subject: &AgentWork, id: &AgentId, landing: &Landing) -> Result<(), Failure> {
    require_on(subject, id, || {
        let changes = subject.git_work()?.changes(&landing.onto, &landing.tree);
        let changes = changes.map_err(|error| Failure::general(error.to_string()))?;
        let moved = changes.iter().filter(|change| !change.copied);
        let before = moved.filter_map(|change| change.from.clone());
        Ok(before.chain(changes.iter().map(|change| change.path.clone())).collect())
    })
}

/// The same check, before the changed paths are known.
pub fn require_fence(subject: &AgentWork, id: &AgentId) -> Result<(), Failure> {
    require_on(subject, id, || Ok(Vec::new()))
}

fn require_on(
    subject: &AgentWork,
    id: &AgentId,
    paths: impl FnOnce() -> Result<Vec<String>, Failure>,
) -> Result<(), Failure> {
    let directory = RunDirectory::new(&subject.context.state, id.as_str());
    let Some(claim) = system::read_json::<ForgeClaim>(&directory.path().join(FILE))? else {
        return Ok(());
    };
    let refused = |why: &dyn std::fmt::Display| {
        Failure::refused(format!("{RULE}: `{id}` may not land: {why}"))
            .help(format!("begin again from what is there now: bailiwick respawn {id}"))
    };
    let Some(fence) = claim.fence else {
        return Err(refused(&format_args!("it has no claim on {}", claim.issue)));
    };
    let paths = paths()?;
    let lease_ms = subject.settings.claims.as_ref().map_or(0, |claims| claims.lease());
    let result = with_claims(&subject.context, &claim, async |protocol, now| {
        protocol.require_claim(fence, &paths, now, lease_ms).await
    })?;
    result.map_err(|refusal| refused(&refusal))
}

/// Releases the claim of a run that has ended. If the forge rejects the release, the claim expires with its
/// lease.
pub fn release(context: &Context, id: &AgentId) {
    let directory = RunDirectory::new(&context.state, id.as_str());
    if let Err(failure) = release_file(context, &directory.path().join(FILE)) {
        context.notices.note(format_args!(
            "the claim of `{id}` is not given back ({failure}); it ends with its lease"
        ));
    }
}

fn release_file(context: &Context, path: &Path) -> Result<(), Failure> {
    let Some(claim) = system::read_json::<ForgeClaim>(path)? else { return Ok(()) };
    // Without a release the record stays, so that it can be released later.
    release_on_forge(context, &claim)?;
    std::fs::remove_file(path)
        .map_err(|error| Failure::general(format!("{} cannot be removed: {error}", path.display())))
}

fn release_on_forge(context: &Context, claim: &ForgeClaim) -> Result<(), Failure> {
    let invocation = claim.invocation.clone();
    let released = with_claims(context, claim, async |protocol, _| {
        protocol.release_invocation(&invocation).await
    })?;
    issues::note_release(context, released.map_err(Failure::refused_by)?);
    Ok(())
}

/// Releases the claim of a run whose work has left this machine. The run cannot land here without another claim.
pub(super) fn give_back(context: &Context, id: &AgentId) -> Result<(), Failure> {
    let path = RunDirectory::new(&context.state, id.as_str()).path().join(FILE);
    let Some(claim) = system::read_json::<ForgeClaim>(&path)? else { return Ok(()) };
    // First of all: without its fence no landing is let through.
    system::write_json(&path, &ForgeClaim { fence: None, ..claim.clone() })?;
    release_on_forge(context, &claim)
}

/// Releases the claim of a run of this machine that ended without releasing it. False if there is none.
fn release_ended(context: &Context, issue: &IssueName, fence: u64) -> Result<bool, Failure> {
    let Ok(listed) = std::fs::read_dir(context.state.join("runs")) else { return Ok(false) };
    for place in listed.flatten() {
        let path = place.path().join(FILE);
        let Some(claim) = system::read_json::<ForgeClaim>(&path)? else { continue };
        if claim.fence != Some(fence) || claim.issue.repository != issue.repository {
            continue;
        }
        let Some(id) = place.file_name().to_str().and_then(|name| AgentId::parse(name).ok()) else {
            continue;
        };
        let run = context.with_store(async |store| Ok(store.find(&id).await?))?;
        let has_ended = match run.map(|run| run.status) {
            Some(RunStatus::Merged | RunStatus::Rejected) => true,
            Some(RunStatus::Running | RunStatus::Done | RunStatus::Failed) | None => false,
        };
        if has_ended {
            release_file(context, &path)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Updates the claims of the issue that a claim is of.
fn with_claims<T>(
    context: &Context,
    claim: &ForgeClaim,
    work: impl AsyncFnOnce(&Protocol<'_, AnyIssues>, Moment) -> Result<T, ClaimError>,
) -> Result<Result<T, ClaimRefusal>, Failure> {
    let here = Context { directory: claim.root.clone(), ..context.clone() };
    with_claims_of(&issues::open_named(&here, &claim.issue)?, claim.issue.number, work)
}

/// Updates the claims of an issue, with the forge's clock.
fn with_claims_of<T>(
    opened: &OpenIssues,
    number: u64,
    work: impl AsyncFnOnce(&Protocol<'_, AnyIssues>, Moment) -> Result<T, ClaimError>,
) -> Result<Result<T, ClaimRefusal>, Failure> {
    opened.with(async |protocol| {
        let now = protocol.memory.read_issue(number).await?.now;
        match work(protocol, now).await {
            Ok(value) => Ok(Ok(value)),
            Err(ClaimError::Refused(refusal)) => Ok(Err(refusal)),
            Err(ClaimError::Forge(error)) => Err::<_, MemoryError>(error),
        }
    })
}

/// What patterns cover, modules first: they say best why two tasks exclude each other.
fn resources(patterns: &[String], modules: &[String]) -> Vec<Resource> {
    let mut resources: Vec<Resource> =
        patterns.iter().map(|pattern| resource(pattern, modules)).collect();
    resources.sort_by_key(|one| one.kind != ResourceKind::Module);
    resources
}

/// What a pattern covers: a module of the settings, a migration, or a path. A pattern without a directory matches at
/// every depth, so it covers everything.
fn resource(pattern: &str, modules: &[String]) -> Resource {
    let rooted = pattern.strip_prefix('/');
    if let Some(module) = modules.iter().find(|module| rooted == Some(module.as_str())) {
        return Resource::module(module);
    }
    if let Some(migration) = migration_of(pattern) {
        return migration;
    }
    let is_anchored = pattern.trim_end_matches('/').contains('/');
    Resource::file(if is_anchored { pattern } else { "**" })
}

#[cfg(test)]
mod tests {
    use bailiwick_memory::overlap;
    use bailiwick_model::{AgentId, IssueName};
    use bailiwick_resources::Moment;
    use bailiwick_runner::supervisor::RunDirectory;

    use super::{EarlierRun, FILE, ForgeClaim, is_left, resource};
    use crate::system;

    #[test]
    fn claim_of_another_run_of_the_same_name_is_not_taken_over() {
        let state = tempfile::tempdir().unwrap();
        let agent = AgentId::parse("mend-1").unwrap();
        let at = |seconds: u64| Moment::from_millis(seconds * 1_000);
        let left = |earlier: &EarlierRun, agent: &str, invocation: &str, claimed_at: Moment| {
            let earlier = std::slice::from_ref(earlier);
            is_left(state.path(), earlier, (agent, invocation, claimed_at)).unwrap()
        };
        let here = EarlierRun::Here(agent.clone());
        assert!(!left(&here, "mend-1", "mend-1-own", at(10)), "nothing is known of its claim");
        let directory = RunDirectory::new(state.path(), "mend-1");
        std::fs::create_dir_all(directory.path()).unwrap();
        let claim = ForgeClaim {
            issue: "team/app#7".parse::<IssueName>().unwrap(),
            root: state.path().to_owned(),
            invocation: "mend-1-own".to_owned(),
            resources: Vec::new(),
            fence: Some(1),
        };
        system::write_json(&directory.path().join(FILE), &claim).unwrap();
        assert!(left(&here, "mend-1", "mend-1-own", at(10)));
        assert!(!left(&here, "mend-1", "mend-1-of-another-machine", at(10)));
        assert!(!left(&here, "mend-2", "mend-1-own", at(10)));
        let elsewhere = EarlierRun::Elsewhere { agent, handed_at: at(20) };
        assert!(left(&elsewhere, "mend-1", "mend-1-first", at(10)));
        assert!(!left(&elsewhere, "mend-1", "mend-1-later", at(21)), "a live run of that name");
        assert!(!left(&elsewhere, "mend-2", "mend-2-first", at(10)));
    }

    #[test]
    fn pattern_that_matches_at_every_depth_excludes_everything() {
        let excludes =
            |one: &str, other: &str| overlap(&resource(one, &[]), &resource(other, &[]), false);
        assert!(excludes("*.rs", "docs/a.md") && excludes("src/", "docs/src/a.md"));
        assert!(excludes("src/**", "src/parser/lexer.rs") && excludes("/src/**", "src/a.rs"));
        assert!(!excludes("src/**", "docs/**") && !excludes("/Cargo.toml", "src/**"));
    }

    #[test]
    fn modules_and_migrations_are_recognised() {
        let modules = ["src/parser/".to_owned()];
        let kind = |pattern: &str| resource(pattern, &modules).to_string();
        assert_eq!(kind("/src/parser/"), "module src/parser/");
        assert_eq!(kind("src/parser/**"), "file src/parser/**");
        assert_eq!(
            kind("db/migrations/20261119050001_*.sql"),
            "migration db/migrations/20261119050001"
        );
        assert_eq!(kind("db/migrations/7_*.sql"), "file db/migrations/7_*.sql");
    }
}
