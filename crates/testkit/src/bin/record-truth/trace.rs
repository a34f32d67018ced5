//! Reads what strace wrote: who executed what, and who wrote where.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bailiwick_testkit::corpus::How;

use crate::view::{Last, View};

/// The system calls that are traced.
pub(crate) const CALLS: &str = "execve,execveat,clone,clone3,fork,vfork,chdir,fchdir,open,openat,\
openat2,creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlink,\
symlinkat,truncate,mknod,mknodat,chmod,fchmodat,?fchmodat2";

/// A program that was executed.
pub(crate) struct Exec {
    /// The path as written, made absolute.
    pub(crate) named: PathBuf,
    /// Its arguments.
    pub(crate) argv: Vec<String>,
    /// The program that started it, by place in the list; nothing for the outermost shell.
    pub(crate) parent: Option<usize>,
}

/// A change of a file.
pub(crate) struct Change {
    /// The path with links resolved.
    pub(crate) path: PathBuf,
    /// The kind of access.
    pub(crate) how: How,
    /// The program that did it, by place in the list.
    pub(crate) by: usize,
    process: u32,
    created: bool,
}

/// All that was seen.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) execs: Vec<Exec>,
    pub(crate) changes: Vec<Change>,
    /// Programs that could not be found, by base name.
    pub(crate) not_found: Vec<String>,
}

/// The known state of a process.
#[derive(Clone)]
struct Process {
    directory: PathBuf,
    exec: Option<usize>,
}

/// Reads the whole text.
pub(crate) fn read(text: &str, start: &Path, view: &View) -> Trace {
    let lines = whole_lines(text);
    let parents = parents(&lines);
    let mut trace = Trace::default();
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    for (pid, line) in &lines {
        if !processes.contains_key(pid) {
            let parent = parents.get(pid).and_then(|parent| processes.get(parent)).cloned();
            let first = Process { directory: start.to_owned(), exec: None };
            processes.insert(*pid, parent.unwrap_or(first));
        }
        let (Some(process), Some(call)) = (processes.get_mut(pid), Call::parse(line)) else {
            continue;
        };
        trace.take(*pid, process, &call, view);
        // A child starts with the current state of its parent, not with the state at its first event.
        if let Some(child) = started(line) {
            let state = process.clone();
            processes.entry(child).or_insert(state);
        }
    }
    let found: Vec<String> = trace.execs.iter().map(|exec| base_name(&exec.named)).collect();
    trace.not_found.retain(|name| !found.contains(name));
    trace.drop_own_temporaries();
    trace
}

impl Trace {
    fn take(&mut self, pid: u32, process: &mut Process, call: &Call, view: &View) {
        let at = |place: usize| call.path(place, &process.directory);
        match call.name.as_str() {
            "execve" | "execveat" => {
                let from = usize::from(call.name == "execveat");
                let Some(named) =
                    (if from == 1 { call.path_at(0, 1) } else { at(0) }).or_else(|| call.fd(0))
                else {
                    return;
                };
                if !call.succeeded() {
                    if call.result.contains("ENOENT") {
                        self.not_found.push(base_name(&named));
                    }
                    return;
                }
                let argv = call.arguments.get(from + 1).map(|text| strings(text));
                let argv = argv.unwrap_or_default();
                self.execs.push(Exec { named, argv, parent: process.exec });
                process.exec = Some(self.execs.len() - 1);
            }
            _ if !call.succeeded() => {}
            "chdir" => process.directory = view.resolve(&at(0).unwrap_or_default(), Last::Followed),
            "fchdir" => process.directory = call.fd(0).unwrap_or_default(),
            _ => {
                let Some(by) = process.exec else { return };
                for (path, how, created) in call.changes(&process.directory) {
                    let last = if how == How::Mode { Last::Followed } else { Last::Kept };
                    // Pipes and sockets have no path.
                    let is_file = path.is_absolute();
                    let path = view.resolve(&path, last);
                    if is_file && !is_noise(&path) {
                        self.changes.push(Change { path, how, by, process: pid, created });
                    }
                }
            }
        }
    }

