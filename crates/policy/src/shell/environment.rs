//! Variables, functions and positional parameters, as far as the text decides them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use brush_parser::ast::FunctionBody;

use super::field::{Field, Piece};
use super::working_directories::WorkingDirectories;
use crate::word_list::words;

/// More alternatives than this are as good as unknown.
const MAX_COUNT: usize = 8;
/// Longer texts and arrays than this are as good as unknown.
const MAX_LENGTH: usize = 4096;

/// The possible values of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Anything.
    Unknown,
    OneOf(Vec<String>),
    /// An array of exactly these.
    Array(Vec<String>),
    /// One of these, of which not everything is known.
    Fields(Vec<Field>),
}

impl Value {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::OneOf(vec![text.into()])
    }

    /// One value out of several; unknown if they are too many.
    pub(super) fn one_of(texts: Vec<String>) -> Self {
        let mut distinct: Vec<String> = Vec::new();
        for text in texts {
            if !distinct.contains(&text) {
                distinct.push(text);
            }
            if distinct.len() > MAX_COUNT {
                return Self::Unknown;
            }
        }
        let long = distinct.iter().any(|text| text.len() > MAX_LENGTH);
        if distinct.is_empty() || long { Self::Unknown } else { Self::OneOf(distinct) }
    }

    /// An array; unknown if it is too long.
    pub(super) fn array(texts: Vec<String>) -> Self {
        let length: usize = texts.iter().map(|text| text.len() + 1).sum();
        if length > MAX_LENGTH { Self::Unknown } else { Self::Array(texts) }
    }

    /// One value out of several that are known in part; unknown if nothing much is known of one.
    pub(super) fn fields(fields: Vec<Field>) -> Self {
        if let Some(texts) = fields.iter().map(Field::known).collect() {
            return Self::one_of(texts);
        }
        let mut distinct: Vec<Field> = Vec::new();
        for field in fields.iter().map(Field::single) {
            if !distinct.contains(&field) {
                distinct.push(field);
            }
        }
        let long =
            |field: &Field| field.pieces().len() > 16 || field.to_string().len() > MAX_LENGTH;
        let blank = |field: &Field| matches!(field.pieces(), [Piece::Unknown]);
        let useless = distinct.iter().any(|field| long(field) || blank(field));
        if distinct.len() > MAX_COUNT || useless { Self::Unknown } else { Self::Fields(distinct) }
    }

    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::OneOf(one), Self::OneOf(other)) => Self::one_of([one, other].concat()),
            (one @ (Self::OneOf(_) | Self::Fields(_)), other) => match other {
                Self::OneOf(_) | Self::Fields(_) => {
                    let both = one.possible().zip(other.possible());
                    both.map_or(Self::Unknown, |(one, other)| Self::fields([one, other].concat()))
                }
                Self::Unknown | Self::Array(_) => Self::Unknown,
            },
            (Self::Unknown | Self::Array(_), _) => Self::Unknown,
        }
    }

    /// The possible fields of `$name`; `None` if unknown.
    pub(super) fn possible(&self) -> Option<Vec<Field>> {
        match self {
            Self::Fields(fields) => Some(fields.clone()),
            Self::Unknown | Self::OneOf(_) | Self::Array(_) => {
                Some(self.scalars()?.into_iter().map(Field::text).collect())
            }
        }
    }

    /// The possible texts of `$name`; `None` if unknown.
    pub(super) fn scalars(&self) -> Option<Vec<String>> {
        match self {
            Self::Unknown | Self::Fields(_) => None,
            Self::OneOf(texts) => Some(texts.clone()),
            Self::Array(texts) => Some(vec![texts.first().cloned().unwrap_or_default()]),
        }
    }
}

/// A function that the text defines.
#[derive(Debug, Clone)]
pub(super) struct Function {
    /// Its possible definitions, each with the text that contains it.
    pub(super) bodies: Vec<(Rc<FunctionBody>, Rc<str>)>,
    /// Whether it is defined for sure.
    pub(super) sure: bool,
}

