//! Which agent a person means. Names count within a repository, ids in the whole ledger.

use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::nearest::nearest_few;
use bailiwick_model::{AgentId, Run, Sha256Hex};
use bailiwick_source_control::Repository;
use bailiwick_store::Store;

use crate::context::Context;
use crate::failure::Failure;

/// How many characters of the repository's digest are appended when two agents share a name.
const SUFFIX_LENGTHS: [usize; 3] = [6, 12, 24];

/// The longest id.
const MAX_ID: usize = 64;

/// The runs that a view shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of all repositories.
    AllRepositories,
    /// Those of the repository with this git directory, and those of which it is not known.
    Repository(String),
}

impl Scope {
    /// This repository, unless a person asks for all or is in none.
    pub fn observe(context: &Context, all_repositories: bool) -> Result<Self, Failure> {
        adopt(context)?;
        Ok(match current_repository(context).filter(|_| !all_repositories) {
            Some(repository) => Self::Repository(repository),
            None => Self::AllRepositories,
        })
    }

    /// Whether a run is shown.
    pub fn includes(&self, run: &Run) -> bool {
        match (self, &run.repository) {
            (Self::AllRepositories, _) | (Self::Repository(_), None) => true,
            (Self::Repository(expected), Some(repository)) => expected == repository,
        }
    }
}

/// The git directory that all checkouts of the repository around us share.
pub fn current_repository(context: &Context) -> Option<String> {
    // A directory that git refuses to look at is in no repository.
    context.repository().and_then(|repository| place(&repository).ok())
}

/// A repository as a person would write it.
pub fn shown(repository: Option<&str>) -> String {
    repository.map_or("-", |place| place.strip_suffix("/.git").unwrap_or(place)).to_owned()
}

/// The repository of a run; the one around us where the ledger does not say.
pub fn repository_of(context: &Context, run: &Run) -> Option<Repository> {
    let recorded = run.repository.as_deref().and_then(|place| place.strip_suffix("/.git"));
    match recorded {
        Some(root) => Repository::discover(Path::new(root)),
        None => context.repository(),
    }
}

/// How many similar agents an error names.
const MAX_SUGGESTIONS: usize = 3;

/// The id of the agent that a person names; an error that says who may be meant, or how to list all, if there
/// is none.
pub fn require(context: &Context, name: &AgentId) -> Result<AgentId, Failure> {
    let id = resolve(context, name)?;
    if is_known(context, &id)? {
        return Ok(id);
    }
    Err(Failure::refused(format!("there is no agent `{name}`")).help(suggestion(context, name)?))
}

/// Whether an agent has run or is in the ledger. Sessions at a person's terminal are not in the ledger.
fn is_known(context: &Context, id: &AgentId) -> Result<bool, Failure> {
    if !context.database.exists() {
        return Ok(false);
    }
    context.with_store(async |store| {
        Ok(store.find(id).await?.is_some() || !store.attempts(Some(id)).await?.is_empty())
    })
}

/// An error that names similar agents of this repository and the command that lists all.
pub fn suggestion(context: &Context, name: &AgentId) -> Result<String, Failure> {
    let list = "`bailiwick ps --all` lists the agents of this repository";
    if !context.database.exists() {
        return Ok(list.to_owned());
    }
    let scope = Scope::observe(context, false)?;
    let mut runs = context.with_store(async |store| Ok(store.list(None).await?))?;
    runs.retain(|run| scope.includes(run));
    let names = runs.iter().map(|run| run.name.as_str());
    let near: Vec<String> = nearest_few(name.as_str(), names, MAX_SUGGESTIONS)
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    Ok(match near.as_slice() {
        [] => list.to_owned(),
        near => format!("did you mean {}? {list}", near.join(" or ")),
    })
}

/// The id of the agent that a person names. An id that is not in the ledger is returned unchanged: it may be
/// a session at a terminal, and the lookup reports it as missing.
pub fn resolve(context: &Context, name: &AgentId) -> Result<AgentId, Failure> {
    if !context.database.exists() {
        return Ok(name.clone());
    }
    adopt(context)?;
    let found = context.with_store(async |store| Ok(store.runs_named(name).await?))?;
    let here = current_repository(context);
    match choose(&found, name, here.as_deref()) {
        Choice::Nobody => Ok(name.clone()),
        Choice::Here(run) => Ok(run.id.clone()),
        Choice::Elsewhere(run) => {
            if here.is_some() {
                let place = shown(run.repository.as_deref());
                context.notices.note(format_args!("`{name}` is an agent of {place}"));
            }
            Ok(run.id.clone())
        }
        Choice::Several(runs) => Err(ambiguous(name, &runs)),
    }
}

