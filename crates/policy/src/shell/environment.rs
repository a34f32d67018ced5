//! Variables, functions and positional parameters, as far as the text decides them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use brush_parser::ast::FunctionBody;

/// More alternatives than this are as good as unknown.
const MOST: usize = 8;
/// Longer texts and arrays than this are as good as unknown.
const LONGEST: usize = 4096;

/// What a variable may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Anything.
    Unknown,
    /// One of these.
    OneOf(Vec<String>),
    /// An array of exactly these.
    Array(Vec<String>),
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
            if distinct.len() > MOST {
                return Self::Unknown;
            }
        }
        let long = distinct.iter().any(|text| text.len() > LONGEST);
        if distinct.is_empty() || long { Self::Unknown } else { Self::OneOf(distinct) }
    }

    /// An array; unknown if it is too long.
    pub(super) fn array(texts: Vec<String>) -> Self {
        let length: usize = texts.iter().map(|text| text.len() + 1).sum();
        if length > LONGEST { Self::Unknown } else { Self::Array(texts) }
    }

    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::OneOf(one), Self::OneOf(other)) => Self::one_of([one, other].concat()),
            _ => Self::Unknown,
        }
    }

    /// The texts that `$name` may stand for; nothing if that is unknown.
    pub(super) fn scalars(&self) -> Option<Vec<String>> {
        match self {
            Self::Unknown => None,
            Self::OneOf(texts) => Some(texts.clone()),
            Self::Array(texts) => Some(vec![texts.first().cloned().unwrap_or_default()]),
        }
    }
}

/// A function that the text defines.
#[derive(Debug, Clone)]
pub(super) struct Function {
    /// What it may do: each definition that may be in force, with the text it stands in.
    pub(super) bodies: Vec<(Rc<FunctionBody>, Rc<str>)>,
    /// Whether it is defined for sure.
    pub(super) sure: bool,
}

/// What is known at one point of the text.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) variables: HashMap<String, Value>,
    pub(super) functions: HashMap<String, Function>,
    /// `$1`, `$2` …; nothing if they are unknown.
    pub(super) positional: Option<Vec<String>>,
    /// Aliases, as text.
    pub(super) aliases: HashMap<String, Option<String>>,
    /// Variables that cannot be set any more, so that setting them may do nothing.
    pub(super) frozen: HashSet<String>,
    /// Variables that change what they are given, or stand for another.
    pub(super) odd: HashSet<String>,
    /// Any variable may be one of those.
    pub(super) all_odd: bool,
    /// Functions may be handed to other shells.
    pub(super) exports_functions: bool,
    /// Variables that nothing is known of may be handed to other programs.
    pub(super) exports_unknown: bool,
    /// Words may be split at other characters than blanks.
    pub(super) odd_splitting: bool,
}

impl Environment {
    /// What is known where two ways meet.
    pub(super) fn join(mut self, other: Self) -> Self {
        let mut variables = HashMap::new();
        for (name, value) in self.variables {
            // A variable that only one way sets may come from outside on the other.
            if let Some(theirs) = other.variables.get(&name) {
                variables.insert(name, value.join(theirs.clone()));
            }
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
            frozen: self.frozen.union(&other.frozen).cloned().collect(),
            odd: self.odd.union(&other.odd).cloned().collect(),
            all_odd: self.all_odd || other.all_odd,
            exports_functions: self.exports_functions || other.exports_functions,
            exports_unknown: self.exports_unknown || other.exports_unknown,
            odd_splitting: self.odd_splitting || other.odd_splitting,
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
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.set(name, Value::Unknown);
    }

    pub(super) fn get(&self, name: &str) -> Value {
        let known = self.variables.get(name).filter(|_| !self.all_odd && !is_dynamic(name));
        known.cloned().unwrap_or(Value::Unknown)
    }

    /// Whether the same is known in both.
    pub(super) fn same_variables(&self, other: &Self) -> bool {
        let bodies = |one: &Self| one.functions.values().map(|f| f.bodies.len() + 1).sum::<usize>();
        let sure = |one: &Self| one.functions.values().filter(|f| f.sure).count();
        self.variables == other.variables
            && self.positional == other.positional
            && self.odd_splitting == other.odd_splitting
            && self.aliases == other.aliases
            && self.frozen == other.frozen
            && self.odd == other.odd
            && self.all_odd == other.all_odd
            && self.exports_functions == other.exports_functions
            && bodies(self) == bodies(other)
            && sure(self) == sure(other)
    }
}

/// Variables that the shell itself sets or changes.
fn is_dynamic(name: &str) -> bool {
    const DYNAMIC: [&str; 28] = [
        "_",
        "BASHPID",
        "BASHOPTS",
        "BASH_ARGV",
        "BASH_COMMAND",
        "BASH_LINENO",
        "BASH_REMATCH",
        "BASH_SOURCE",
        "BASH_SUBSHELL",
        "COPROC",
        "DIRSTACK",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "EUID",
        "FUNCNAME",
        "GROUPS",
        "HISTCMD",
        "LINENO",
        "MAPFILE",
        "OLDPWD",
        "OPTARG",
        "PIPESTATUS",
        "PPID",
        "PWD",
        "RANDOM",
        "SECONDS",
        "SRANDOM",
        "UID",
    ];
    DYNAMIC.contains(&name)
}