    /// A file that a process created and then removed or renamed does not count: `sed -i` writes beside the file and
    /// renames. The final file stays.
    fn drop_own_temporaries(&mut self) {
        let own = |change: &Change| {
            let same =
                |other: &&Change| other.path == change.path && other.process == change.process;
            let of_path: Vec<&Change> = self.changes.iter().filter(same).collect();
            let made = of_path.first().is_some_and(|first| first.created);
            let gone = |how: How| matches!(how, How::Deleted | How::RenamedFrom);
            made && of_path.last().is_some_and(|last| gone(last.how))
        };
        let keep: Vec<bool> = self.changes.iter().map(|change| !own(change)).collect();
        let mut keep = keep.into_iter();
        self.changes.retain(|_| keep.next().unwrap_or(true));
    }

    /// Whether a program runs inside one of which `outer` holds.
    pub(crate) fn is_inside(&self, exec: usize, outer: impl Fn(usize) -> bool) -> bool {
        let parent = |at: &usize| self.execs.get(*at).and_then(|exec| exec.parent);
        std::iter::successors(parent(&exec), parent).any(outer)
    }
}

/// Devices, the kernel's files, pipes, our own files, and bash's own here-documents.
fn is_noise(path: &Path) -> bool {
    let name = base_name(path);
    ["/dev", "/proc", "/sys", "/trace"].iter().any(|place| path.starts_with(place))
        || (path.starts_with("/tmp") && name.starts_with("sh-thd"))
}

/// The last part of a path.
pub(crate) fn base_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Joins calls that strace shows in two halves.
fn whole_lines(text: &str) -> Vec<(u32, String)> {
    let mut halves: BTreeMap<u32, String> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let Ok(pid) = pid.parse::<u32>() else { continue };
        let rest = rest.trim_start();
        if let Some(half) = rest.strip_suffix(" <unfinished ...>") {
            halves.insert(pid, half.to_owned());
        } else if let Some((_, end)) =
            rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"))
        {
            let begin = halves.remove(&pid).unwrap_or_default();
            lines.push((pid, begin + end));
        } else {
            lines.push((pid, rest.to_owned()));
        }
    }
    lines
}

/// The process that a call started.
fn started(line: &str) -> Option<u32> {
    let starts = ["clone(", "clone3(", "fork(", "vfork("];
    let starts = starts.iter().any(|start| line.starts_with(start));
    starts.then(|| line.rsplit_once("= ")?.1.trim().parse().ok())?
}

/// The parent of each process.
fn parents(lines: &[(u32, String)]) -> BTreeMap<u32, u32> {
    lines.iter().filter_map(|(pid, line)| Some((started(line)?, *pid))).collect()
}

/// One system call as strace shows it.
struct Call {
    name: String,
    arguments: Vec<String>,
    result: String,
}