/// Returns an error unless a run belongs to this repository, as far as that is known.
pub fn require_here(run: &Run, repository: &Repository) -> Result<(), Failure> {
    let Some(recorded) = &run.repository else { return Ok(()) };
    // A repository that was moved is known by its worktrees alone, which git compares.
    if !Path::new(recorded).exists() || *recorded == place(repository)? {
        return Ok(());
    }
    let place = shown(Some(recorded));
    Err(Failure::refused(format!("`{}` is an agent of {place}, not of this repository", run.name))
        .help(format!("run the command there: cd {place}")))
}

/// The id for an agent that is to be called `name` in a repository: the name, unless an agent of another
/// repository has it for its id.
pub fn id_for(context: &Context, repository: &str, name: &AgentId) -> Result<AgentId, Failure> {
    adopt(context)?;
    let mut candidates = vec![name.clone()];
    for length in SUFFIX_LENGTHS {
        candidates.push(with_suffix(name, repository, length)?);
    }
    let find = |id: &AgentId| {
        let id = id.clone();
        context.with_store(async |store| Ok(store.runs_named(&id).await?))
    };
    // An interrupted spawn continues; a name that is taken here is refused by the plan.
    let named = find(name)?;
    let own = named.iter().find(|run| run.repository.as_deref() == Some(repository));
    if let Some(run) = own.filter(|run| run.name == *name) {
        return Ok(run.id.clone());
    }
    for candidate in candidates {
        let is_elsewhere = |run: &Run| {
            let known = run.repository.as_deref();
            run.id == candidate && known.is_some() && known != Some(repository)
        };
        if !find(&candidate)?.iter().any(is_elsewhere) {
            return Ok(candidate);
        }
    }
    Err(Failure::refused(format!("no id is free for `{name}`; choose another --agent-id")))
}

fn with_suffix(name: &AgentId, repository: &str, length: usize) -> Result<AgentId, Failure> {
    let digest = Sha256Hex::of(repository).to_string();
    let suffix: String = digest.chars().take(length).collect();
    let room = MAX_ID.saturating_sub(suffix.len() + 1);
    let stem: String = name.as_str().chars().take(room).collect();
    AgentId::parse(&format!("{stem}-{suffix}")).map_err(|error| Failure::refused(error.to_string()))
}

enum Choice<'a> {
    Nobody,
    Here(&'a Run),
    Elsewhere(&'a Run),
    Several(Vec<&'a Run>),
}

/// A name of this repository goes first, then an id of it or of no known repository, then others.
fn choose<'a>(found: &'a [Run], name: &AgentId, here: Option<&str>) -> Choice<'a> {
    let is_here = |run: &Run| here.is_some() && run.repository.as_deref() == here;
    let by_name = found.iter().find(|run| is_here(run) && run.name == *name);
    let by_id = || {
        let known = |run: &&Run| is_here(run) || run.repository.is_none();
        found.iter().filter(known).find(|run| run.id == *name)
    };
    if let Some(run) = by_name.or_else(by_id) {
        return Choice::Here(run);
    }
    match found {
        [] => Choice::Nobody,
        [only] => Choice::Elsewhere(only),
        several => Choice::Several(several.iter().collect()),
    }
}

fn ambiguous(name: &AgentId, runs: &[&Run]) -> Failure {
    let list: Vec<String> = runs
        .iter()
        .map(|run| format!("{} (id {})", shown(run.repository.as_deref()), run.id))
        .collect();
    Failure::refused(format!("several repositories have an agent `{name}`: {}", list.join(", ")))
        .help("run the command in its repository, or use an id that only one of them has")
}

