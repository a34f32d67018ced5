//! Where a path leads: the kernel is the oracle.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use bailiwick_gate::{HostContext, look_up};
use bailiwick_policy::call::{Action, Call};
use bailiwick_policy::facts::{Kind, Lookups, ResolvedPath};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

fn led(path: &str, root: &Path) -> Option<ResolvedPath> {
    let mut facts = HostContext::at(root, root).unwrap().facts();
    let mut wanted = Lookups::default();
    wanted.paths.insert(path.to_owned());
    let call = Call {
        native: String::new(),
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

/// A tree of directories, files and links, some of them broken or leading upwards.
fn grow(random: &mut Random, root: &Path) {
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
fn a_path_leads_where_the_kernel_writes() {
    let mut random = Random::rotating("walking");
    let cases = Depth::from_env().cases(20_000);
    let (mut written, mut refused) = (0_u64, 0_u64);
    for _ in 0..cases {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        grow(&mut random, &root);
        let depth = 1 + random.below(4);
        let parts: Vec<&str> = (0..depth)
            .map(|_| match random.below(8) {
                0 => "..",
                1 => ".",
                _ => NAMES[random.below(NAMES.len())],
            })
            .collect();
        // Never out of the scratch directory by more than its parents have room for.
        let path = format!("{}/{}/file-{}", root.display(), parts.join("/"), random.below(3));
        if Path::new(&path).components().filter(|part| part.as_os_str() == "..").count() > 2 {
            continue;
        }
        let told = led(&path, &root);
        match fs::write(&path, "y") {
            Ok(()) => {
                written += 1;
                let real = fs::canonicalize(&path).unwrap();
                let told = told.unwrap_or_else(|| panic!("{path} was not told"));
                assert_eq!(Path::new(&told.real), real, "{path}");
                fs::remove_file(&real).unwrap();
            }
            // What the kernel refuses may be told as anything.
            Err(_) => refused += 1,
        }
    }
    assert!(written > cases / 20, "too few paths could be written: {written}");
    figure(&format!(
        "paths: {written} writes where the walk said ({refused} refused by the kernel)"
    ));
}

#[test]
fn links_are_kept_as_entries_and_followed_as_targets() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    fs::create_dir(root.join("real")).unwrap();
    fs::write(root.join("file"), "x").unwrap();
    symlink("real", root.join("way")).unwrap();
    symlink("round", root.join("round")).unwrap();
    let at = |path: &str| led(&format!("{}/{path}", root.display()), &root);
    let way = at("way").unwrap();
    assert_eq!(Path::new(&way.entry), root.join("way"));
    assert_eq!(Path::new(&way.real), root.join("real"));
    assert_eq!(way.kind, Kind::Directory);
    assert_eq!(at("way/new").unwrap().kind, Kind::Missing);
    assert_eq!(Path::new(&at("way/../x").unwrap().real), root.join("x"));
    assert_eq!(at("file/x").unwrap().kind, Kind::Impossible);
    assert!(at("round").is_none() && at("round/x").is_none(), "round in circles");
}

#[test]
fn links_of_processes_are_not_followed_for_another() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    symlink("/proc/self/cwd", root.join("here")).unwrap();
    symlink("/proc", root.join("proc")).unwrap();
    for path in ["/proc/self/cwd/x", "/proc/self/root/x", "/dev/fd/../cwd/x", "/proc/1/cwd/x"] {
        assert!(led(path, &root).is_none(), "{path}");
    }
    for path in ["here/x", "proc/self/cwd/x"] {
        assert!(led(&format!("{}/{path}", root.display()), &root).is_none(), "{path}");
    }
    assert_eq!(led("/proc/sys/kernel/x", &root).unwrap().kind, Kind::Missing);
}

#[test]
fn a_directory_that_is_not_there_is_the_root_by_its_name() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    symlink(&root, root.join("way")).unwrap();
    let gone = HostContext::alone_in(&root.join("way/gone")).unwrap().facts();
    assert_eq!(Path::new(&gone.root), root.join("gone"));
    assert_eq!(Path::new(&gone.directory.unwrap()), root.join("way/gone"));
    let there = HostContext::alone_in(&root.join("way")).unwrap().facts();
    assert_eq!(Path::new(&there.root), root);
}
