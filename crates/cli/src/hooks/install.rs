//! Putting the gate into a program's settings.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::policy_file::{CompiledPolicy, PolicySource};
use bailiwick_engine::system;
use bailiwick_model::Source;

use super::agent::{Agent, Scope, Wrapping};
use super::codex_trust::{self, Trust};
use super::disarmed::{self, Part};
use super::draft::{Draft, Readers, missing_directories};
use super::places::{Places, StateFiles};
use super::record::{Bound, Commands, Record, VERSION};
use super::settings_entry::{Made, Position, Shape};
use super::{
    codex_roots, folder_trust, gate_command, other_hooks, plugin, remove, sandboxed_shell,
    shell_prefix,
};
use crate::failure::Failure;

/// What to install.
#[derive(Debug)]
pub struct Request<'a> {
    /// The source of the policy.
    pub what: &'a PolicySource,
    /// The policy.
    pub policy: &'a CompiledPolicy,
    /// The gate's program, with the words in front of its options.
    pub gate: Vec<String>,
    /// Whether settings that prevent hooks from running are fixed.
    pub disarmed: WhenDisarmed,
    /// How allowed shell commands are to run, where the program permits it.
    pub commands: Commands,
}

/// What to do about settings that prevent hooks from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenDisarmed {
    /// Nothing is installed.
    Refuse,
    /// They are mended.
    Mend,
}

/// A planned or performed installation.
#[derive(Debug)]
pub struct PlannedInstall {
    /// The record.
    pub record: Record,
    /// Our own files.
    pub kept: StateFiles,
    /// Settings that were mended.
    pub mended: Vec<String>,
    /// Notes for the person, each with advice.
    pub notes: Vec<(String, String)>,
}

/// Drafts everything; writes nothing.
pub fn plan(
    draft: &mut Draft,
    context: &Context,
    places: &Places,
    agent: Agent,
    scope: &Scope,
    request: &Request<'_>,
) -> Result<PlannedInstall, Failure> {
    if let Some(root) = scope.root().filter(|root| agent == Agent::Codex && is_linked(root)) {
        let text = "Codex reads the hooks of a linked worktree in the main repository, if at all";
        return Err(Failure::usage(format!("{text}, so {} can have none", root.display()))
            .help("install with --user"));
    }
    let kept = places.kept(agent, scope);
    let settings = places.settings(agent, scope);
    let previous = Record::read(draft, &kept)?.and_then(Result::ok);
    let mut mended = mend(draft, context, places, agent, scope, request)?;
    if let Some(elsewhere) = previous.as_ref().filter(|record| record.settings != settings) {
        remove::settings(draft, places, elsewhere)?;
    }
    let earlier = previous.filter(|record| record.settings == settings);
    let mut record = Record {
        version: VERSION,
        agent,
        root: scope.root().cloned(),
        what: Bound::from(request.what),
        kit_root: context.kit_root.as_ref().map(|root| context.directory.join(root)),
        digest: request.policy.digest.clone(),
        gate: request.gate.clone(),
        made: Made::default(),
        made_directories: missing_directories(&settings),
        trust: None,
        commands: request.commands,
        program: None,
        home: None,
        after_trust: None,
        roots: Vec::new(),
        settings,
    };
    if record.changes_commands() {
        record.program = Some(system::own_program()?);
        record.home = Some(places.home(agent));
        require_plain(&gate_command::text(&kept.commands())?, "in the place of a command")?;
    }
    if let Some(earlier) = &earlier {
        // The directories of an earlier install are removed with the last one.
        let mut directories = earlier.made_directories.clone();
        directories.append(&mut record.made_directories);
        record.made_directories = directories;
        record.made = earlier.made;
    }
    let (earlier_trust, earlier_after, earlier_roots) = earlier
        .map(|earlier| (earlier.trust, earlier.after_trust, earlier.roots))
        .unwrap_or_default();
    let mut text = match Shape::of(agent) {
        None => plugin_text(draft, &record, &kept)?,
        Some(shape) => {
            let shape = shape.beside(agent, record.commands);
            let (text, position) = entry(draft, shape, &mut record, &kept, scope)?;
            let (text, after) = after_entry(text, &mut record, &kept, scope)?;
            if agent == Agent::Codex {
                let config = places.codex_config();
                let step = TrustStep { config: &config, when: request.disarmed };
                let hook = Hook { shape, position, earlier: earlier_trust };
                let (trust, what) = step.draft(draft, &mut record, &kept, hook)?;
                record.trust = Some(trust);
                mended.extend(what);
                match after {
                    Some((shape, position)) => {
                        let hook = Hook { shape, position, earlier: earlier_after };
                        let (trust, what) = step.draft(draft, &mut record, &kept, hook)?;
                        record.after_trust = Some(trust);
                        mended.extend(what);
                    }
                    None => {
                        if let Some(earlier) = earlier_after {
                            remove::distrust(draft, &earlier)?;
                        }
                    }
                }
                step.draft_roots(draft, &mut record, &kept, &earlier_roots)?;
            }
            text
        }
    };
    match agent.wrapping() {
        Wrapping::Setting => set_shell(draft, &record, &kept)?,
        // The person who installs again has looked.
        Wrapping::ChangedInput => {
            draft.set(&kept.bypassed(), None, Readers::Owner)?;
        }
    }
    if agent == Agent::Claude {
        text = commands_entry(&text, &mut record, &kept)?;
    }
    // The settings come last: they never name a policy that does not exist yet.
    draft.set(&kept.policy(), Some(request.policy.json.clone()), Readers::Owner)?;
    draft.set(&kept.record(), Some(record.text()?), Readers::Owner)?;
    draft.set(&record.settings, Some(text), Readers::Usual)?;
    let mut notes = Vec::new();
    notes.extend(folder_trust::unread(draft, places, agent, scope)?);
    notes.extend(seen_by_git(context, scope, &record.settings));
    if record.changes_commands() {
        let around = context.repository().map(|repository| repository.root().to_owned());
        let repository = scope.root().cloned().or(around);
        let others = other_hooks::find(draft, places, agent, repository.as_deref())?;
        notes.extend(others.iter().map(|other| other_hook(other, agent)));
    }
    Ok(PlannedInstall { record, kept, mended, notes })
}

