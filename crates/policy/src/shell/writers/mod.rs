//! Programs that are known to write the files named behind them: `tee`, `cp`, `rm`, `sed -i` …

mod archives;
mod compress;
mod copy;
mod download;
mod find;
mod formatters;
mod launch_context;
mod links;
mod managers;
mod named;
mod options;
mod outputs;
mod patch;
mod search;
mod sed;
mod table;

pub(super) use find::{FoundFiles, found, listed, only_named};
pub use links::is_spelt_through;
pub(super) use links::{Copied, Link};

use std::rc::Rc;

use super::field::Field;
use super::redirect::Input;
use super::walk::Walker;
use super::working_directories::from_place;
use super::{Directory, Write, WriteKind};

/// Notes the files that a program of this name writes.
pub(super) fn note_writes(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) {
    match name {
        "cp" | "mv" | "install" | "ln" | "rsync" => copy::note(walker, name, arguments),
        "tar" | "bsdtar" | "unzip" | "zip" => archives::note(walker, name, arguments),
        "sed" | "gsed" => sed::note(walker, arguments),
        "patch" => patch::note(walker, arguments, input),
        "find" => find::note(walker, arguments),
        "curl" | "wget" => download::note(walker, name, arguments),
        _ => {
            let known = compress::note(walker, name, arguments)
                || managers::note(walker, name, arguments)
                || formatters::note(walker, name, arguments);
            if !known {
                named::note(walker, name, arguments);
            }
        }
    }
}

impl Walker {
    /// Notes a file that is written from where the command is now.
    pub(super) fn wrote(&mut self, path: Field, kind: WriteKind, by: &str) {
        // Nothing has no name.
        if path.known().is_some_and(|text| text.is_empty()) {
            return;
        }
        if !self.another_effect(std::slice::from_ref(&path)) {
            return;
        }
        let by = by.to_owned();
        if path.is_absolute() {
            // From anywhere it is the same.
            let path = from_place(None, &path).unwrap_or_else(Field::unknown);
            let from = vec![Directory::start()];
            return self.reading.writes.push(Write {
                path,
                from,
                kind,
                by,
                named: None,
                only_existing: false,
            });
        }
        let mut from = Vec::new();
        let places = Rc::clone(&self.environment.working_directories.places);
        for place in places.iter() {
            match place.directory() {
                Some(directory) => from.push(directory),
                // A partly known directory is shown as part of the path.
                None => {
                    let path = from_place(place.path.as_ref(), &path);
                    let path = path.unwrap_or_else(Field::unknown);
                    let (from, by) = (vec![Directory::start()], by.clone());
                    self.reading.writes.push(Write {
                        path,
                        from,
                        kind,
                        by,
                        named: None,
                        only_existing: false,
                    });
                }
            }
        }
        if !from.is_empty() {
            self.reading.writes.push(Write {
                path,
                from,
                kind,
                by,
                named: None,
                only_existing: false,
            });
        }
    }

    /// Analyses a command with files that may not exist: their writes count only if they do, and nothing else of it
    /// is new.
    pub(super) fn if_there(&mut self, work: impl FnOnce(&mut Self)) {
        let (runs, hidden) = (self.reading.runs.len(), self.reading.hidden.len());
        let (writes, scripts) = (self.reading.writes.len(), self.reading.scripts_not_in_text.len());
        self.in_subshell(work);
        self.reading.runs.truncate(runs);
        self.reading.hidden.truncate(hidden);
        self.reading.scripts_not_in_text.truncate(scripts);
        for write in self.reading.writes.iter_mut().skip(writes) {
            write.only_existing = true;
        }
    }

    /// Records created directories, with their missing parents. Those are on the way to what is recorded, except for
    /// `a/..`.
    fn create_directories(&mut self, paths: &[Field], by: &str) {
        for path in paths {
            let text = path.known().unwrap_or_default();
            let mut above = text.as_str();
            while let Some((head, last)) = above.rsplit_once('/') {
                if last == ".." {
                    self.wrote(Field::text(head), WriteKind::Change, by);
                }
                above = head;
            }
            self.wrote(path.clone(), WriteKind::Change, by);
        }
    }

    /// Notes several files.
    fn wrote_all(&mut self, paths: impl IntoIterator<Item = Field>, kind: WriteKind, by: &str) {
        for path in paths {
            self.wrote(path, kind, by);
        }
    }
}
