//! Compiling a policy from the kit: for a task, or for a role with globs of its own.

use std::path::{Path, PathBuf};

use bailiwick_kit::{Bound, bind};
use bailiwick_lifecycle::policy::{self, CompileContext};
use bailiwick_model::{AgentId, Problem, RoleName, Sha256Hex, Source};
use bailiwick_policy::Policy;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::Repository;

use crate::context::{Context, variable};
use crate::failure::Failure;
use crate::sources;

/// What a policy is compiled from.
#[derive(Debug, Clone)]
pub enum PolicySource {
    /// A role, and where it may write.
    Role {
        /// The role.
        role: RoleName,
        /// Where files may be written; globs.
        files: Vec<String>,
        /// Where they may not; globs.
        deny: Vec<String>,
    },
    /// A task.
    Task(PathBuf),
}

/// A policy with its text and digest.
#[derive(Debug, Clone)]
pub struct CompiledPolicy {
    /// The policy.
    pub policy: Policy,
    /// Its file.
    pub json: String,
    /// The SHA-256 of the file, in lower-case hexadecimal.
    pub digest: String,
    /// Warnings.
    pub warnings: Vec<Problem>,
}

impl CompiledPolicy {
    /// The same for what the policy becomes.
    #[must_use]
    pub fn changed(self, change: impl FnOnce(Policy) -> Policy) -> Self {
        let policy = change(self.policy);
        let json = policy.to_json();
        let digest = Sha256Hex::of(json.as_bytes()).to_string();
        Self { policy, json, digest, warnings: self.warnings }
    }
}

/// The policy that was compiled when an agent was spawned: it binds the run to its end.
pub fn recorded(directory: &RunDirectory) -> Result<CompiledPolicy, Failure> {
    let file = directory.path().join("policy.json");
    let unusable =
        |why: String| Failure::general(format!("{} cannot be used: {why}", file.display()));
    let json = std::fs::read_to_string(&file).map_err(|error| unusable(error.to_string()))?;
    let digest = Sha256Hex::of(json.as_bytes()).to_string();
    let policy =
        Policy::read(json.as_bytes(), &digest).map_err(|error| unusable(error.to_string()))?;
    Ok(CompiledPolicy { policy, json, digest, warnings: Vec::new() })
}

/// That a person named neither a role nor a task, and which roles there are.
pub fn unnamed(context: &Context) -> Result<Failure, Failure> {
    let names = sources::working_kit(context)?.role_names()?;
    let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Ok(Failure::refused("say what binds it: --role ROLE or --task FILE")
        .help(format!("roles: {names} (bailiwick roles list says what each may do)")))
}

/// Says from where globs of the command line count, if a person may think of another directory.
pub fn note_root(context: &Context, globs: &[&[String]]) {
    let Some(repository) = context.repository() else { return };
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_elsewhere = real(&context.directory) != real(repository.root());
    if is_elsewhere && globs.iter().any(|list| !list.is_empty()) {
        context.notices.note(format_args!(
            "--files and --deny count from the repository's root, {}",
            repository.root().display()
        ));
    }
}

/// Compiles a policy that binds an agent: with the kit of the commit that is checked out.
pub fn compile(context: &Context, what: &PolicySource) -> Result<CompiledPolicy, Failure> {
    bound(context, what).map(|(_, compiled)| compiled)
}

/// The same, with what it was compiled from.
pub fn bound(context: &Context, what: &PolicySource) -> Result<(Bound, CompiledPolicy), Failure> {
    let repository = context.repository();
    let commit = match &repository {
        Some(repository) => repository.commit("HEAD")?,
        None => None,
    };
    let kit = match (&repository, commit) {
        (Some(repository), Some(commit)) => sources::committed_kit(context, repository, &commit)?,
        _ => sources::working_kit(context)?,
    };
    let bound = sources::bind_committed(context, &kit, &source(context, what)?, "HEAD")?;
    let compiled = of_bound(context, &bound, None, repository.as_ref().map(Repository::root))?;
    Ok((bound, compiled))
}

