//! Where kits, tasks and files of commits are read from.

use std::path::{Path, PathBuf};

use bailiwick_kit::templates::discovery::{IN_KIT, project_directories};
use bailiwick_kit::{Bound, Kit, Layer, Layout, Origin, Tree, bind};
use bailiwick_model::Source;
use bailiwick_source_control::git::Input;
use bailiwick_source_control::{CommitTree, DirectoryTree, Repository};

use crate::context::Context;
use crate::counted::counted;
use crate::failure::Failure;
use crate::watch::{self, KitState, Watch, WatchedTree};

/// Reads a file by its path from the root of the repository; `None` if there is none.
pub type Files<'a> = dyn Fn(&str) -> Result<Option<String>, Failure> + 'a;

/// Where the repository's kit is.
pub const REPOSITORY_KIT: &str = ".bailiwick";

const KIT_DIRECTORIES: [(Layout, &[&str]); 2] = [
    (Layout::Underscore, &["_capabilities", "_roles"]),
    (Layout::Plain, &["capabilities", "roles"]),
];

/// The kit of the working copy; for commands that show it to people.
pub fn working_kit(context: &Context) -> Result<Kit, Failure> {
    kit(context, |directory| Ok(Box::new(DirectoryTree::new(directory))))
}

/// The same, with a watch that reports where the files differ from the commit.
pub fn watched_kit(context: &Context) -> Result<(Kit, Option<Watch>), Failure> {
    let Some((repository, inside)) = kit_inside(context)? else {
        return Ok((working_kit(context)?, None));
    };
    let watch = Watch::start(repository, &inside)?;
    let kit = kit(context, |directory| {
        Ok(Box::new(WatchedTree::new(DirectoryTree::new(directory), watch.seen())))
    })?;
    Ok((kit, Some(watch)))
}

/// Reports where what was read differs from the commit.
pub fn note(context: &Context, watch: Option<Watch>) -> Result<KitState, Failure> {
    watch.map_or(Ok(KitState::Committed), |watch| watch.note(&context.notices))
}

/// The kit of a commit; for commands that bind an agent. What is outside the
/// repository is the user's own and is read as it is.
pub fn committed_kit(
    context: &Context,
    repository: &Repository,
    commit: &str,
) -> Result<Kit, Failure> {
    kit(context, |directory| {
        let Ok(inside) = directory.strip_prefix(repository.root()) else {
            return Ok(Box::new(DirectoryTree::new(directory)));
        };
        let names: Vec<&str> =
            KIT_DIRECTORIES.iter().flat_map(|(_, names)| *names).copied().collect();
        let prefix = inside.to_str().ok_or_else(|| not_utf8(directory))?;
        Ok(Box::new(CommitTree::read(&repository.git(), commit, prefix, &names)?))
    })
}

/// Binds a task by the kit of a commit. If only the working copy has what it needs, the error says so.
pub fn bind_committed(
    context: &Context,
    kit: &Kit,
    source: &Source,
    revision: &str,
) -> Result<Bound, Failure> {
    bind(kit, source).map_err(|problems| {
        let here = working_kit(context).is_ok_and(|working| bind(&working, source).is_ok());
        match here {
            true => uncommitted(context, &source.file, revision),
            false => problems.into(),
        }
    })
}

/// That a task needs what is in the working copy alone.
pub fn uncommitted(context: &Context, task: &str, revision: &str) -> Failure {
    let kit = kit_shown(context);
    let differing = context.repository().and_then(|repository| {
        let paths: Vec<&str> = kit.split(' ').collect();
        repository.differences(&paths).ok()
    });
    let many = match differing.map_or(0, |all| all.len()) {
        0 => String::new(),
        count => format!(" ({} of {kit})", counted(count, "file")),
    };
    let text = format!(
        "what {task} needs is not committed at {revision}{many}, and an agent is bound by what is committed"
    );
    Failure::general(text).help(match revision {
        "HEAD" => format!("git add {kit} && git commit -m 'Say what agents may do here'"),
        _ => format!("commit {kit} there, or start from another commit: --base REVISION"),
    })
}

/// The commit whose kit and settings bind a task: the one that it names, else the one that it starts from.
/// Nothing but a whole name counts: a branch could be moved by the agent that is to be bound.
pub fn kit_commit(
    repository: &Repository,
    named: Option<&str>,
    base: &str,
) -> Result<String, Failure> {
    let Some(named) = named else { return Ok(base.to_owned()) };
    let whole = matches!(named.len(), 40 | 64) && named.chars().all(|c| c.is_ascii_hexdigit());
    let found = if whole { repository.commit(named)? } else { None };
    found.filter(|found| found == named).ok_or_else(|| {
        Failure::general(format!(
            "`{named}`, whose kit is to bind the agent, is not a commit of this repository"
        ))
        .help("kit-commit of a task is the whole name of a commit of this repository")
    })
}

