//! The search for templates: directories, precedence, and the file of each type.

use std::collections::BTreeMap;

use bailiwick_model::template::{AgentType, InvalidAgentType, Template};
use bailiwick_model::{Problem, Source};
use thiserror::Error;

use super::file::{self, NO_TEMPLATE, Parsed};
use crate::embedded;
use crate::layer::Origin;
use crate::tree::{Tree, TreeError};

/// Our own directory of templates, in a project.
pub const OURS: &str = ".bailiwick/agents";
/// The directory of the kei tools, in a project and in the user's home.
pub const KEI_DIRECTORY: &str = ".codex/.agents";
/// The directory of templates in a kit.
pub const IN_KIT: &str = "agents";

/// The directories of a repository's templates, nearest first, as seen from its directory `inside` (empty at the
/// root).
pub fn project_directories(inside: &str) -> Vec<String> {
    let inside = inside.trim_matches('/');
    let parts: Vec<&str> = inside.split('/').filter(|part| !part.is_empty()).collect();
    let depths = (0..=parts.len()).rev();
    let prefixes = depths.map(|depth| {
        let way: Vec<&str> = parts.iter().take(depth).copied().collect();
        if way.is_empty() { String::new() } else { way.join("/") + "/" }
    });
    prefixes
        .flat_map(|prefix| [OURS, KEI_DIRECTORY].map(|name| format!("{prefix}{name}")))
        .collect()
}

/// A directory of templates.
pub struct Place {
    /// Whose it is.
    pub origin: Origin,
    shown_as: String,
    directory: String,
    tree: Box<dyn Tree>,
}

impl Place {
    /// The directory `directory` of a tree, whose paths people see behind the prefix `shown_as`.
    pub fn new(origin: Origin, shown_as: &str, directory: &str, tree: Box<dyn Tree>) -> Self {
        Self { origin, shown_as: shown_as.to_owned(), directory: directory.to_owned(), tree }
    }

    fn path(&self, file: &str) -> String {
        match self.directory.as_str() {
            "" => file.to_owned(),
            directory => format!("{directory}/{file}"),
        }
    }

    fn shown(&self, path: &str) -> String {
        format!("{}{path}", self.shown_as)
    }

    fn unreadable(&self, error: &TreeError) -> Problem {
        let place = Source::new(self.shown(&error.path), "").whole();
        Problem::error("unreadable", place, format!("the file cannot be read: {}", error.why))
    }
}

/// Why no template was found for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The name cannot be one.
    #[error(transparent)]
    Invalid(#[from] InvalidAgentType),
    /// No place has it.
    #[error("missing agent template: {0}")]
    Missing(AgentType),
    /// Several fit when `-` and `_` are the same.
    #[error(
        "ambiguous agent_type \"{asked}\"; matched multiple templates: {}. Use exact agent_type.",
        joined(.matched, ", ")
    )]
    Ambiguous {
        /// The requested name.
        asked: AgentType,
        /// The matching types.
        matched: Vec<AgentType>,
    },
    /// The template's file is invalid.
    #[error("invalid agent template \"{agent_type}\": {}", messages(.problems))]
    Broken {
        /// Whose file it is.
        agent_type: AgentType,
        /// The problems, with their places.
        problems: Vec<Problem>,
    },
}

fn joined(list: &[AgentType], between: &str) -> String {
    list.iter().map(AgentType::as_str).collect::<Vec<_>>().join(between)
}