/// Records the repository of older runs, if their worktree still names it.
fn adopt(context: &Context) -> Result<(), Failure> {
    if !context.database.exists() {
        return Ok(());
    }
    context.with_store(async |store: &Store| {
        for run in store.without_repository().await? {
            let worktree = run.worktree_path.as_deref().map(Path::new);
            if let Some(repository) = worktree.and_then(repository_of_worktree) {
                store.set_repository(&run.id, &repository).await?;
            }
        }
        Ok(())
    })
}

/// The git directory that a worktree belongs to, if both say so.
fn repository_of_worktree(worktree: &Path) -> Option<String> {
    let text = std::fs::read_to_string(worktree.join(".git")).ok()?;
    let private = PathBuf::from(text.trim().strip_prefix("gitdir: ")?);
    let back = std::fs::read_to_string(private.join("gitdir")).ok()?;
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if real(Path::new(back.trim()))? != real(&worktree.join(".git"))? {
        return None;
    }
    let worktrees = private.parent().filter(|parent| parent.ends_with("worktrees"))?;
    real(worktrees.parent()?)?.to_str().map(str::to_owned)
}

/// What all checkouts of a repository have in common.
pub fn place(repository: &Repository) -> Result<String, Failure> {
    let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let place = repository.git().line(common)?;
    let real = std::fs::canonicalize(&place)
        .map_err(|error| Failure::general(format!("{place} cannot be used: {error}")))?;
    Ok(real.display().to_string())
}

#[cfg(test)]
mod tests {
    use bailiwick_model::{RunState, RunStatus};

    use super::*;

    fn id(text: &str) -> AgentId {
        AgentId::parse(text).unwrap()
    }

    fn run(key: &str, name: &str, repository: Option<&str>) -> Run {
        Run {
            id: id(key),
            branch: format!("agent/{key}"),
            parent_branch: None,
            spec_sha: String::new(),
            status: RunStatus::Running,
            started_ts: 0,
            finished_ts: None,
            summary: None,
            worktree_path: None,
            dna: None,
            creator_id: None,
            fork_parent_id: None,
            cost_cents: 0,
            provider: String::new(),
            model: String::new(),
            half_spawned: false,
            base: None,
            name: id(name),
            repository: repository.map(str::to_owned),
            state: RunState::Running,
        }
    }

    fn describe_choice(found: &[Run], name: &str, here: Option<&str>) -> String {
        match choose(found, &id(name), here) {
            Choice::Nobody => "nobody".to_owned(),
            Choice::Here(run) => format!("here {}", run.id),
            Choice::Elsewhere(run) => format!("elsewhere {}", run.id),
            Choice::Several(runs) => format!("{} choices", runs.len()),
        }
    }

    #[test]
    fn name_is_looked_up_in_the_current_repository_first() {
        let both = [run("fix", "fix", Some("/a/.git")), run("fix-0a1b2c", "fix", Some("/b/.git"))];
        assert_eq!(describe_choice(&both, "fix", Some("/a/.git")), "here fix");
        assert_eq!(describe_choice(&both, "fix", Some("/b/.git")), "here fix-0a1b2c");
        assert_eq!(describe_choice(&both, "fix", Some("/c/.git")), "2 choices");
        assert_eq!(describe_choice(&both, "fix", None), "2 choices");
        let by_id = &both[1..];
        assert_eq!(describe_choice(by_id, "fix-0a1b2c", Some("/a/.git")), "elsewhere fix-0a1b2c");
        assert_eq!(describe_choice(by_id, "fix-0a1b2c", Some("/b/.git")), "here fix-0a1b2c");
        assert_eq!(describe_choice(&[], "fix", None), "nobody");
    }

    #[test]
    fn run_without_a_known_repository_is_found_everywhere() {
        let old = [run("fix", "fix", None)];
        assert_eq!(describe_choice(&old, "fix", Some("/a/.git")), "here fix");
        assert_eq!(describe_choice(&old, "fix", None), "here fix");
    }

    #[test]
    fn id_with_a_suffix_is_a_valid_id() {
        for name in ["fix".to_owned(), "a".repeat(64), format!("a{}", ".a".repeat(31))] {
            for length in SUFFIX_LENGTHS {
                let suffixed = with_suffix(&id(&name), "/b/.git", length).unwrap();
                assert!(suffixed.as_str().len() <= MAX_ID && suffixed != id(&name), "{suffixed}");
            }
        }
    }
}