fn kit(
    context: &Context,
    tree: impl Fn(&Path) -> Result<Box<dyn Tree>, Failure>,
) -> Result<Kit, Failure> {
    let mut layers = Vec::new();
    if let Some(root) = kit_root(context)? {
        for (layout, names) in KIT_DIRECTORIES {
            let files = tree(&root)?;
            let filled =
                names.iter().any(|name| files.list(name).is_ok_and(|list| !list.is_empty()));
            if filled {
                layers.push(Layer::new(
                    Origin::KitRoot,
                    layout,
                    &display_directory(context, &root),
                    files,
                ));
            }
        }
        if layers.is_empty() {
            let text = format!("{} contains no kit", root.display());
            return Err(Failure::general(text).help(
                "a kit has _capabilities/ or _roles/, or capabilities/ or roles/; an agent is \
                 bound by what is committed",
            ));
        }
    } else if let Some(repository) = context.repository() {
        let root = repository.root().join(REPOSITORY_KIT);
        let files = tree(&root)?;
        layers.push(Layer::new(
            Origin::Repository,
            Layout::Plain,
            &display_directory(context, &root),
            files,
        ));
    }
    let user = &context.user_kit;
    let files = Box::new(DirectoryTree::new(user));
    layers.push(Layer::new(Origin::User, Layout::Plain, &display_directory(context, user), files));
    Ok(Kit::over_embedded(layers))
}

/// The directory that `--kit-root` names.
pub fn kit_root(context: &Context) -> Result<Option<PathBuf>, Failure> {
    let Some(root) = &context.kit_root else { return Ok(None) };
    let found = std::fs::canonicalize(context.directory.join(root)).map_err(|error| {
        Failure::general(format!("the kit root {} cannot be used: {error}", root.display()))
    })?;
    Ok(Some(found))
}

/// A directory as the person would write it, with a slash behind it.
pub fn display_directory(context: &Context, directory: &Path) -> String {
    let here =
        std::fs::canonicalize(&context.directory).unwrap_or_else(|_| context.directory.clone());
    let path =
        match directory.strip_prefix(&here).or_else(|_| directory.strip_prefix(&context.directory))
        {
            Ok(inside) => inside,
            Err(_) => directory,
        };
    match path.to_string_lossy().as_ref() {
        "" => String::new(),
        path => format!("{path}/"),
    }
}

pub fn not_utf8(path: &Path) -> Failure {
    Failure::general(format!("the path {} is not UTF-8", path.display()))
}

/// Says which files of the repository's kit differ from the commit that would bind an agent.
pub fn note_differences(context: &Context) -> Result<(), Failure> {
    if let Some((repository, inside)) = kit_inside(context)? {
        let prefix = if inside.is_empty() { String::new() } else { format!("{inside}/") };
        let names = KIT_DIRECTORIES.iter().flat_map(|(_, names)| *names);
        let mut paths: Vec<String> = names.map(|name| format!("{prefix}{name}")).collect();
        match context.kit_root {
            None => paths.extend(repository_directories(context, &repository)?),
            Some(_) => paths.push(format!("{prefix}{IN_KIT}")),
        }
        let mut all = paths.clone();
        all.extend(Some(inside).filter(|inside| !inside.is_empty()));
        watch::note_differences(&context.notices, &repository, &paths, &all)?;
    }
    Ok(())
}

/// The path of the kit inside the repository, if it is there.
fn kit_inside(context: &Context) -> Result<Option<(Repository, String)>, Failure> {
    let Some(repository) = context.repository() else { return Ok(None) };
    let kit = match &context.kit_root {
        None => repository.root().join(REPOSITORY_KIT),
        Some(root) => absolute(context, root),
    };
    let root =
        std::fs::canonicalize(repository.root()).unwrap_or_else(|_| repository.root().into());
    let inside = kit.strip_prefix(repository.root()).or_else(|_| kit.strip_prefix(root));
    match inside {
        // Also when the working copy has none: the commit may.
        Ok(inside) => {
            let inside = inside.to_str().ok_or_else(|| not_utf8(&kit))?.to_owned();
            Ok(Some((repository, inside)))
        }
        Err(_) => Ok(None),
    }
}