fn messages(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// A template with its file.
#[derive(Debug, Clone)]
pub struct FoundTemplate {
    /// The content of the file, and the places of the names in it.
    pub parsed: Parsed,
    /// The file itself.
    pub source: Source,
    /// Whose it is.
    pub origin: Origin,
    /// Whose templates of the same type are passed over for it.
    pub covers: Vec<Origin>,
}

impl FoundTemplate {
    /// The parsed template.
    pub fn template(&self) -> &Template {
        &self.parsed.template
    }
}

/// All templates, and the files that cannot be one.
#[derive(Debug)]
pub struct TemplateInventory {
    /// One for each type, in the order of their names.
    pub templates: Vec<(AgentType, Result<FoundTemplate, TemplateError>)>,
    /// Files whose names are not valid types.
    pub strays: Vec<Problem>,
}

/// Templates by type. Nothing is cached: each query reads the trees again.
pub struct Templates {
    places: Vec<Place>,
}

impl Templates {
    /// The given places, by precedence, on top of the embedded templates.
    pub fn over_embedded(places: Vec<Place>) -> Self {
        let mut places = places;
        places.push(Place::new(Origin::Embedded, "embedded/", IN_KIT, embedded::tree()));
        Self { places }
    }

    /// The template of a type. The first place with a file for it decides, even if that file is broken.
    pub fn find(&self, asked: &str) -> Result<FoundTemplate, TemplateError> {
        let asked = AgentType::parse(asked)?;
        let index = self.index();
        let agent_type = self.resolve(&asked, &index)?;
        self.read(&agent_type, &index)
    }

    /// The types that have a file, sorted.
    pub fn names(&self) -> Vec<AgentType> {
        self.index().files.into_keys().collect()
    }

    /// Every template, and every file that cannot be one.
    pub fn inventory(&self) -> TemplateInventory {
        let index = self.index();
        let types = index.files.keys().cloned();
        let templates = types.map(|name| (name.clone(), self.read(&name, &index))).collect();
        let mut strays = index.strays;
        strays.extend(index.closed.into_values());
        TemplateInventory { templates, strays }
    }

    /// The type that a name leads to: itself, or the only one that differs in `-` and `_` alone.
    fn resolve(&self, asked: &AgentType, index: &Index) -> Result<AgentType, TemplateError> {
        if index.files.contains_key(asked) {
            return Ok(asked.clone());
        }
        if !index.closed.is_empty() {
            let problems = index.closed.values().cloned().collect();
            return Err(TemplateError::Broken { agent_type: asked.clone(), problems });
        }
        let fits = index.files.keys().filter(|known| known.folds_to(asked));
        let matched: Vec<AgentType> = fits.cloned().collect();
        match matched.as_slice() {
            [] => Err(TemplateError::Missing(asked.clone())),
            [one] => Ok(one.clone()),
            [_, _, ..] => Err(TemplateError::Ambiguous { asked: asked.clone(), matched }),
        }
    }

    fn read(&self, agent_type: &AgentType, index: &Index) -> Result<FoundTemplate, TemplateError> {
        let broken = |problems| TemplateError::Broken { agent_type: agent_type.clone(), problems };
        let missing = || TemplateError::Missing(agent_type.clone());
        let files = index.files.get(agent_type).ok_or_else(missing)?;
        let (first, names) = files.iter().next().ok_or_else(missing)?;
        let place = self.places.get(*first).ok_or_else(missing)?;
        // A nearer directory that cannot be listed may have a file for it.
        let nearer: Vec<Problem> =
            index.closed.range(..first).map(|(_, problem)| problem.clone()).collect();
        if !nearer.is_empty() {
            return Err(broken(nearer));
        }
        let name = match names.as_slice() {
            [name] => name,
            several => return Err(broken(vec![clash(place, agent_type, several)])),
        };
        let path = place.path(name);
        let text =
            place.tree.read(&path).map_err(|error| broken(vec![place.unreadable(&error)]))?;
        let Some(text) = text else {
            let why = "it was there a moment ago".to_owned();
            return Err(broken(vec![place.unreadable(&TreeError { path, why })]));
        };
        let source = Source::new(place.shown(&path), text);
        let parsed = file::parse(agent_type, &source).map_err(broken)?;
        let covers = files.keys().skip(1).filter_map(|at| Some(self.places.get(*at)?.origin));
        Ok(FoundTemplate { parsed, source, origin: place.origin, covers: covers.collect() })
    }

    /// The files of all places by name, unread.
    fn index(&self) -> Index {
        let mut index = Index::default();
        for (at, place) in self.places.iter().enumerate() {
            let names = match place.tree.list(&place.directory) {
                Ok(names) => names,
                Err(error) => {
                    index.closed.insert(at, place.unreadable(&error));
                    continue;
                }
            };
            for name in names {
                match type_of(&name) {
                    None => {}
                    Some(Ok(agent_type)) => {
                        let files = index.files.entry(agent_type).or_default();
                        files.entry(at).or_default().push(name);
                    }
                    Some(Err(error)) => {
                        let file = Source::new(place.shown(&place.path(&name)), "");
                        index.strays.push(
                            Problem::error("bad-name", file.whole(), error.to_string())
                                .help("rename the file, or move it out of this directory"),
                        );
                    }
                }
            }
        }
        index
    }
}

#[derive(Default)]
struct Index {
    /// For each type its files, by the place that they are in.
    files: BTreeMap<AgentType, BTreeMap<usize, Vec<String>>>,
    /// Files with names that no type has.
    strays: Vec<Problem>,
    /// Places that cannot be listed.
    closed: BTreeMap<usize, Problem>,
}

/// Why a file has a name that no agent type has.
#[derive(Debug, thiserror::Error)]
pub(super) enum StrayName {
    #[error(transparent)]
    Invalid(#[from] InvalidAgentType),
    #[error("`{NO_TEMPLATE}` is what an agent without a template is called")]
    Reserved,
}

/// The type of a file; none if it is not Markdown.
pub(super) fn type_of(file: &str) -> Option<Result<AgentType, StrayName>> {
    let (stem, ending) = file.rsplit_once('.')?;
    if !ending.eq_ignore_ascii_case("md") {
        return None;
    }
    Some(match AgentType::parse(stem) {
        Ok(agent_type) if agent_type.as_str() == NO_TEMPLATE => Err(StrayName::Reserved),
        Ok(agent_type) => Ok(agent_type),
        Err(error) => Err(error.into()),
    })
}

fn clash(place: &Place, agent_type: &AgentType, files: &[String]) -> Problem {
    let message = format!("several files are for `{agent_type}`: {}", files.join(", "));
    let first = files.first().map_or("", String::as_str);
    let file = Source::new(place.shown(&place.path(first)), "");
    Problem::error("name-clash", file.whole(), message).help("keep one of them")
}
