//! Resolution of paths: the kernel is the oracle.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use bailiwick_gate::{HostContext, look_up};
use bailiwick_policy::call::{Action, Call};
use bailiwick_policy::facts::{Kind, Lookups, ResolvedPath};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

fn resolve(path: &str, root: &Path) -> Option<ResolvedPath> {
    let mut facts = HostContext::at(root, root).unwrap().facts();
    let mut wanted = Lookups::default();
    wanted.paths.insert(path.to_owned());
    let call = Call {
        cli_tool_name: String::new(),
        tools: Vec::new(),
        action: Action::NoKnownEffect,
        directory: None,
        ungated_terminal_input: false,
        id: None,
        agent: None,
    };
    look_up(&wanted, &call, &mut facts);
    facts.paths.remove(path)
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "link", "other"];

/// Creates a tree of directories, files and symlinks, some of them broken or with a target above.
fn create_tree(random: &mut Random, root: &Path) {
    for _ in 0..14 {
        let depth = 1 + random.below(3);
        let parts: Vec<&str> = (0..depth).map(|_| NAMES[random.below(NAMES.len())]).collect();
        let path = root.join(parts.join("/"));
        match random.below(4) {
            0 => drop(fs::create_dir_all(path)),
            1 => drop(fs::write(path, "x")),
            _ => {
                let target = match random.below(4) {
                    0 => "..".to_owned(),
                    1 => root.join(NAMES[random.below(NAMES.len())]).display().to_string(),
                    2 => format!("../{}", NAMES[random.below(NAMES.len())]),
                    _ => NAMES[random.below(NAMES.len())].to_owned(),
                };
                drop(symlink(target, path));
            }
        }
    }
}

#[test]
fn path_resolves_to_the_file_that_the_kernel_writes() {
    let mut random = Random::rotating("walking");
    let cases = Depth::from_env().cases(20_000);
    let (mut written, mut refused) = (0_u64, 0_u64);
    for _ in 0..cases {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        create_tree(&mut random, &root);
        let depth = 1 + random.below(4);
        let parts: Vec<&str> = (0..depth)
            .map(|_| match random.below(8) {
                0 => "..",
                1 => ".",
                _ => NAMES[random.below(NAMES.len())],
            })
            .collect();
        // At most two `..`, so that the path stays below the parents of the temporary directory.
        let path = format!("{}/{}/file-{}", root.display(), parts.join("/"), random.below(3));
        if Path::new(&path).components().filter(|part| part.as_os_str() == "..").count() > 2 {
            continue;
        }
        let resolved = resolve(&path, &root);
        match fs::write(&path, "y") {
            Ok(()) => {
                written += 1;
                let real = fs::canonicalize(&path).unwrap();
                let resolved = resolved.unwrap_or_else(|| panic!("{path} was not resolved"));
                assert_eq!(Path::new(&resolved.real), real, "{path}");
                fs::remove_file(&real).unwrap();
            }
            // If the kernel refuses the write, any result is valid.
            Err(_) => refused += 1,
        }
    }
    assert!(written > cases / 20, "too few paths could be written: {written}");
    figure(&format!(
        "paths: {written} writes where the walk said ({refused} refused by the kernel)"
    ));
}

#[test]
fn symlinks_are_resolved_as_targets_but_not_as_entries() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    fs::create_dir(root.join("real")).unwrap();
    fs::write(root.join("file"), "x").unwrap();
    symlink("real", root.join("way")).unwrap();
    symlink("round", root.join("round")).unwrap();
    let resolve_in_root = |path: &str| resolve(&format!("{}/{path}", root.display()), &root);
    let way = resolve_in_root("way").unwrap();
    assert_eq!(Path::new(&way.entry), root.join("way"));
    assert_eq!(Path::new(&way.real), root.join("real"));
    assert_eq!(way.kind, Kind::Directory);
    assert_eq!(resolve_in_root("way/new").unwrap().kind, Kind::Missing);
    assert_eq!(Path::new(&resolve_in_root("way/../x").unwrap().real), root.join("x"));
    assert_eq!(resolve_in_root("file/x").unwrap().kind, Kind::Impossible);
    assert!(
        resolve_in_root("round").is_none() && resolve_in_root("round/x").is_none(),
        "a symlink to itself was resolved"
    );
}

#[test]
fn process_specific_symlinks_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    symlink("/proc/self/cwd", root.join("here")).unwrap();
    symlink("/proc", root.join("proc")).unwrap();
    for path in ["/proc/self/cwd/x", "/proc/self/root/x", "/dev/fd/../cwd/x", "/proc/1/cwd/x"] {
        assert!(resolve(path, &root).is_none(), "{path}");
    }
    for path in ["here/x", "proc/self/cwd/x"] {
        assert!(resolve(&format!("{}/{path}", root.display()), &root).is_none(), "{path}");
    }
    assert_eq!(resolve("/proc/sys/kernel/x", &root).unwrap().kind, Kind::Missing);
}

#[test]
fn missing_directory_can_be_the_root() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    symlink(&root, root.join("way")).unwrap();
    let missing = HostContext::rooted_at(&root.join("way/gone")).unwrap().facts();
    assert_eq!(Path::new(&missing.root), root.join("gone"));
    assert_eq!(Path::new(&missing.directory.unwrap()), root.join("way/gone"));
    let existing = HostContext::rooted_at(&root.join("way")).unwrap().facts();
    assert_eq!(Path::new(&existing.root), root);
}
