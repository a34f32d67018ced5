//! The files of skills that a run was handed: copies of what the commit that binds it, or a package, has. Its agent can
//! only read them.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use bailiwick_model::Sha256Hex;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::Repository;

use super::skill_packages;
use crate::failure::Failure;
use crate::managed::ManagedSkill;
use crate::sources;

/// How many files a skill may have.
pub(super) const MAX_FILES: usize = 256;
/// How much they may be, all together.
pub(super) const MAX_BYTES: u64 = 4 << 20;

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    name: String,
    object: String,
    executable: bool,
}

/// The files of a skill that is a directory of a commit, or why they cannot be handed to an agent.
pub fn listed(repository: &Repository, commit: &str, path: &str) -> Result<Vec<Listed>, Failure> {
    // Git resolves a path that begins with a dot against its working directory.
    let plain = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let tree = format!("{commit}:{}", plain.collect::<Vec<_>>().join("/"));
    let output = repository.git().run(["ls-tree", "-r", "-l", "-z", &tree])?;
    let output = String::from_utf8(output)
        .map_err(|_| Failure::general(format!("{path} has names that are not UTF-8")))?;
    let (mut files, mut bytes) = (Vec::new(), 0_u64);
    for line in output.split_terminator('\0') {
        let (file, size) = read(line, path)?;
        bytes = bytes.saturating_add(size);
        files.push(file);
        if files.len() > MAX_FILES {
            return Err(Failure::general(format!("{path} has more than {MAX_FILES} files")));
        }
        if bytes > MAX_BYTES {
            let most = MAX_BYTES >> 20;
            return Err(Failure::general(format!("the files of {path} are more than {most} MiB")));
        }
    }
    Ok(files)
}

/// One line of git: mode, type, object and size, and the name behind a tabulator.
fn read(line: &str, path: &str) -> Result<(Listed, u64), Failure> {
    let unknown = || Failure::general(format!("git lists {path} in an unknown way: {line}"));
    let (about, name) = line.split_once('\t').ok_or_else(unknown)?;
    let words: Vec<&str> = about.split_whitespace().collect();
    let [mode, _, object, size] = words.as_slice() else { return Err(unknown()) };
    let executable = match *mode {
        "100644" => false,
        "100755" => true,
        // A link can lead elsewhere, and the files of a submodule are not in this repository.
        _ => {
            return Err(Failure::general(format!("{path}/{name} is a link or a repository")));
        }
    };
    let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(normal) {
        return Err(Failure::general(format!("{path} has a file called `{name}`")));
    }
    let size = size.parse().map_err(|_| unknown())?;
    let (name, object) = (name.to_owned(), (*object).to_owned());
    Ok((Listed { name, object, executable }, size))
}

/// What files are recognised by, all together.
pub fn digest(files: &[Listed]) -> Sha256Hex {
    let lines = files
        .iter()
        .map(|Listed { name, object, executable }| format!("{object} {executable} {name}\0"));
    Sha256Hex::of(lines.collect::<String>())
}

/// Writes the files of skills, each below its name; nothing of an earlier attempt is left. Tells where they are.
pub fn write(
    directory: &RunDirectory,
    repository: &Repository,
    user_kit: &Path,
    skills: &[ManagedSkill],
) -> Result<Option<PathBuf>, Failure> {
    let place = directory.skills();
    let failed = |error: io::Error| {
        Failure::general(format!("{} cannot be written: {error}", place.display()))
    };
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    if skills.is_empty() {
        return Ok(None);
    }
    for skill in skills {
        if let Some(package) = &skill.package {
            // Its digest is checked again: what is written is what was read here.
            for file in skill_packages::read(user_kit, package)?.files {
                put(&place.join(&skill.name).join(&file.name), &file.bytes, file.executable)
                    .map_err(failed)?;
            }
            continue;
        }
        let files = listed(repository, &skill.commit, &skill.path)?;
        let objects: Vec<(String, &str)> =
            files.iter().map(|file| (file.object.clone(), file.name.as_str())).collect();
        for (file, bytes) in files.iter().zip(sources::contents(repository, &objects)?) {
            let missing = || Failure::general(format!("{}/{} is missing", skill.path, file.name));
            let bytes = bytes.ok_or_else(missing)?;
            put(&place.join(&skill.name).join(&file.name), &bytes, file.executable)
                .map_err(failed)?;
        }
    }
    Ok(Some(place))
}

fn put(file: &Path, bytes: &[u8], executable: bool) -> io::Result<()> {
    if let Some(parent) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mode = if executable { 0o500 } else { 0o400 };
    let mut created = File::options().write(true).create_new(true).mode(mode).open(file)?;
    created.write_all(bytes)
}