/// The state of the shell at one point of the text.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) variables: HashMap<String, Value>,
    pub(super) functions: HashMap<String, Function>,
    /// `$1`, `$2` …; `None` if they are unknown.
    pub(super) positional: Option<Vec<String>>,
    /// Aliases, as text.
    pub(super) aliases: HashMap<String, Option<String>>,
    /// Variables that programs certainly receive, unless something odd is done to them.
    pub(super) exported: HashSet<String>,
    /// Variables that cannot be set any more, so that setting them may do nothing.
    pub(super) frozen: HashSet<String>,
    /// Variables with attributes that change assigned values, or references to others.
    pub(super) odd: HashSet<String>,
    /// Any variable may be one of those.
    pub(super) all_odd: bool,
    /// Functions may be handed to other shells.
    pub(super) exports_functions: bool,
    /// Variables that nothing is known of may be handed to other programs.
    pub(super) exports_unknown: bool,
    /// Words may be split at other characters than blanks.
    pub(super) odd_splitting: bool,
    /// Any variable may have been set by a text that is not here.
    pub(super) foreign: bool,
    /// Variables that were set since an exit trap was installed.
    pub(super) changed: HashSet<String>,
    /// The possible working directories.
    pub(super) working_directories: WorkingDirectories,
    /// The shell has ended: nothing gets here.
    pub(super) ended: bool,
}

impl Environment {
    /// Joins the knowledge of two branches.
    pub(super) fn join(mut self, other: Self) -> Self {
        let plain = self.functions.is_empty() && self.ended == other.ended;
        if plain && self.changed == other.changed && self.same_variables(&other) {
            return self;
        }
        let changed = self.changed.union(&other.changed).cloned().collect();
        if self.ended || other.ended {
            let goes_on = if self.ended { other } else { self };
            return Self { changed, ..goes_on };
        }
        let mut variables = HashMap::new();
        // A variable that only one branch sets may be inherited in the other.
        for name in other.variables.keys().filter(|name| !self.variables.contains_key(*name)) {
            variables.insert(name.clone(), Value::Unknown);
        }
        for (name, value) in self.variables {
            let theirs = other.variables.get(&name).cloned().unwrap_or(Value::Unknown);
            variables.insert(name, value.join(theirs));
        }
        for (name, ours) in &mut self.functions {
            ours.sure &= other.functions.contains_key(name);
        }
        for (name, theirs) in other.functions {
            match self.functions.get_mut(&name) {
                Some(ours) => {
                    ours.sure &= theirs.sure;
                    for body in theirs.bodies {
                        if !ours.bodies.iter().any(|(ours, _)| Rc::ptr_eq(ours, &body.0)) {
                            ours.bodies.push(body);
                        }
                    }
                }
                None => {
                    self.functions.insert(name, Function { sure: false, ..theirs });
                }
            }
        }
        for (name, theirs) in other.aliases {
            let ours = self.aliases.entry(name).or_insert_with(|| theirs.clone());
            if *ours != theirs {
                *ours = None;
            }
        }
        Self {
            variables,
            functions: self.functions,
            positional: if self.positional == other.positional { self.positional } else { None },
            aliases: self.aliases,
            exported: self.exported.intersection(&other.exported).cloned().collect(),
            frozen: self.frozen.union(&other.frozen).cloned().collect(),
            odd: self.odd.union(&other.odd).cloned().collect(),
            all_odd: self.all_odd || other.all_odd,
            exports_functions: self.exports_functions || other.exports_functions,
            exports_unknown: self.exports_unknown || other.exports_unknown,
            odd_splitting: self.odd_splitting || other.odd_splitting,
            foreign: self.foreign || other.foreign,
            changed,
            working_directories: self.working_directories.join(other.working_directories),
            ended: false,
        }
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        if name == "IFS" {
            self.odd_splitting = true;
        }
        let value = match self.variables.get(name) {
            _ if is_dynamic(name) || self.odd.contains(name) => Value::Unknown,
            Some(before) if self.frozen.contains(name) => value.join(before.clone()),
            None if self.frozen.contains(name) => Value::Unknown,
            _ => value,
        };
        self.variables.insert(name.to_owned(), value);
        self.changed.insert(name.to_owned());
    }

    /// Any variable may have any value now.
    pub(super) fn forget_all(&mut self) {
        let paths = self.variables.contains_key("CDPATH");
        self.variables.clear();
        self.exported.clear();
        if paths {
            self.forget("CDPATH");
        }
        self.odd_splitting = true;
        self.foreign = true;
    }

