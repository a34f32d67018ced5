//! Every path that bash and the usual writers change is in the reading, or the reading
//! reports that it is unknown.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bailiwick_policy::shell::{
    CopyWithLinks, LinkPlace, Shape, ShellEffects, Write, WriteKind, is_spelt_through, read,
};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

use crate::writes;
use crate::writes_grammar::Writers;

/// The state of a path: its kind, its permissions and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Thing {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
    Other,
}

type Tree = BTreeMap<PathBuf, Thing>;

/// A tree in which a command runs, several directories deep so that `..` stays inside.
struct Place {
    root: PathBuf,
    work: PathBuf,
}

impl Place {
    fn new(root: PathBuf, archive: &[u8]) -> Self {
        let above = root.join("zu/zv/zw/zx");
        let work = above.join("zwork");
        for path in ["zd1", "zd2/zsub", "zd3/ze"] {
            fs::create_dir_all(work.join(path)).unwrap();
        }
        for path in [above.join("zout"), root.join("zhome"), root.join("ztmp")] {
            fs::create_dir_all(path).unwrap();
        }
        let files = ["zf1", "zf2", "zf3.txt", "zg 4", "zd1/za", "zd1/zb", "zd2/zb", "zd2/zsub/zc"];
        for path in files {
            fs::write(work.join(path), "one\n").unwrap();
        }
        fs::write(above.join("zout/zo"), "one\n").unwrap();
        fs::write(work.join("ztar.tar"), archive).unwrap();
        fs::write(work.join("zpatch"), "@@ -1 +1 @@\n-one\n+two\n").unwrap();
        for (to, at) in [("zd1", "zl1"), ("zf1", "zl2"), ("../zout", "zl3"), ("../zf2", "zd2/zm")] {
            symlink(to, work.join(at)).unwrap();
        }
        Self { root, work }
    }

    fn run(&self, command: &str) {
        let output = Command::new("bash")
            .args(["-c", command])
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.root.join("zhome"))
            .env("TMPDIR", self.root.join("ztmp"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        output.unwrap_or_else(|error| panic!("bash is needed: {error}"));
    }

    fn snapshot(&self) -> Tree {
        let mut tree = Tree::new();
        observe(&self.root, &mut tree);
        tree
    }
}

fn observe(directory: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        let thing = if about.is_symlink() {
            Thing::Link(fs::read_link(&path).unwrap())
        } else if about.is_dir() {
            observe(&path, tree);
            Thing::Directory(about.mode())
        } else if about.is_file() {
            Thing::File(about.mode(), fs::read(&path).unwrap())
        } else {
            Thing::Other
        };
        tree.insert(path, thing);
    }
}

/// The target of a path in a tree, following its links; the last part too if requested.
fn resolved(tree: &Tree, path: &Path, last: bool) -> PathBuf {
    let mut waiting: Vec<String> =
        path.to_str().unwrap().split('/').rev().map(str::to_owned).collect();
    let mut resolved_path = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = waiting.pop() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                resolved_path.pop();
                continue;
            }
            _ => resolved_path.push(&part),
        }
        let end = waiting.iter().all(|part| part.is_empty());
        if let Some(Thing::Link(to)) = tree.get(&resolved_path).filter(|_| last || !end) {
            links += 1;
            if links > 40 {
                return resolved_path;
            }
            resolved_path.pop();
            if to.is_absolute() {
                resolved_path = PathBuf::from("/");
            }
            waiting.extend(to.to_str().unwrap().split('/').rev().map(str::to_owned));
        }
    }
    resolved_path
}

/// The paths that may change according to the reading.
struct ReportedWrites<'a> {
    before: &'a Tree,
    place: &'a Place,
    /// Exactly these.
    paths: Vec<PathBuf>,
    /// These and everything below them.
    below: Vec<PathBuf>,
}