/// A note about a hook of others.
pub fn other_hook(other: &other_hooks::Other, agent: Agent) -> (String, String) {
    let text = format!(
        "the hook `{}` in {} is asked about shell commands too",
        other.command,
        other.file.display()
    );
    let advice = format!(
        "if it changes them, {} runs its text or ours; a command that ran without the sandbox ends all further \
         ones",
        agent.name()
    );
    (text, advice)
}

/// Whether this is the top of a worktree that belongs to a repository elsewhere.
fn is_linked(root: &Path) -> bool {
    let pointer = std::fs::read_to_string(root.join(".git")).unwrap_or_default();
    let directory = pointer.strip_prefix("gitdir: ").map(|path| Path::new(path.trim_end()));
    directory.and_then(Path::parent).is_some_and(|parent| parent.ends_with("worktrees"))
}

/// Fixes what prevents hooks from running, or fails.
fn mend(
    draft: &mut Draft,
    context: &Context,
    places: &Places,
    agent: Agent,
    scope: &Scope,
    request: &Request<'_>,
) -> Result<Vec<String>, Failure> {
    let when = request.disarmed;
    let around = context.repository().map(|repository| repository.root().to_owned());
    let repository = scope.root().cloned().or(around);
    let mut mended = Vec::new();
    loop {
        let found = disarmed::find(draft, places, agent, repository.as_deref(), request.commands)?;
        let Some(found) = found.into_iter().next() else { return Ok(mended) };
        let what = format!("{} in {}", found.what, found.file.display());
        if found.part == Part::Sandbox && when == WhenDisarmed::Refuse {
            let text =
                format!("{} would run its commands without the sandbox: {what}", agent.name());
            let help = "take that variable out, add --fix to have that done, or --no-sandbox";
            return Err(Failure::usage(text).help(help));
        }
        match (when, found.mended) {
            (WhenDisarmed::Mend, Some(text)) => {
                draft.set(&found.file, Some(text), Readers::Usual)?;
                mended.push(what);
            }
            (WhenDisarmed::Mend, None) => {
                return Err(refused(agent, &what).help("ask the administrator of this machine"));
            }
            (WhenDisarmed::Refuse, _) => {
                return Err(refused(agent, &what).help("add --fix to have that setting changed"));
            }
        }
    }
}

