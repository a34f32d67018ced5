//! The possible working directories, after `cd`, `pushd` and `popd`.

use std::rc::Rc;

use super::environment::Value;
use super::field::{Field, Piece};
use super::walk::Walker;
use super::{Directory, WriteKind};

/// More possible directories than this are as good as unknown.
const MAX_COUNT: usize = 6;

/// A directory in which the command may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkingDirectory {
    /// Absolute, or relative to where the whole command starts; `None` if that is unknown.
    pub(super) path: Option<Field>,
    /// Only reached if this directory cannot be entered.
    pub(super) unless: Option<String>,
}

impl WorkingDirectory {
    fn unknown() -> Self {
        Self { path: None, unless: None }
    }

    /// The public form; `None` if only a field can express it.
    pub(super) fn directory(&self) -> Option<Directory> {
        let path = match &self.path {
            Some(path) => Some(path.known()?),
            None => None,
        };
        Some(Directory { path, unless: self.unless.clone() })
    }
}

/// Everything about directories at one point of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkingDirectories {
    pub(super) places: Rc<Vec<WorkingDirectory>>,
    /// The directory of `cd -`, if it is known.
    previous: Option<Rc<Vec<WorkingDirectory>>>,
    /// The stack of `pushd`, if it is known.
    stack: Option<Vec<Rc<Vec<WorkingDirectory>>>>,
}

thread_local! {
    /// The initial directory: shared, because it is used often.
    static START: Rc<Vec<WorkingDirectory>> =
        Rc::new(vec![WorkingDirectory { path: Some(Field::text("")), unless: None }]);
}

impl Default for WorkingDirectories {
    fn default() -> Self {
        Self { places: START.with(Rc::clone), previous: None, stack: Some(Vec::new()) }
    }
}

impl WorkingDirectories {
    /// Anywhere.
    pub(super) fn lost() -> Self {
        Self { places: Rc::new(vec![WorkingDirectory::unknown()]), previous: None, stack: None }
    }

    /// Joins the knowledge of two branches.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.places = few(self.places.iter().chain(other.places.iter()).cloned());
        self.previous = self.previous.filter(|ours| other.previous.as_ref() == Some(ours));
        self.stack = self.stack.filter(|ours| other.stack.as_ref() == Some(ours));
        self
    }

    /// The directories after `cd`: if it succeeded, and if it failed.
    pub(super) fn enter(&self, target: &Field) -> (Self, Self) {
        let mut entered = Vec::new();
        let mut stayed = Vec::new();
        for place in self.places.iter() {
            let paths = led_to(place, target);
            let named = match paths.as_slice() {
                [Some(path), ..] => path.known(),
                _ => None,
            };
            let unless = |path| WorkingDirectory { path, unless: place.unless.clone() };
            entered.extend(paths.into_iter().map(unless));
            // An older condition is stronger: that directory existed before.
            let unless = place.unless.clone().or(named);
            stayed.push(WorkingDirectory { path: place.path.clone(), unless });
        }
        let there = Self {
            places: few(entered),
            previous: Some(self.places.clone()),
            stack: self.stack.clone(),
        };
        (there, Self { places: few(stayed), ..self.clone() })
    }
}

fn few(places: impl IntoIterator<Item = WorkingDirectory>) -> Rc<Vec<WorkingDirectory>> {
    let mut distinct: Vec<WorkingDirectory> = Vec::new();
    for place in places {
        // Without a condition it is reached in any case.
        let known = |other: &WorkingDirectory| {
            other.path == place.path && (other.unless.is_none() || other.unless == place.unless)
        };
        if !distinct.iter().any(known) {
            distinct.push(place);
        }
    }
    Rc::new(if distinct.len() > MAX_COUNT { vec![WorkingDirectory::unknown()] } else { distinct })
}

/// The possible directories of a path relative to a place: the shell resolves `..` by the names of its path, and in
/// the file system if that fails.
fn led_to(place: &WorkingDirectory, target: &Field) -> Vec<Option<Field>> {
    let Some(path) = from_place(place.path.as_ref(), target) else { return vec![None] };
    match path.known() {
        Some(text) => {
            let (plain, back) = (tidy(&text), along_names(&text));
            let mut both = vec![Some(Field::text(back))];
            if both.first() != Some(&Some(Field::text(plain.clone()))) {
                both.push(Some(Field::text(plain)));
            }
            both
        }
        None => vec![Some(path)],
    }
}

/// A path as seen from where the whole command starts; `None` if that is not known.
pub(super) fn from_place(place: Option<&Field>, target: &Field) -> Option<Field> {
    if let Some((Piece::Start, rest)) = target.pieces().split_first() {
        let rest = Field::of(rest.to_vec());
        return match rest.known() {
            Some(text) if text.is_empty() || text.starts_with('/') => {
                Some(Field::text(format!(".{text}")))
            }
            None if rest.is_absolute() => Some(Field::text(".").joined(&rest)),
            _ => None,
        };
    }
    if target.is_absolute() {
        return Some(target.clone());
    }
    if target.may_be_absolute() {
        return None;
    }
    Some(place?.below(target))
}

/// Without `.` and doubled slashes.
pub(super) fn tidy(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The same, where `..` removes the name in front of it.
fn along_names(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let root = path.starts_with('/');
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if root => {}
            _ => parts.push(part),
        }
    }
    format!("{}{}", if root { "/" } else { "" }, parts.join("/"))
}