    /// Notes from now on what is set.
    pub(super) fn watch(&mut self) {
        self.changed.clear();
    }

    /// The knowledge that holds at any time between now and a later state.
    pub(super) fn until(mut self, later: &Self) -> Self {
        if self.foreign || later.foreign || later.all_odd {
            return Self { foreign: true, odd_splitting: true, ..Self::default() };
        }
        for name in &later.changed {
            self.variables.insert(name.clone(), Value::Unknown);
        }
        self.odd_splitting |= later.odd_splitting;
        Self { positional: None, ended: false, ..self }
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.set(name, Value::Unknown);
    }

    pub(super) fn get(&self, name: &str) -> Value {
        let known = self.variables.get(name).filter(|_| !self.all_odd && !is_dynamic(name));
        known.cloned().unwrap_or(Value::Unknown)
    }

    /// Whether a variable is what it was when the whole command started.
    pub(super) fn is_untouched(&self, name: &str) -> bool {
        !self.foreign && !self.all_odd && !self.variables.contains_key(name)
    }

    /// The knowledge of a new shell: what is certainly exported. Whether other variables are is not tracked.
    pub(super) fn in_new_shell(&self, positional: Option<Vec<String>>) -> Self {
        let foreign = self.foreign || self.all_odd;
        let handed =
            |name: &str| !foreign && self.exported.contains(name) && !is_set_by_shells(name);
        let inside = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::OneOf(_) | Value::Fields(_) if handed(name) => self.get(name),
                Value::Unknown | Value::Array(_) | Value::OneOf(_) | Value::Fields(_) => {
                    Value::Unknown
                }
            };
            (name.clone(), value)
        };
        let exported = self.exported.iter().filter(|name| handed(name.as_str()));
        Self {
            positional,
            variables: self.variables.iter().map(inside).collect(),
            exported: exported.cloned().collect(),
            foreign,
            working_directories: self.working_directories.clone(),
            ..Self::default()
        }
    }

    /// A variable is set and handed to programs.
    pub(super) fn export(&mut self, name: &str, value: Value) {
        self.set(name, value);
        self.exported.insert(name.to_owned());
    }

    /// Whether the same is known in both.
    pub(super) fn same_variables(&self, other: &Self) -> bool {
        let bodies = |one: &Self| one.functions.values().map(|f| f.bodies.len() + 1).sum::<usize>();
        let sure = |one: &Self| one.functions.values().filter(|f| f.sure).count();
        self.variables == other.variables
            && self.positional == other.positional
            && self.odd_splitting == other.odd_splitting
            && self.foreign == other.foreign
            && self.working_directories == other.working_directories
            && self.aliases == other.aliases
            && self.exported == other.exported
            && self.frozen == other.frozen
            && self.odd == other.odd
            && self.all_odd == other.all_odd
            && self.exports_functions == other.exports_functions
            && self.exports_unknown == other.exports_unknown
            && bodies(self) == bodies(other)
            && sure(self) == sure(other)
    }
}

/// Variables that every new shell sets itself, whatever it inherits.
fn is_set_by_shells(name: &str) -> bool {
    const SET_BY_SHELLS: [&str; 10] = [
        "IFS",
        "SHLVL",
        "OPTIND",
        "OPTERR",
        "PS4",
        "HOSTNAME",
        "HOSTTYPE",
        "MACHTYPE",
        "OSTYPE",
        "MAILCHECK",
    ];
    SET_BY_SHELLS.contains(&name) || name.starts_with("BASH")
}

/// Variables that the shell itself sets or changes.
fn is_dynamic(name: &str) -> bool {
    const DYNAMIC: &[&str] = words!(
        "_ BASHPID BASHOPTS BASH_ARGV BASH_COMMAND BASH_LINENO BASH_REMATCH BASH_SOURCE \
        BASH_SUBSHELL COPROC DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD \
        LINENO MAPFILE OLDPWD OPTARG PIPESTATUS PPID PWD RANDOM SECONDS SRANDOM UID"
    );
    // All are in capitals.
    !name.starts_with(|c: char| c.is_ascii_lowercase()) && DYNAMIC.contains(&name)
}