fn refused(agent: Agent, what: &str) -> Failure {
    Failure::usage(format!("{} would never ask the gate: {what}", agent.name()))
}

fn entry(
    draft: &mut Draft,
    shape: Shape,
    record: &mut Record,
    kept: &StateFiles,
    scope: &Scope,
) -> Result<(String, Position), Failure> {
    let found = draft.source(&record.settings)?;
    let fresh = found.is_none();
    let source =
        found.unwrap_or_else(|| Source::new(record.settings.display().to_string(), "{}\n"));
    let id = scope.id(record.agent);
    let (text, position, made) = shape.put(&source, &id, &record.command(kept)?)?;
    record.made = Made {
        file: record.made.file || fresh,
        hooks: record.made.hooks || made.hooks,
        event: record.made.event || made.event,
        env: record.made.env,
        after: record.made.after,
    };
    Ok((text, position))
}

/// The settings with or without the hook after a call, and its place.
fn after_entry(
    text: String,
    record: &mut Record,
    kept: &StateFiles,
    scope: &Scope,
) -> Result<(String, Option<(Shape, Position)>), Failure> {
    let Some(shape) = Shape::after(record.agent) else { return Ok((text, None)) };
    let source = Source::new(record.settings.display().to_string(), text);
    let id = scope.id(record.agent);
    if !record.changes_commands() {
        let made = Made { hooks: false, ..record.made.for_after() };
        record.made.after = false;
        return Ok((shape.take(&source, &id, made)?, None));
    }
    let (text, position, made) = shape.put(&source, &id, &record.command(kept)?)?;
    record.made.after |= made.event;
    Ok((text, Some((shape, position))))
}

/// Refuses a path that a shell would take apart.
fn require_plain(path: &str, place: &str) -> Result<(), Failure> {
    if path.chars().all(is_plain) {
        return Ok(());
    }
    Err(Failure::usage(format!("{path} cannot be named {place}: it has blanks or quotes"))
        .help("keep Bailiwick's state elsewhere (BAILIWICK_STATE), or install with --no-sandbox"))
}

/// Whether no shell reads more than itself in a character.
fn is_plain(one: char) -> bool {
    one.is_ascii_alphanumeric() || "/._-+@%=,:".contains(one)
}

/// Has the program start its shell commands through ours, or no longer.
fn commands_entry(text: &str, record: &mut Record, kept: &StateFiles) -> Result<String, Failure> {
    let shell = gate_command::text(&kept.shell())?;
    let file = record.settings.display().to_string();
    match record.commands {
        Commands::Sandboxed if !shell.chars().all(is_plain) => Err(Failure::usage(format!(
            "{shell} cannot be named in the settings of Claude Code, which takes it apart at blanks and \
             quotes"
        ))
        .help("keep Bailiwick's state elsewhere (BAILIWICK_STATE), or install with --no-sandbox")),
        Commands::Sandboxed => {
            let (text, made) = shell_prefix::put(&file, text, &shell)?;
            record.made.env |= made;
            Ok(text)
        }
        Commands::Free => {
            let text = shell_prefix::take(&Source::new(file, text), &shell, record.made.env)?;
            record.made.env = false;
            Ok(text)
        }
    }
}

/// Drafts the wrapper of shell commands, or removes it.
fn set_shell(draft: &mut Draft, record: &Record, kept: &StateFiles) -> Result<(), Failure> {
    let text = match record.commands {
        Commands::Free => None,
        Commands::Sandboxed => {
            Some(sandboxed_shell::text(&system::own_program()?, kept, record.agent)?)
        }
    };
    draft.set(&kept.shell(), text, Readers::OwnerRuns)
}