impl Walker {
    /// `cd`, `pushd` and `popd`.
    pub(super) fn change_directory(&mut self, name: &str, arguments: &[Field]) {
        let here = self.environment.working_directories.clone();
        let (there, mut stayed) = self.changed(name, arguments, &here);
        for place in Rc::make_mut(&mut stayed.places) {
            place.unless = place.unless.take().filter(|path| !self.may_be_gone(path));
        }
        self.moved = true;
        let mut both = there.clone().join(stayed.clone());
        // If nothing was entered nothing was pushed, and then `popd` leads nowhere.
        if name == "pushd" && there.stack.as_ref().is_some_and(|stack| stack.len() == 1) {
            both.stack.clone_from(&there.stack);
        }
        self.environment.working_directories = both;
        self.outcome = Some((there, stayed));
    }

    /// Whether a directory that is there now may not be there any more at this moment.
    fn may_be_gone(&self, path: &str) -> bool {
        self.reading.writes.iter().any(|write| {
            let is_deleted = matches!(write.kind, WriteKind::Delete | WriteKind::DeleteTree)
                || write.by == "chmod";
            is_deleted
                && match write.path.known() {
                    // From wherever it is named, its last part is a part of the path.
                    Some(deleted) => {
                        let name = tidy(&deleted);
                        let name = name.rsplit('/').next().unwrap_or_default();
                        name.is_empty() || name == ".." || path.split('/').any(|part| part == name)
                    }
                    None => true,
                }
        })
    }

    fn changed(
        &mut self,
        name: &str,
        arguments: &[Field],
        here: &WorkingDirectories,
    ) -> (WorkingDirectories, WorkingDirectories) {
        let mut operands: Vec<&Field> = Vec::new();
        let mut plain = false;
        for argument in arguments {
            match argument.known().as_deref() {
                Some("--") if !plain => plain = true,
                Some(option) if !plain && is_option(name, option) => {}
                _ => operands.push(argument),
            }
        }
        let dash = |field: &Field| field.known().as_deref() == Some("-");
        let numbered = |field: &Field| {
            field.known().is_some_and(|text| name != "cd" && text.starts_with(['+', '-']))
        };
        match (name, operands.as_slice()) {
            ("popd", []) => match here.stack.clone().map(|mut stack| (stack.pop(), stack)) {
                Some((Some(places), stack)) => {
                    let previous = Some(here.places.clone());
                    let there = WorkingDirectories { places, previous, stack: Some(stack) };
                    (there, here.clone())
                }
                _ => (WorkingDirectories::lost(), here.clone()),
            },
            ("cd", []) => here.enter(&self.home(None)),
            ("cd", [only]) if dash(only) => match here.previous.clone() {
                Some(places) => {
                    let previous = Some(here.places.clone());
                    let there = WorkingDirectories { places, previous, stack: here.stack.clone() };
                    (there, here.clone())
                }
                None => (WorkingDirectories::lost(), here.clone()),
            },
            ("cd" | "pushd", [only]) if !numbered(only) => {
                // With CDPATH a name may be found elsewhere.
                if self.environment.variables.contains_key("CDPATH") {
                    return (WorkingDirectories::lost(), here.clone());
                }
                let (mut there, stayed) = here.enter(&only.single());
                if name == "pushd" {
                    let stack = there.stack.as_mut();
                    stack.into_iter().for_each(|stack| stack.push(here.places.clone()));
                }
                (there, stayed)
            }
            _ => (WorkingDirectories::lost(), here.clone()),
        }
    }

    /// The home directory, as far as the text leaves it alone.
    pub(super) fn home(&self, user: Option<&str>) -> Field {
        match (user, self.environment.get("HOME")) {
            (Some(user), _) => Field::of(vec![Piece::Home(Some(user.to_owned()))]),
            (None, Value::OneOf(texts)) if texts.len() == 1 => {
                texts.into_iter().next().map_or_else(Field::unknown, Field::text)
            }
            (None, _) if self.environment.is_untouched("HOME") => {
                Field::of(vec![Piece::Home(None)])
            }
            (None, _) => Field::unknown(),
        }
    }

    /// The absolute name of where the command is.
    pub(super) fn working_directory(&self) -> Field {
        let [place] = self.environment.working_directories.places.as_slice() else {
            return Field::unknown();
        };
        match place.path.as_ref() {
            Some(path) if path.is_absolute() => path.clone(),
            Some(path) if path.known().is_some_and(|text| text.is_empty()) => {
                Field::of(vec![Piece::Start])
            }
            Some(path) => Field::of(vec![Piece::Start]).below(path),
            None => Field::unknown(),
        }
    }
}

fn is_option(name: &str, text: &str) -> bool {
    match name {
        "cd" => matches!(text, "-L" | "-P" | "-e" | "-@" | "-LP" | "-PL" | "-Pe"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_without_following_dots() {
        assert_eq!(tidy("./a//b/../c/."), "a/b/../c");
        assert_eq!(tidy("."), "");
        assert_eq!(tidy("//etc/"), "/etc");
        assert_eq!(along_names("a/b/../../../c"), "../c");
        assert_eq!(along_names("/a/../../b"), "/b");
    }
}
