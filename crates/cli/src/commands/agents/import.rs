//! `bailiwick agents import`: templates from the agent files of other programs.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::sources::REPOSITORY_KIT;
use bailiwick_engine::system;
use bailiwick_kit::foreign::{
    self, Effect, Format as Foreign, FoundAgentFile, Imported, Options, render,
};
use bailiwick_model::{Problem, Source};
use bailiwick_source_control::DirectoryTree;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{self, BOLD, DIM, Format, FormatOption, GREEN, RED, YELLOW, styled};

/// Create templates from the agent files of Claude Code, Codex, Gemini CLI or OpenCode
///
/// An import never allows more than its original: what a template cannot express is dropped with a
/// note, or the file is refused. Without a path, the directories where those programs keep their
/// agents are searched. A SKILL.md or an AGENTS.md can be named as well.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick agents import --dry-run\n  bailiwick agents import \
                        .claude/agents/reviewer.md\n  bailiwick agents import --from codex -o json"
)]
pub struct Import {
    /// The files; all that are found in the repository if none is named
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The program that the files are for; guessed from their location by default
    #[arg(long, value_name = "PROGRAM")]
    from: Option<From>,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite existing templates
    #[arg(long)]
    force: bool,
    /// Ignore this unknown key, because it limits nothing
    #[arg(long, value_name = "KEY")]
    drop: Vec<String>,
    #[command(flatten)]
    format: FormatOption,
}

/// A program that has agent files.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum From {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl From {
    fn format(self) -> Foreign {
        match self {
            Self::Claude => Foreign::Claude,
            Self::Codex => Foreign::Codex,
            Self::Gemini => Foreign::Gemini,
            Self::Opencode => Foreign::Opencode,
        }
    }
}

/// A template that can be written.
struct Ready {
    file: String,
    imported: Imported,
    target: PathBuf,
    shown: String,
}

/// A file that cannot be one.
struct Refused {
    file: String,
    problems: Vec<Problem>,
}

#[derive(Default)]
struct Sorted {
    ready: Vec<Ready>,
    refused: Vec<Refused>,
    /// Found on the way, and no agents.
    passed_over: Vec<String>,
}