fn plugin_text(draft: &mut Draft, record: &Record, kept: &StateFiles) -> Result<String, Failure> {
    if let Some(found) = draft.text(&record.settings)?
        && !found.starts_with(plugin::HEAD)
    {
        let text = format!("{} is not ours, so it is kept", record.settings.display());
        return Err(Failure::usage(text).help("give that plugin another name"));
    }
    plugin::text(record, kept)
}

/// Making Codex trust our hooks.
struct TrustStep<'a> {
    config: &'a PathBuf,
    when: WhenDisarmed,
}

/// A hook that is to be trusted.
struct Hook {
    shape: Shape,
    position: Position,
    earlier: Option<Trust>,
}

impl TrustStep<'_> {
    fn draft(
        &self,
        draft: &mut Draft,
        record: &mut Record,
        kept: &StateFiles,
        hook: Hook,
    ) -> Result<(Trust, Option<String>), Failure> {
        let command = record.command(kept)?;
        let trust = codex_trust::trust(
            self.config.clone(),
            &record.settings,
            hook.shape,
            hook.position,
            &command,
        );
        let moved = |earlier: &&Trust| (&earlier.config, &earlier.key) != (self.config, &trust.key);
        if let Some(earlier) = hook.earlier.as_ref().filter(moved) {
            remove::distrust(draft, earlier)?;
        }
        let found = draft.source(self.config)?;
        let source = found.unwrap_or_else(|| Source::new(self.config.display().to_string(), ""));
        record.made_directories.extend(missing_directories(self.config));
        let mut config = codex_trust::parse(&source)?;
        let mut mended = None;
        if codex_trust::is_switched_off(&config, &trust.key) {
            let what = format!("hooks.state.\"{}\".enabled is false", trust.key);
            match self.when {
                WhenDisarmed::Mend => codex_trust::switch_on(&mut config, &trust.key),
                WhenDisarmed::Refuse => {
                    return Err(
                        refused(record.agent, &what).help("add --fix to have that setting changed")
                    );
                }
            }
            mended = Some(what);
        }
        codex_trust::put(&mut config, &source, &trust)?;
        draft.set(self.config, Some(config.to_string()), Readers::Usual)?;
        Ok((trust, mended))
    }

    /// Has Codex's own sandbox let commands write to our directories, or no longer.
    fn draft_roots(
        &self,
        draft: &mut Draft,
        record: &mut Record,
        kept: &StateFiles,
        earlier: &[PathBuf],
    ) -> Result<(), Failure> {
        let found = draft.source(self.config)?;
        let source = found.unwrap_or_else(|| Source::new(self.config.display().to_string(), ""));
        let mut config = codex_trust::parse(&source)?;
        if record.changes_commands() {
            record.roots = codex_roots::wanted(kept);
            codex_roots::put(&mut config, &source, &record.roots)?;
        } else {
            codex_roots::take(&mut config, earlier);
        }
        draft.set(self.config, Some(config.to_string()), Readers::Usual)
    }
}

/// The entry names places of this machine, and is nothing to commit.
fn seen_by_git(context: &Context, scope: &Scope, settings: &Path) -> Option<(String, String)> {
    let root = scope.root()?;
    let inside = settings.strip_prefix(root).ok()?.to_str()?;
    let git = context.repository()?.git();
    if git.run(["check-ignore", "--quiet", "--", inside]).is_ok() {
        return None;
    }
    let text = format!("git sees {inside}, whose entry names places of this machine");
    let tracked = git.run(["ls-files", "--error-unmatch", "--", inside]).is_ok();
    let advice = if tracked {
        format!("keep it out of commits: git update-index --skip-worktree {inside}")
    } else {
        format!("keep it out of commits: echo /{inside} >> .git/info/exclude")
    };
    Some((text, advice))
}
