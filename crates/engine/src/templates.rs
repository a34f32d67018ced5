//! Where agent templates are read from, and how the user's own directory gets its first ones.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bailiwick_kit::templates::discovery::{IN_KIT, KEI_DIRECTORY, project_directories};
use bailiwick_kit::templates::{Place, Templates, seeding};
use bailiwick_kit::{Origin, Tree};
use bailiwick_source_control::{CommitTree, DirectoryTree, Repository};

use crate::context::{Context, variable};
use crate::failure::Failure;
use crate::sources;

/// The templates as they are on disk now; for people.
pub fn working(context: &Context) -> Result<Templates, Failure> {
    let mut places = Vec::new();
    if let Some(root) = sources::kit_root(context)? {
        places.push(on_disk(context, Origin::KitRoot, &root, IN_KIT));
    } else if let Some(repository) = context.repository() {
        let inside = sources::inside(context, &repository)?;
        for directory in project_directories(&inside) {
            places.push(on_disk(context, Origin::Repository, repository.root(), &directory));
        }
    }
    places.extend(users(context)?);
    Ok(Templates::over_embedded(places))
}

/// The templates of a commit, for a caller in the directory `inside` of the repository. They bind agents. Templates
/// outside of the repository are the user's own and are read from the disk.
pub fn committed(
    context: &Context,
    repository: &Repository,
    commit: &str,
    inside: &str,
) -> Result<Templates, Failure> {
    let mut places = Vec::new();
    if let Some(root) = sources::kit_root(context)? {
        places.push(match root.strip_prefix(repository.root()) {
            Err(_) => on_disk(context, Origin::KitRoot, &root, IN_KIT),
            Ok(prefix) => {
                let prefix = prefix.to_str().ok_or_else(|| sources::not_utf8(&root))?;
                in_commit(Origin::KitRoot, repository, commit, prefix, IN_KIT)?
            }
        });
    } else {
        for directory in project_directories(inside) {
            let (prefix, name) = directory.rsplit_once('/').unwrap_or(("", &directory));
            places.push(in_commit(Origin::Repository, repository, commit, prefix, name)?);
        }
    }
    places.extend(users(context)?);
    Ok(Templates::over_embedded(places))
}

/// The user's `.codex/.agents` before the directory that we write first templates to: a file of ours
/// must not hide one of the user's.
fn users(context: &Context) -> Result<Vec<Place>, Failure> {
    let mut places = Vec::new();
    if let Some(home) = variable("HOME")? {
        places.push(on_disk(context, Origin::User, &context.directory.join(home), KEI_DIRECTORY));
    }
    places.push(on_disk(context, Origin::User, &context.user_kit, IN_KIT));
    Ok(places)
}

fn on_disk(context: &Context, origin: Origin, root: &Path, directory: &str) -> Place {
    let tree = Box::new(DirectoryTree::new(root));
    Place::new(origin, &sources::display_directory(context, root), directory, tree)
}

/// Each directory is asked for by itself: a link on the way to it must not read as nothing there.
fn in_commit(
    origin: Origin,
    repository: &Repository,
    commit: &str,
    prefix: &str,
    name: &str,
) -> Result<Place, Failure> {
    let tree: Box<dyn Tree> =
        Box::new(CommitTree::read(&repository.git(), commit, prefix, &[name])?);
    let directory = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Ok(Place::new(origin, &directory, name, tree))
}

/// The user's own directory of templates.
pub fn user_directory(context: &Context) -> PathBuf {
    context.user_kit.join(IN_KIT)
}

/// Copies the embedded templates into the user's own directory, if the user has none of them. Returns the
/// files that were written. Existing files are never changed. A template in the directory of the kei tools
/// counts as the user's own, so no copy takes precedence over it.
pub fn seed(context: &Context) -> Result<Vec<PathBuf>, Failure> {
    let directory = user_directory(context);
    let refuse = |error: io::Error| {
        let place = directory.display();
        Failure::general(format!("the first templates cannot be written to {place}: {error}"))
            .help("they are used all the same; this directory is for changed ones")
    };
    let mut present = names(&directory).map_err(refuse)?;
    if let Some(home) = variable("HOME")? {
        present.extend(names(&context.directory.join(home).join(KEI_DIRECTORY)).map_err(refuse)?);
    }
    let mut written = Vec::new();
    for seed in seeding::plan(&present) {
        std::fs::create_dir_all(&directory).map_err(refuse)?;
        let file = directory.join(&seed.file);
        if write_new(&file, &seed.text).map_err(refuse)? {
            written.push(file);
        }
    }
    Ok(written)
}

/// The names in a directory; none if there is none.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Writes a file that is not there yet, whole or not at all; whether it did.
pub fn write_new(file: &Path, text: &str) -> io::Result<bool> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut fresh = tempfile::Builder::new().prefix(".fresh-").tempfile_in(directory)?;
    fresh.write_all(text.as_bytes())?;
    fresh.as_file().sync_all()?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fresh.as_file().set_permissions(open)?;
    match fresh.persist_noclobber(file) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}