/// How they are described to an agent.
pub fn describe(place: &Path, skills: &[ManagedSkill]) -> String {
    let mut text = "\n\n# Files of skills\n\nThey can only be read.\n\n".to_owned();
    for skill in skills {
        text += &format!("- {}: `{}`\n", skill.name, place.join(&skill.name).display());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use bailiwick_model::Sha256Hex;
    use bailiwick_runner::supervisor::RunDirectory;
    use bailiwick_source_control::Repository;
    use bailiwick_testkit::Scratch;

    use super::{describe, digest, listed, write};
    use crate::managed::ManagedSkill;

    fn skill(commit: &str) -> ManagedSkill {
        let (name, path) = ("release".to_owned(), "skills/release".to_owned());
        ManagedSkill { name, path, commit: commit.to_owned(), package: None }
    }

    #[test]
    fn files_are_written_as_committed_and_are_read_only() {
        let scratch = Scratch::repository();
        scratch.write("skills/release/SKILL.md", "Release it.\n");
        scratch.write("skills/release/scripts/check.sh", "echo checked\n");
        scratch.write("skills/other/SKILL.md", "Another.\n");
        fs::write(scratch.root().join("skills/release/logo.png"), [0_u8, 159, 146, 150]).unwrap();
        let script = scratch.root().join("skills/release/scripts/check.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let commit = scratch.commit("begin");
        // Changes that are only in the working copy are not used.
        scratch.write("skills/release/SKILL.md", "Something else.\n");
        let repository = Repository::discover(&scratch.root()).unwrap();
        let directory = RunDirectory::new(&scratch.state(), "one");
        let skills = [skill(&commit)];
        for _ in 0..2 {
            let written =
                write(&directory, &repository, &scratch.state(), &skills).unwrap().unwrap();
            let path_of = |name: &str| written.join("release").join(name);
            assert_eq!(fs::read_to_string(path_of("SKILL.md")).unwrap(), "Release it.\n");
            assert_eq!(fs::read(path_of("logo.png")).unwrap(), [0, 159, 146, 150]);
            let mode =
                |name: &str| fs::metadata(path_of(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode("SKILL.md"), mode("scripts/check.sh")), (0o400, 0o500));
            assert!(!written.join("other").exists() && !path_of("left").exists());
            assert!(
                describe(&written, &skills)
                    .contains(&written.join("release").display().to_string())
            );
            // A leftover file is removed by the next call.
            fs::write(written.join("release/left"), "x").unwrap();
        }
        assert_eq!(write(&directory, &repository, &scratch.state(), &[]).unwrap(), None);
        assert!(!directory.skills().exists());
    }

    #[test]
    fn package_is_written_only_if_its_digest_matches() {
        let scratch = Scratch::repository();
        scratch.write("kept", "kept\n");
        let commit = scratch.commit("begin");
        let kit = scratch.place().join("kit");
        let package = kit.join("packages/release");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("SKILL.md"), "Release it.\n").unwrap();
        let line = format!("{}  SKILL.md\n", Sha256Hex::of("Release it.\n"));
        let pinned = format!("release@sha256:{}", Sha256Hex::of(line));
        let skill = ManagedSkill { path: String::new(), package: Some(pinned), ..skill(&commit) };
        let repository = Repository::discover(&scratch.root()).unwrap();
        let directory = RunDirectory::new(&scratch.state(), "one");
        let skills = [skill];
        let written = write(&directory, &repository, &kit, &skills).unwrap().unwrap();
        let text = fs::read_to_string(written.join("release/SKILL.md")).unwrap();
        assert_eq!(text, "Release it.\n");
        fs::write(package.join("SKILL.md"), "Something else.\n").unwrap();
        let refused = write(&directory, &repository, &kit, &skills).unwrap_err().in_one_line();
        assert!(refused.contains("not the pinned"), "{refused}");
        assert!(!written.join("release/SKILL.md").exists(), "no file of it is written");
    }

    #[test]
    fn links_and_too_many_or_too_large_files_are_refused() {
        let scratch = Scratch::repository();
        scratch.write("skills/release/SKILL.md", "Release it.\n");
        let good = scratch.commit("good");
        let repository = Repository::discover(&scratch.root()).unwrap();
        let look = |commit: &str| {
            listed(&repository, commit, "./skills/release/").map_err(|error| error.in_one_line())
        };
        let first = look(&good).unwrap();
        assert_eq!(first.len(), 1);
        std::os::unix::fs::symlink("/etc/passwd", scratch.root().join("skills/release/link"))
            .unwrap();
        let link = look(&scratch.commit("a link")).unwrap_err();
        assert!(link.contains("link is a link"), "{link}");
        fs::remove_file(scratch.root().join("skills/release/link")).unwrap();
        for number in 0..256 {
            scratch.write(&format!("skills/release/{number}"), "x\n");
        }
        let too_many = look(&scratch.commit("many")).unwrap_err();
        assert!(too_many.contains("more than 256 files"), "{too_many}");
        for number in 0..255 {
            fs::remove_file(scratch.root().join(format!("skills/release/{number}"))).unwrap();
        }
        let two = look(&scratch.commit("two")).unwrap();
        assert_ne!(digest(&first), digest(&two));
        scratch.write("skills/release/255", &"x".repeat(4 << 20));
        let too_large = look(&scratch.commit("much")).unwrap_err();
        assert!(too_large.contains("more than 4 MiB"), "{too_large}");
        assert!(look(&"0".repeat(40)).is_err());
    }
}