/// Compiles a policy to look at: from the working copy, and says where that differs from the commit.
pub fn compile_working(context: &Context, what: &PolicySource) -> Result<CompiledPolicy, Failure> {
    bound_working(context, what).map(|(_, compiled)| compiled)
}

/// The same, with what it was compiled from.
pub fn bound_working(
    context: &Context,
    what: &PolicySource,
) -> Result<(Bound, CompiledPolicy), Failure> {
    let (kit, watch) = sources::watched_kit(context)?;
    let bound = bind(&kit, &source(context, what)?)?;
    let repository = context.repository();
    let root = repository.as_ref().map(Repository::root);
    let compiled = of_bound(context, &bound, None, root)?;
    sources::note(context, watch)?;
    Ok((bound, compiled))
}

/// Compiles the policy of a task that is bound already.
pub fn of_bound(
    context: &Context,
    bound: &Bound,
    agent: Option<&AgentId>,
    root: Option<&Path>,
) -> Result<CompiledPolicy, Failure> {
    let policy = policy::of_task(bound, agent, &compile_context(context, bound, root)?)?;
    let json = policy.to_json();
    let digest = Sha256Hex::of(json.as_bytes()).to_string();
    Ok(CompiledPolicy { policy, json, digest, warnings: bound.warnings.clone() })
}

fn source(context: &Context, what: &PolicySource) -> Result<Source, Failure> {
    match what {
        PolicySource::Task(path) => sources::read_task(context, path),
        PolicySource::Role { role, files, deny } => {
            let list = |globs: &[String]| {
                let globs = globs.iter().map(|glob| toml::Value::String(glob.clone()));
                toml::Value::Array(globs.collect())
            };
            let mut text = format!("[task]\nrole = \"{role}\"\n");
            if !files.is_empty() || !deny.is_empty() {
                text += "[scope]\n";
            }
            if !files.is_empty() {
                text += &format!("files-whitelist = {}\n", list(files));
            }
            if !deny.is_empty() {
                text += &format!("files-denylist = {}\n", list(deny));
            }
            Ok(Source::new(format!("role {role}"), text))
        }
    }
}

/// The machine-specific inputs of a policy: bypasses that are set here, temporary directories, and the directories of
/// our records and of the settings of the CLIs.
fn compile_context(
    context: &Context,
    bound: &Bound,
    root: Option<&Path>,
) -> Result<CompileContext, Failure> {
    let mut set_bypass_variables = Vec::new();
    for name in policy::bypass_variables(&bound.capabilities) {
        if variable(&name)?.as_deref() == Some("1") {
            set_bypass_variables.push(name);
        }
    }
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let places = ["/tmp", "/var/tmp"].map(|place| real(Path::new(place)));
    let mut temporary: Vec<String> =
        places.iter().filter_map(|place| place.to_str().map(str::to_owned)).collect();
    temporary.dedup();
    // A checkout in such a directory is no temporary file.
    let checkout = context.repository().map(|repository| real(repository.root()));
    let checkouts = [checkout, root.map(real)].into_iter().flatten();
    let checkouts = checkouts.filter(|root| places.iter().any(|place| root.starts_with(place)));
    let home = variable("HOME")?.map(PathBuf::from);
    let of_clis =
        [".claude", ".claude.json", ".codex", ".gemini", ".config/opencode", ".gitconfig"];
    let of_clis = home.iter().flat_map(|home| of_clis.iter().map(|name| home.join(name)));
    let mut protected = Vec::new();
    let own = [context.state.clone(), context.user_kit.clone()];
    for place in own.into_iter().chain(of_clis).chain(checkouts) {
        let place = std::fs::canonicalize(&place).unwrap_or(place);
        protected.extend(place.to_str().map(str::to_owned));
    }
    Ok(CompileContext { set_bypass_variables, temporary, protected, ..CompileContext::default() })
}