impl Call {
    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once('(')?;
        let (mut arguments, mut argument, mut depth) = (Vec::new(), String::new(), 0_u32);
        let mut characters = rest.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => {
                    argument.push('"');
                    while let Some(inner) = characters.next() {
                        argument.push(inner);
                        match inner {
                            '\\' => argument.extend(characters.next()),
                            '"' => break,
                            _ => {}
                        }
                    }
                    continue;
                }
                '<' => {
                    argument.push('<');
                    for inner in characters.by_ref() {
                        argument.push(inner);
                        if inner == '>' {
                            break;
                        }
                    }
                    continue;
                }
                '(' | '[' | '{' => depth += 1,
                ')' if depth == 0 => {
                    arguments.push(argument.trim().to_owned());
                    let result = characters.as_str().trim().strip_prefix('=')?.trim().to_owned();
                    return Some(Self { name: name.to_owned(), arguments, result });
                }
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    arguments.push(argument.trim().to_owned());
                    argument.clear();
                    continue;
                }
                _ => {}
            }
            argument.push(character);
        }
        None
    }

    fn succeeded(&self) -> bool {
        !self.result.starts_with("-1") && !self.result.starts_with('?')
    }

    /// A path argument of a call without a directory descriptor.
    fn path(&self, place: usize, directory: &Path) -> Option<PathBuf> {
        let text = strings(self.arguments.get(place)?).into_iter().next()?;
        let path = Path::new(&text);
        let own = path.strip_prefix("/proc/self/cwd").unwrap_or(path);
        Some(directory.join(own))
    }

    /// A path argument behind the directory that it is relative to.
    fn path_at(&self, directory: usize, place: usize) -> Option<PathBuf> {
        let text = strings(self.arguments.get(place)?).into_iter().next()?;
        let directory = self.fd(directory)?;
        Some(if text.is_empty() { directory } else { directory.join(text) })
    }

    /// The file of a descriptor.
    fn fd(&self, place: usize) -> Option<PathBuf> {
        described(self.arguments.get(place)?)
    }

    /// The files that the call changes, how, and whether it created them.
    fn changes(&self, directory: &Path) -> Vec<(PathBuf, How, bool)> {
        let at = |place: usize| self.path(place, directory);
        let path_at = |from: usize| self.path_at(from, from + 1);
        let changed = match self.name.as_str() {
            "open" | "openat" | "openat2" | "creat" => return self.opened(directory),
            "rename" => vec![(at(0), How::RenamedFrom), (at(1), How::RenamedTo)],
            "renameat" | "renameat2" => {
                vec![(path_at(0), How::RenamedFrom), (path_at(2), How::RenamedTo)]
            }
            "unlink" => vec![(at(0), How::Deleted)],
            "unlinkat" if self.mentions("AT_REMOVEDIR") => vec![(path_at(0), How::Directory)],
            "unlinkat" => vec![(path_at(0), How::Deleted)],
            "rmdir" | "mkdir" => vec![(at(0), How::Directory)],
            "mkdirat" => vec![(path_at(0), How::Directory)],
            "link" | "symlink" => vec![(at(1), How::Linked)],
            "linkat" => vec![(path_at(2), How::Linked)],
            "symlinkat" => vec![(path_at(1), How::Linked)],
            "mknod" => vec![(at(0), How::Linked)],
            "mknodat" => vec![(path_at(0), How::Linked)],
            "truncate" => vec![(at(0), How::Written)],
            "chmod" => vec![(at(0), How::Mode)],
            "fchmodat" | "fchmodat2" => vec![(path_at(0), How::Mode)],
            _ => Vec::new(),
        };
        let made = |how: How| matches!(how, How::Linked | How::RenamedTo);
        changed.into_iter().filter_map(|(path, how)| Some((path?, how, made(how)))).collect()
    }

    /// A file opened for writing: the descriptor shows its real path.
    fn opened(&self, directory: &Path) -> Vec<(PathBuf, How, bool)> {
        let makes = self.name == "creat" || self.mentions("O_CREAT");
        let writes = makes || ["O_WRONLY", "O_RDWR", "O_TRUNC"].iter().any(|f| self.mentions(f));
        // A file without a name goes away with the process.
        if !writes || self.mentions("O_DIRECTORY") || self.mentions("O_TMPFILE") {
            return Vec::new();
        }
        let path = described(&self.result).or_else(|| self.path(0, directory));
        path.into_iter().map(|path| (path, How::Written, makes)).collect()
    }

    fn mentions(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| !argument.starts_with('"') && argument.contains(flag))
    }
}

/// The path in `3</srv/repo/x>` or `AT_FDCWD</srv/repo>`.
fn described(text: &str) -> Option<PathBuf> {
    let (_, rest) = text.split_once('<')?;
    let (path, _) = rest.rsplit_once('>')?;
    Some(PathBuf::from(unescaped(path)))
}

/// The quoted strings in a piece of text.
fn strings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, inner)) = rest.split_once('"') {
        let mut end = 0;
        let mut escaped = false;
        for (at, character) in inner.char_indices() {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let (string, after) = inner.split_at(end);
        found.push(unescaped(string));
        rest = after.strip_prefix('"').unwrap_or_default();
    }
    found
}

/// Undoes strace's way of writing odd characters.
fn unescaped(text: &str) -> String {
    let mut bytes: Vec<u8> = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            bytes.extend(character.to_string().bytes());
            continue;
        }
        match characters.next() {
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('r') => bytes.push(b'\r'),
            Some('v') => bytes.push(11),
            Some('f') => bytes.push(12),
            Some(digit @ '0'..='7') => {
                let mut value = digit.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let next = characters.peek().and_then(|next| next.to_digit(8));
                    let Some(next) = next else { break };
                    value = value * 8 + next;
                    characters.next();
                }
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            Some(other) => bytes.extend(other.to_string().bytes()),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