impl ReportedWrites<'_> {
    fn add(&mut self, path: &Path, below: bool) {
        for last in [false, true] {
            let path = resolved(self.before, path, last);
            if below {
                // A write below a directory may go through an existing link.
                let links: Vec<PathBuf> = self
                    .before
                    .iter()
                    .filter(|(at, thing)| at.starts_with(&path) && matches!(thing, Thing::Link(_)))
                    .map(|(at, _)| resolved(self.before, at, true))
                    .collect();
                self.below.extend(links);
                self.below.push(path);
            } else {
                self.paths.push(path);
            }
        }
    }

    fn write(&mut self, write: &Write) {
        let below = matches!(write.kind, WriteKind::WriteBelow | WriteKind::DeleteTree);
        for from in &write.from {
            let from = self.place.work.join(from.path.as_ref().unwrap());
            match write.path.shape() {
                Shape::Known(path) => self.add(&from.join(path), below),
                Shape::UnderHome { rest, .. } => {
                    let home = self.place.root.join("zhome");
                    self.add(&home.join(rest.trim_start_matches('/')), below);
                }
                Shape::Within(directory) => {
                    let place = from.join(directory);
                    let real = resolved(self.before, &place, true);
                    // Nothing is below a file, but a file with a name derived from it may be beside it.
                    let file = matches!(self.before.get(&real), Some(Thing::File(..)));
                    self.add(if file { place.parent().unwrap() } else { &place }, true);
                }
                Shape::Temporary => self.add(&self.place.root.join("ztmp"), true),
                Shape::Glob(pattern) => self.glob(&from.join(pattern), below),
                Shape::Unknown => unreachable!("looked up before"),
            }
        }
    }

    /// The matches of a pattern, the pattern itself, and files that are created later and match.
    fn glob(&mut self, pattern: &Path, below: bool) {
        let parts: Vec<&str> = pattern.to_str().unwrap().split('/').collect();
        let first = parts.iter().position(|part| part.contains(['*', '?', '['])).unwrap();
        let fixed = resolved(self.before, Path::new(&parts[..first].join("/")), true);
        self.add(pattern, below);
        // Everything in that directory whose name starts like the pattern.
        let begin = parts[first].split(['*', '?', '[']).next().unwrap().replace('\\', "");
        let rest = parts[first + 1..].join("/");
        let names = self.place.snapshot().into_keys().chain(self.before.keys().cloned());
        let matching: Vec<PathBuf> = names
            .filter(|path| path.parent() == Some(&fixed))
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&begin))
            .collect();
        for path in matching {
            // Files that the command itself created there are not listed.
            let wild = rest.contains(['*', '?', '[']);
            let place = if wild { path } else { path.join(&rest) };
            self.add(&place, below || wild);
        }
    }

    fn covers(&self, path: &Path) -> bool {
        let created_on_the_way = |other: &PathBuf| other.starts_with(path) && other != path;
        self.paths.iter().any(|covered| covered == path)
            || self.below.iter().any(|covered| path.starts_with(covered))
            || (!self.before.contains_key(path)
                && self.paths.iter().chain(&self.below).any(created_on_the_way))
    }
}

/// Whether a write goes through a link of the command that lies behind an existing link: only
/// the disk shows this, and the decision then treats the path as unknown.
fn meets_a_link(reading: &ShellEffects, place: &Place, before: &Tree) -> bool {
    let links: Vec<PathBuf> = reading
        .links
        .iter()
        .filter_map(|link| match link {
            LinkPlace::Path(path) => Some(place.work.join(path)),
            LinkPlace::UnderHome(_) | LinkPlace::Temporary => None,
        })
        .collect();
    let meets = |path: &Path, below: bool| {
        let real = resolved(before, path, true);
        links.iter().any(|at| {
            let entry = resolved(before, at, false);
            let spelt = is_spelt_through(at.to_str().unwrap(), path.to_str().unwrap(), below);
            !spelt && (real.starts_with(&entry) || (below && entry.starts_with(&real)))
        })
    };
    reading.writes.iter().any(|write| {
        write.from.iter().any(|from| {
            let from = place.work.join(from.path.as_ref().unwrap());
            match write.path.shape() {
                Shape::Known(path) => meets(&from.join(path), write.kind == WriteKind::WriteBelow),
                Shape::Within(path) => meets(&from.join(path), true),
                Shape::Glob(path) => {
                    let end = path.find(['*', '?', '[']).unwrap_or(path.len());
                    let fixed = path.get(..end).unwrap_or_default();
                    let directory = fixed.rfind('/').and_then(|end| fixed.get(..end));
                    meets(&from.join(directory.unwrap_or_default()), true)
                }
                Shape::UnderHome { .. } | Shape::Temporary | Shape::Unknown => false,
            }
        })
    })
}

