//! Random changes to the files of a directory: every kind that a tree can hold, under every name
//! that a file can have.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use bailiwick_testkit::random::Random;

const NAMES: [&[u8]; 22] = [
    b"a",
    b"b",
    b"c.rs",
    b"lib.rs",
    b"with space",
    b" lead",
    "ünïcode".as_bytes(),
    "\u{1f600}".as_bytes(),
    b".hidden",
    b"-dash",
    b"*",
    b"[x]",
    b"back\\slash",
    b"quo\"te's",
    b"tab\there",
    b"new\nline",
    b"a -> b",
    b"not\xffutf8",
    b"\xfe",
    b"\\xfe",
    b"out.log",
    b"target",
];

pub(crate) fn pick<'a, T: ?Sized>(random: &mut Random, from: &[&'a T]) -> &'a T {
    from.get(random.below(from.len())).unwrap()
}

/// Every file and link below a directory; `.git` left out.
pub(crate) fn files_of(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    found
}

fn fresh_path(random: &mut Random, root: &Path) -> PathBuf {
    let mut path = root.to_owned();
    for _ in 0..=random.below(3) {
        path.push(OsStr::from_bytes(pick(random, &NAMES)));
    }
    path
}

fn content(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => Vec::new(),
        1 => (0..random.below(3000)).map(|_| random.below(256).to_le_bytes()[0]).collect(),
        2 => b"carriage\r\nreturn\r\n".to_vec(),
        _ => lines(random),
    }
}

fn lines(random: &mut Random) -> Vec<u8> {
    let lines = 3 + random.below(30);
    (0..lines).flat_map(|_| format!("line {}\n", random.below(50)).into_bytes()).collect()
}

/// Deletes everything at the path of a file.
fn clear(root: &Path, path: &Path) {
    for place in path.ancestors().skip(1).take_while(|place| *place != root) {
        if fs::symlink_metadata(place).is_ok_and(|found| !found.is_dir()) {
            fs::remove_file(place).unwrap();
        }
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// One change.
pub(crate) fn scribble(random: &mut Random, root: &Path) {
    let files = files_of(root);
    let known = files.get(random.below(files.len())).cloned();
    match (random.below(9), known) {
        (0..=1, _) | (_, None) => {
            let path = fresh_path(random, root);
            clear(root, &path);
            fs::write(path, content(random)).unwrap();
        }
        (2, _) => {
            let path = fresh_path(random, root);
            clear(root, &path);
            symlink(OsStr::from_bytes(pick(random, &NAMES)), path).unwrap();
        }
        (3, Some(path)) => fs::remove_file(path).unwrap(),
        (4, Some(path)) if !path.is_symlink() => {
            let mode = if random.once_in(2) { 0o755 } else { 0o644 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        (5, Some(path)) => {
            let to = fresh_path(random, root);
            if !to.starts_with(&path) && !path.starts_with(&to) {
                clear(root, &to);
                if fs::symlink_metadata(&path).is_ok() {
                    fs::rename(path, to).unwrap();
                }
            }
        }
        (_, Some(path)) if !path.is_symlink() => edit(random, &path),
        (_, Some(_)) => {}
    }
}

/// Changes a line or two, like people do; binary files are rewritten.
fn edit(random: &mut Random, path: &Path) {
    let Ok(text) = fs::read_to_string(path) else {
        return fs::write(path, content(random)).unwrap();
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(2) {
        let at = random.below(lines.len() + 1);
        match random.below(3) {
            0 => lines.insert(at, format!("inserted {}", random.below(1000))),
            1 if at < lines.len() => drop(lines.remove(at)),
            _ => match lines.get_mut(at) {
                Some(line) => *line = format!("changed {}", random.below(1000)),
                None => lines.push("at the end".to_owned()),
            },
        }
    }
    fs::write(path, format!("{}\n", lines.join("\n"))).unwrap();
}
