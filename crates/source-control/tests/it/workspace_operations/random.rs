//! No verb loses anything of a workspace, whatever it contains.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use bailiwick_source_control::git::{IgnoredFiles, RebaseOutcome};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use super::Setup;

const NAMES: [&str; 9] = [
    "README.md",
    "src/a.rs",
    "src/deep er/b.rs",
    "src/own.rs",
    "new",
    "neu ü\n zwei",
    "build/made",
    "x.log",
    "dir/in/side",
];

fn pick<T: Copy>(of: &[T], random: &mut Random) -> T {
    *of.get(random.below(of.len())).unwrap()
}

/// Random changes to files, without a commit.
fn disturb(setup: &Setup, random: &mut Random) {
    let name = pick(&NAMES, random);
    let path = setup.path.join(name);
    let is_directory = path.is_dir();
    match random.below(8) {
        0 | 1 if !is_directory => {
            let text = ["text\n", "with\r\nreturns\r\n", "", "\0binary\u{1}", "no end"];
            let parent = path.parent().unwrap();
            if fs::create_dir_all(parent).is_ok() {
                let _ = fs::remove_file(&path);
                fs::write(&path, format!("{}{}", random.below(9), pick(&text, random))).unwrap();
            }
        }
        2 => drop(fs::remove_file(&path)),
        3 if path.parent().unwrap().is_dir() && fs::symlink_metadata(&path).is_err() => {
            symlink(pick(&["src/a.rs", "nowhere", "/etc"], random), &path).unwrap();
        }
        4 if path.is_file() && !path.is_symlink() => {
            let mode = pick(&[0o644, 0o755], random);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        // A file becomes a directory, or vice versa.
        5 if path.is_file() && !path.is_symlink() => {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            fs::write(path.join("below"), "x\n").unwrap();
        }
        5 if is_directory && !path.is_symlink() => {
            fs::remove_dir_all(&path).unwrap();
            fs::write(&path, "was a directory\n").unwrap();
        }
        6 => drop(setup.git(&["add", "--all"])),
        7 if fs::symlink_metadata(&path).is_ok() && !is_directory => {
            drop(setup.git(&["add", "--force", "--", name]));
        }
        _ => {}
    }
}

#[test]
fn random_workspace_is_recovered_unchanged() {
    let mut random = Random::rotating("whatever_is_in_a_workspace");
    let (mut dirty, mut clean) = (0, 0);
    for case in 0..Depth::from_env().cases(200) {
        let setup = Setup::new();
        // At least one workspace is clean.
        let changes = if case == 0 { 0 } else { random.below(12) };
        for _ in 0..changes {
            disturb(&setup, &mut random);
        }
        let before = setup.everything();
        let head = setup.head();
        let status = setup.operations.status(&setup.workspace()).unwrap();
        let cleaned = setup.operations.cleanup(&setup.workspace(), IgnoredFiles::Keep);
        assert_eq!(cleaned.is_err(), status.dirty, "case {case}: {cleaned:?}");
        if status.dirty {
            dirty += 1;
            assert_eq!(setup.everything(), before, "case {case}");
            let rebased = setup.operations.rebase_start(&setup.workspace());
            let untracked_only =
                matches!(&rebased, Ok(RebaseOutcome::Done { head: now }) if *now == head);
            assert!(rebased.is_err() || untracked_only, "case {case}: {rebased:?}");
            assert_eq!(setup.everything(), before, "case {case}");
            setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep).unwrap();
        } else {
            clean += 1;
        }
        assert!(!setup.path.exists(), "case {case}");
        setup.operations.recover(&setup.workspace()).unwrap();
        assert_eq!(setup.everything(), before, "case {case}");
        assert_eq!(setup.head(), head, "case {case}");
    }
    assert!(dirty > 0 && clean > 0, "{dirty} dirty, {clean} clean");
}