/// Whether a write goes through a copy that contains links: only the disk shows this, and the
/// decision then treats the path as unknown too.
fn meets_a_copied_link(reading: &ShellEffects, place: &Place, before: &Tree) -> bool {
    let linked = |copy: &CopyWithLinks| match &copy.from {
        Some(LinkPlace::Path(from)) => {
            let from = resolved(before, &place.work.join(from), false);
            before
                .iter()
                .any(|(at, thing)| at.starts_with(&from) && matches!(thing, Thing::Link(_)))
        }
        Some(LinkPlace::Temporary) => false,
        Some(LinkPlace::UnderHome(_)) | None => true,
    };
    let other_writes = |copy: &CopyWithLinks| {
        let is_own = |write: &&Write| write.by == "cp" && copy.own.contains(&write.path);
        reading.writes.iter().any(|write| {
            !is_own(&write)
                && write.from.iter().any(|from| {
                    let from = place.work.join(from.path.as_ref().unwrap());
                    match (&copy.at, write.path.shape()) {
                        (Some(LinkPlace::Path(at)), Shape::Known(path)) => {
                            let below = write.kind == WriteKind::WriteBelow;
                            leads_through(before, &place.work.join(at), &from.join(path), below)
                        }
                        _ => true,
                    }
                })
        })
    };
    reading.copies.iter().any(linked) && reading.copies.iter().any(other_writes)
}

/// Whether a path leads through another one, by its name or by the targets of its links.
fn leads_through(before: &Tree, at: &Path, path: &Path, below: bool) -> bool {
    let (real_at, real_path) = (resolved(before, at, true), resolved(before, path, true));
    is_spelt_through(at.to_str().unwrap(), path.to_str().unwrap(), below)
        || real_path.starts_with(&real_at)
        || (below && real_at.starts_with(&real_path))
}

fn is_unsure(reading: &ShellEffects) -> bool {
    let unsure = |write: &Write| {
        write.path.shape() == Shape::Unknown || write.from.iter().any(|from| from.path.is_none())
    };
    !reading.hidden.is_empty() || reading.writes.iter().any(unsure)
}

fn archive() -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("zd1")).unwrap();
    fs::write(place.path().join("zd1/zt"), "t\n").unwrap();
    fs::write(place.path().join("zt"), "t\n").unwrap();
    let mut tar = Command::new("tar");
    tar.args(["cf", "t.tar", "zd1", "zt"]).current_dir(place.path());
    let status = tar.status().unwrap_or_else(|error| panic!("tar is needed: {error}"));
    assert!(status.success());
    fs::read(place.path().join("t.tar")).unwrap()
}

#[test]
fn reading_covers_every_changed_path() {
    let mut random = Random::rotating("writes");
    let archive = archive();
    // In memory, if available, it takes half the time.
    let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap();
    let enough = Depth::from_env().cases(30_000);
    let (mut total, mut unsure, mut changed, mut paths) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut escapes = Vec::new();
    let (mut compared, mut met) = (0, 0);
    while compared < enough {
        total += 1;
        let depth = 1 + random.below(3);
        let mut command = Writers::new(&mut random).command(depth);
        if !random.once_in(4) {
            command.insert_str(0, "x=zf2; d=zd1; ");
        }
        let reading = read(&command);
        if is_unsure(&reading) {
            unsure += 1;
            continue;
        }
        compared += 1;
        let place = Place::new(root.join(format!("zz{compared}")), &archive);
        let before = place.snapshot();
        if meets_a_link(&reading, &place, &before) || meets_a_copied_link(&reading, &place, &before)
        {
            met += 1;
            let _ = fs::remove_dir_all(&place.root);
            continue;
        }
        place.run(&command);
        let after = place.snapshot();
        let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
        let mut different: Vec<&PathBuf> =
            before.keys().chain(after.keys()).filter(differs).collect();
        different.sort();
        different.dedup();
        changed += u64::from(!different.is_empty());
        paths += different.len() as u64;
        let mut covered =
            ReportedWrites { before: &before, place: &place, paths: vec![], below: vec![] };
        reading.writes.iter().for_each(|write| covered.write(write));
        let escaped: Vec<_> = different.iter().filter(|path| !covered.covers(path)).collect();
        let escaped: Vec<_> =
            escaped.iter().map(|path| path.strip_prefix(&place.root).unwrap_or(path)).collect();
        if !escaped.is_empty() {
            let read: Vec<String> = reading.writes.iter().map(writes::describe).collect();
            escapes.push(format!("{escaped:?} changed unseen, read was {read:?}:\n{command}\n"));
        }
        let _ = fs::remove_dir_all(&place.root);
        assert!(escapes.len() < 4, "escapes:\n{}", escapes.join("\n"));
    }
    assert!(escapes.is_empty(), "escapes:\n{}", escapes.join("\n"));
    figure(&format!(
        "writes: {total} generated commands, {compared} run by real bash, 0 escapes ({changed} \
         changed {paths} paths; {unsure} said not to know, {met} met a link by another name)"
    ));
    assert!(met * 20 < compared, "too many were left out: {met} of {compared}");
    assert!(
        changed * 5 > compared * 2,
        "too few commands changed anything: {changed} of {compared}"
    );
    assert!(unsure * 2 < total, "too many commands are reported as unknown: {unsure} of {total}");
}
