//! Python projects: uv, poetry, pip with requirements files, or a plain virtual environment.

mod manifest;
mod requirements;
mod testing;

use self::manifest::Manifest;
use self::testing::Runner;
use super::files::Directory;
use super::stack::{Note, Stack, quote};
use super::tool::Tool;

/// A project that a manifest declares.
pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let declared = ["pyproject.toml", "setup.py", "setup.cfg", "uv.lock", "poetry.lock"];
    let requirements = requirements::files(directory);
    let found = directory.first_of(&declared).or(requirements.first().copied())?;
    let manifest = Manifest::read(directory);
    let runner = Runner::of(directory, &manifest);
    let mut stack = if directory.has("uv.lock") {
        with_uv(directory, &manifest, runner)
    } else if directory.has("poetry.lock") || manifest.uses_poetry {
        with_poetry(directory, &manifest, runner)
    } else {
        with_venv(directory, &manifest, &requirements, found, runner)
    };
    if manifest.malformed {
        stack.notes.push(Note::Malformed { file: directory.join("pyproject.toml") });
    }
    stack.covers_below = manifest.is_uv_workspace || !stack.commands.is_empty();
    Some(stack)
}

/// Python files that no manifest declares.
pub(super) fn detect_undeclared(directory: Directory<'_>) -> Option<Stack> {
    let file = directory.below().find(|path| path.ends_with(".py"))?;
    let manifest = Manifest::default();
    let runner = Runner::of(directory, &manifest);
    if matches!(runner, Runner::Pytest) {
        return Some(with_venv(directory, &manifest, &[], file, runner));
    }
    let mut stack = Stack::new(Tool::Venv, directory.path(), file);
    stack.programs = vec!["python3"];
    stack.commands = runner.command("python3 -m").into_iter().collect();
    Some(stack)
}

fn with_uv(directory: Directory<'_>, manifest: &Manifest, runner: Runner) -> Stack {
    let mut stack = Stack::new(Tool::Uv, directory.path(), "uv.lock");
    stack.programs = vec!["uv"];
    let extras = manifest.extras.iter().map(|extra| format!(" --extra {}", quote(extra)));
    // uv installs the group `dev` by default.
    let groups = manifest.groups.iter().filter(|group| group.name != "dev");
    let groups = groups.map(|group| format!(" --group {}", quote(&group.name)));
    let options: String = extras.chain(groups).collect();
    stack.setup = vec![format!("uv sync --frozen{options}")];
    // A lock file too large to be read has it, too.
    let locked = directory.read("uv.lock").is_none_or(|text| text.contains("name = \"pytest\""));
    stack.commands = match runner {
        Runner::Pytest if locked => vec!["uv run --frozen pytest".to_owned()],
        Runner::Pytest => vec!["uv run --frozen --with pytest pytest".to_owned()],
        Runner::Django | Runner::Unittest(_) | Runner::Nothing => {
            runner.command("uv run --frozen python -m").into_iter().collect()
        }
    };
    stack
}

fn with_poetry(directory: Directory<'_>, manifest: &Manifest, runner: Runner) -> Stack {
    let locked = directory.has("poetry.lock");
    let evidence = if locked { "poetry.lock" } else { "pyproject.toml" };
    let mut stack = Stack::new(Tool::Poetry, directory.path(), evidence);
    stack.programs = vec!["poetry"];
    if !locked {
        stack.notes.push(Note::NoLockFile { file: directory.join("poetry.lock") });
    }
    let with = manifest.poetry_groups.iter().map(|group| format!(" --with {}", quote(group)));
    let extras = manifest.extras.iter().map(|extra| format!(" --extras {}", quote(extra)));
    let options: String = with.chain(extras).collect();
    // The environment belongs into the worktree: one in the home directory is shared by all.
    let variable = "POETRY_VIRTUALENVS_IN_PROJECT=true";
    stack.setup = vec![format!("{variable} poetry install --no-interaction{options}")];
    stack.commands = match runner {
        Runner::Pytest => vec!["poetry run pytest".to_owned()],
        Runner::Django | Runner::Unittest(_) | Runner::Nothing => {
            runner.command("poetry run python -m").into_iter().collect()
        }
    };
    stack
}

fn with_venv(
    directory: Directory<'_>,
    manifest: &Manifest,
    requirements: &[&str],
    evidence: &str,
    runner: Runner,
) -> Stack {
    let tool = if requirements.is_empty() { Tool::Venv } else { Tool::Pip };
    let evidence = requirements.first().copied().unwrap_or(evidence);
    let mut stack = Stack::new(tool, directory.path(), evidence);
    stack.programs = vec!["python3"];
    let mut wanted: Vec<String> =
        requirements.iter().map(|file| format!("-r {}", quote(file))).collect();
    if manifest.installable {
        wanted.push(manifest.editable());
        stack.artefacts = &["project.egg-info"];
    }
    let packages = manifest.groups.iter().flat_map(|group| &group.packages);
    wanted.extend(packages.map(|package| quote(package)));
    let listed = || {
        let texts = requirements.iter().filter_map(|file| directory.read(file));
        texts.chain([wanted.join(" "), manifest.installed_text.clone()])
    };
    if matches!(runner, Runner::Pytest) && !listed().any(|text| text.contains("pytest")) {
        wanted.push("pytest".to_owned());
    }
    if !wanted.is_empty() {
        let ignore = if ignores_venv(directory) { "" } else { " && echo '*' > .venv/.gitignore" };
        let install = wanted.join(" ");
        stack.setup =
            vec![format!("python3 -m venv .venv{ignore} && .venv/bin/pip install {install}")];
    }
    let python = if stack.setup.is_empty() { "python3" } else { ".venv/bin/python" };
    stack.commands = runner.command(&format!("{python} -m")).into_iter().collect();
    stack
}

fn ignores_venv(directory: Directory<'_>) -> bool {
    super::ignored::is_ignored(directory, ".venv")
}