/// The kit's directories, as the person would write them.
pub fn kit_shown(context: &Context) -> String {
    let Some(root) = &context.kit_root else { return REPOSITORY_KIT.to_owned() };
    let there = KIT_DIRECTORIES.iter().flat_map(|(_, names)| *names).map(|name| root.join(name));
    let there = there.filter(|path| context.directory.join(path).is_dir());
    there.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

fn absolute(context: &Context, path: &Path) -> PathBuf {
    let path = context.directory.join(path);
    std::fs::canonicalize(&path).unwrap_or(path)
}

/// A file of a commit; `None` if it has none.
pub fn committed_file(
    repository: &Repository,
    commit: &str,
    file: &str,
) -> Result<Option<String>, Failure> {
    Ok(committed_files(repository, commit, &[file])?.pop().flatten())
}

/// Files of a commit, asked for at once; `None` for each that it has not.
pub fn committed_files(
    repository: &Repository,
    commit: &str,
    files: &[&str],
) -> Result<Vec<Option<String>>, Failure> {
    let objects = files.iter().map(|file| (format!("{commit}:{file}"), *file));
    let found = contents(repository, &objects.collect::<Vec<_>>())?;
    let texts = found.into_iter().zip(files).map(|(bytes, file)| {
        let not_utf8 = |_| Failure::general(format!("{file} is not UTF-8"));
        bytes.map(String::from_utf8).transpose().map_err(not_utf8)
    });
    texts.collect()
}

/// What some objects of a repository are, each by what git and people call it; `None` for each that it has
/// not.
pub fn contents(
    repository: &Repository,
    objects: &[(String, &str)],
) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    let question: String = objects.iter().map(|(object, _)| format!("{object}\n")).collect();
    let answer = repository
        .git()
        .run_with_input(["cat-file", "--batch"], Input::Bytes(question.as_bytes()))?;
    let mut rest = answer.as_slice();
    let mut found = Vec::new();
    for (_, file) in objects {
        let cut = || Failure::general(format!("git did not tell all of {file}"));
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(cut)?;
        let (head, after) = rest.split_at_checked(end).ok_or_else(cut)?;
        rest = after.get(1..).unwrap_or_default();
        let head = String::from_utf8_lossy(head).into_owned();
        let size = match head.split(' ').collect::<Vec<_>>().as_slice() {
            [.., "missing"] => {
                found.push(None);
                continue;
            }
            [_, "blob", size] => size.parse::<usize>().map_err(|_| cut())?,
            _ => return Err(Failure::general(format!("{file} is not a file"))),
        };
        let (bytes, after) = rest.split_at_checked(size).ok_or_else(cut)?;
        rest = after.get(1..).unwrap_or_default();
        found.push(Some(bytes.to_vec()));
    }
    Ok(found)
}

/// The person's directory in the repository; empty at its root.
pub fn inside(context: &Context, repository: &Repository) -> Result<String, Failure> {
    let inside = context.directory.strip_prefix(repository.root()).unwrap_or(Path::new(""));
    inside.to_str().map(str::to_owned).ok_or_else(|| not_utf8(&context.directory))
}

/// The directories of the repository that templates are read from, here.
pub fn repository_directories(
    context: &Context,
    repository: &Repository,
) -> Result<Vec<String>, Failure> {
    Ok(project_directories(&inside(context, repository)?))
}

/// A task's file.
pub fn read_task(context: &Context, path: &Path) -> Result<Source, Failure> {
    let text = std::fs::read_to_string(context.directory.join(path)).map_err(|error| {
        let at_root = context.repository().map(|found| found.root().join(path));
        let help = match (at_root.filter(|file| file.is_file()), path.extension()) {
            (Some(file), _) => format!(
                "the path of a task is relative to the current directory; the repository's root has {}",
                file.display()
            ),
            (None, Some(_)) => "`bailiwick init` writes examples under .bailiwick/tasks/".to_owned(),
            (None, None) => {
                "a task is a file, for example .bailiwick/tasks/example.toml".to_owned()
            }
        };
        Failure::general(format!("the task {} cannot be read: {error}", path.display())).help(help)
    })?;
    Ok(Source::new(path.display().to_string(), text))
}

/// Every task file below a directory, sorted.
pub fn task_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::general(format!("{} cannot be read: {error}", directory.display()))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        // A link to a directory is not followed: it could lead anywhere, or back.
        if entry.file_type().map_err(unreadable)?.is_dir() {
            files.extend(task_files(&path)?);
        } else if path.is_file() && path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}
