//! The versions that agent programs reported, so that they need not be started before every run.
//!
//! Only of a program from npm, which is replaced as a whole: any other may be a small starter of
//! something that changes behind it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::system;

const PLACE: &str = "versions";
const PACKAGES: &str = "node_modules";
const PACKAGE: &str = "package.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CachedVersion {
    /// Identifies the program file.
    stamp: String,
    version: String,
}

/// The version that this program file reported before.
pub fn known(state: &Path, name: &str, program: &Path) -> Option<String> {
    let text = fs::read_to_string(file(state, name)?).ok()?;
    let cached: CachedVersion = serde_json::from_str(&text).ok()?;
    (cached.stamp == stamp(program)?).then_some(cached.version)
}

/// Stores the version; if that fails, the program is asked again.
pub fn keep(state: &Path, name: &str, program: &Path, version: &str) {
    let Some(stamp) = stamp(program) else { return };
    let cached = CachedVersion { stamp, version: version.to_owned() };
    if known(state, name, program).as_ref() == Some(&cached.version) {
        return;
    }
    if let (Some(file), Ok(text)) = (file(state, name), serde_json::to_string(&cached)) {
        let _ = fs::create_dir_all(state.join(PLACE));
        let _ = system::write_whole(&file, &text);
    }
}

/// The file of a program; `None` if its name could lead out of the directory. A repository can choose names.
fn file(state: &Path, name: &str) -> Option<PathBuf> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    plain.then(|| state.join(PLACE).join(format!("{name}.json")))
}

/// The program and its package, each by what no installation leaves as it was.
fn stamp(program: &Path) -> Option<String> {
    let real = fs::canonicalize(program).ok()?;
    real.components().find(|part| part.as_os_str() == PACKAGES)?;
    let package =
        real.ancestors().skip(1).map(|above| above.join(PACKAGE)).find(|one| one.is_file())?;
    let one = |path: &Path| -> Option<String> {
        let data = fs::metadata(path).ok()?;
        let changed = (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
        Some(format!("{} {} {} {} {changed:?}", path.display(), data.dev(), data.ino(), data.len()))
    };
    Some(format!("{}; {}; {}", program.display(), one(&real)?, one(&package)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_again_if_program_or_package_was_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().join("node_modules/agent");
        fs::create_dir_all(&package).unwrap();
        let (program, manifest) = (package.join("agent.js"), package.join(PACKAGE));
        fs::write(&program, "1").unwrap();
        fs::write(&manifest, "{}").unwrap();
        assert_eq!(known(directory.path(), "agent", &program), None);
        keep(directory.path(), "agent", &program, "1.0");
        assert_eq!(known(directory.path(), "agent", &program).as_deref(), Some("1.0"));
        for replaced in [&program, &manifest] {
            let (text, new) = (fs::read(replaced).unwrap(), directory.path().join("new"));
            let before = fs::metadata(replaced).unwrap().modified().unwrap();
            fs::write(&new, text).unwrap();
            fs::File::options().write(true).open(&new).unwrap().set_modified(before).unwrap();
            fs::rename(&new, replaced).unwrap();
            assert_eq!(known(directory.path(), "agent", &program), None, "{}", replaced.display());
            keep(directory.path(), "agent", &program, "1.0");
        }
        fs::write(file(directory.path(), "agent").unwrap(), "{").unwrap();
        assert_eq!(known(directory.path(), "agent", &program), None, "a damaged file is ignored");
    }

    #[test]
    fn version_of_a_program_without_a_package_is_not_cached() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("agent");
        fs::write(&program, "1").unwrap();
        keep(directory.path(), "agent", &program, "1.0");
        assert_eq!(known(directory.path(), "agent", &program), None);
        assert!(!file(directory.path(), "agent").unwrap().exists());
        assert_eq!(file(directory.path(), "../agent"), None);
    }
}