impl Import {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let directory = agents_directory(context)?;
        let sorted = self.sorted(context, &directory)?;
        if !self.dry_run {
            if !sorted.ready.is_empty() {
                std::fs::create_dir_all(&directory).map_err(|error| {
                    Failure::general(format!("{} cannot be made: {error}", directory.display()))
                })?;
            }
            for ready in &sorted.ready {
                system::write_whole(&ready.target, &render(&ready.imported.template))?;
            }
        }
        match self.format.format {
            Format::Json => output::json(&self.object(&sorted))?,
            Format::Human => self.show(&sorted),
        }
        if sorted.refused.is_empty() { Ok(()) } else { Err(Failure::AlreadyReported(1)) }
    }

    fn sorted(&self, context: &Context, directory: &Path) -> Result<Sorted, Failure> {
        let mut sorted = Sorted::default();
        let options = Options { drop: self.drop.clone() };
        let found = self.found(context, &mut sorted.refused)?;
        let mut read = Vec::new();
        for FoundAgentFile { format, source } in found {
            let file = source.file.to_string();
            match foreign::import(format, &source, &options) {
                Ok(imported) => read.push((source, imported)),
                Err(problems) => {
                    // A directory of agents also holds notes and reports.
                    let no_agent = problems.iter().all(|problem| problem.code == "no-frontmatter");
                    match self.paths.is_empty() && no_agent {
                        true => sorted.passed_over.push(file),
                        false => sorted.refused.push(Refused { file, problems }),
                    }
                }
            }
        }
        let names: Vec<_> =
            read.iter().map(|(_, imported)| imported.template.agent_type.clone()).collect();
        for (source, imported) in read {
            let name = &imported.template.agent_type;
            let target = directory.join(format!("{name}.md"));
            let shown = shown(context, &target);
            let twins = names.iter().filter(|other| other.folds_to(name)).count();
            let problem = if twins > 1 {
                let message = format!("several files are an agent called `{name}`");
                Some(
                    Problem::error("same-name", source.whole(), message)
                        .help("name the one you want, or say --from"),
                )
            } else if !self.force && target.symlink_metadata().is_ok() {
                let message = format!("{shown} is there already");
                let help = "look at it, then say --force to write over it";
                Some(Problem::error("exists", source.whole(), message).help(help))
            } else {
                None
            };
            let file = source.file.to_string();
            match problem {
                Some(problem) => {
                    sorted.refused.push(Refused { file, problems: vec![problem] });
                }
                None => sorted.ready.push(Ready { file, imported, target, shown }),
            }
        }
        Ok(sorted)
    }

    /// The files that were named, or those that are there.
    fn found(
        &self,
        context: &Context,
        refused: &mut Vec<Refused>,
    ) -> Result<Vec<FoundAgentFile>, Failure> {
        if self.paths.is_empty() {
            let formats: Vec<Foreign> = match self.from {
                Some(from) => vec![from.format()],
                None => Foreign::AGENTS.to_vec(),
            };
            let repository = context.require_repository()?;
            let tree = DirectoryTree::new(repository.root());
            let (found, problems) = foreign::find(&tree, &formats);
            refused.extend(problems.into_iter().map(|problem| Refused {
                file: problem.place.source.file.to_string(),
                problems: vec![problem],
            }));
            return Ok(found);
        }
        self.paths.iter().map(|path| self.named(context, path)).collect()
    }

    fn named(&self, context: &Context, path: &Path) -> Result<FoundAgentFile, Failure> {
        let shown = path.display().to_string();
        let told = self.from.map(From::format).or_else(|| Foreign::of_path(&shown));
        let format = told.ok_or_else(|| {
            Failure::usage(format!("{shown} does not tell whose agent it is"))
                .help("say --from claude, codex, gemini or opencode")
        })?;
        let text = std::fs::read_to_string(context.directory.join(path))
            .map_err(|error| Failure::general(format!("{shown} cannot be read: {error}")))?;
        Ok(FoundAgentFile { format, source: Source::new(shown, text) })
    }

    fn show(&self, sorted: &Sorted) {
        let mark = if self.dry_run { "would write" } else { "wrote" };
        for ready in &sorted.ready {
            let name = styled(BOLD, &ready.imported.template.agent_type);
            output::line(format_args!("{name}  from {} ({})", ready.file, ready.imported.format));
            let notes = &ready.imported.notes;
            let width = notes.iter().map(|note| note.key.chars().count()).max().unwrap_or(0);
            for note in notes {
                let style = if note.effect == Effect::Narrowed { YELLOW } else { DIM };
                let effect = styled(style, format_args!("{:12}", note.effect));
                let indent = " ".repeat(2 + 12 + 2 + width + 2);
                let title = format!("  {effect}  {:width$}  ", note.key);
                output::wrapped_behind(&title, &indent, &note.text);
            }
            output::line(format_args!("  {}  {}", styled(GREEN, mark), ready.shown));
        }
        for refused in &sorted.refused {
            output::line(format_args!("{}  {}", styled(RED, "refused"), refused.file));
            output::problems(&refused.problems);
        }
        for file in &sorted.passed_over {
            output::note(format_args!("{file} has no front matter, so it is not an agent file"));
        }
        let (written, refused) = (sorted.ready.len(), sorted.refused.len());
        if written + refused == 0 {
            output::line("there are no agent files of other programs here");
            return;
        }
        output::line(format_args!("{written} imported, {refused} refused"));
        if written > 0 && !self.dry_run {
            output::next_step("read them, then: git add .bailiwick/agents && git commit");
        }
    }

    fn object(&self, sorted: &Sorted) -> Value {
        let imported: Vec<Value> = sorted
            .ready
            .iter()
            .map(|ready| {
                json!({
                    "agent": ready.imported.template.agent_type,
                    "format": ready.imported.format,
                    "from": ready.file,
                    "to": ready.shown,
                    "written": !self.dry_run,
                    "notes": ready.imported.notes,
                    "template": ready.imported.template,
                })
            })
            .collect();
        let problem = |problem: &Problem| {
            json!({
                "code": problem.code,
                "place": problem.place.to_string(),
                "message": problem.message,
                "help": problem.help,
            })
        };
        let refused: Vec<Value> = sorted
            .refused
            .iter()
            .map(|refused| {
                let problems: Vec<Value> = refused.problems.iter().map(problem).collect();
                json!({ "from": refused.file, "problems": problems })
            })
            .collect();
        json!({ "imported": imported, "refused": refused, "passed_over": sorted.passed_over })
    }
}

/// The directory of templates.
fn agents_directory(context: &Context) -> Result<PathBuf, Failure> {
    let kit = match &context.kit_root {
        Some(root) => context.directory.join(root),
        None => context.require_repository()?.root().join(REPOSITORY_KIT),
    };
    Ok(kit.join("agents"))
}

fn shown(context: &Context, path: &Path) -> String {
    path.strip_prefix(&context.directory).unwrap_or(path).display().to_string()
}
