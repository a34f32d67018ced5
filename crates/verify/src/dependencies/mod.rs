//! The dependencies that a manifest or a lock file names. Order, layout and the version of the package
//! itself do not count.

mod cargo;
mod data;
mod go;
mod javascript;
mod php;
mod python;
mod requirements;
mod setup_cfg;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use bailiwick_model::well_known::is_manifest;
use bailiwick_model::well_known::is_requirements;

/// The dependencies that a file names; a name can occur more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dependencies(BTreeMap<String, BTreeSet<String>>);

impl Dependencies {
    fn add(&mut self, name: impl Into<String>, version: impl Into<String>) {
        self.0.entry(name.into()).or_default().insert(version.into());
    }

    /// The differences, one line for each name.
    pub(crate) fn differences(&self, after: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(after.0.keys()).collect();
        let differing = names.into_iter().filter(|name| self.0.get(*name) != after.0.get(*name));
        differing
            .map(|name| {
                let before = shown(self.0.get(name), after.0.get(name));
                let now = shown(after.0.get(name), self.0.get(name));
                format!("{}: {before} → {now}", name.escape_debug())
            })
            .collect()
    }
}

/// The versions that only this side has.
fn shown(here: Option<&BTreeSet<String>>, there: Option<&BTreeSet<String>>) -> String {
    let Some(here) = here else { return "nothing".to_owned() };
    let own = here.iter().filter(|version| there.is_none_or(|there| !there.contains(*version)));
    let own: Vec<&str> = own.map(String::as_str).collect();
    let text: String = own.join(", ").chars().filter(|character| !character.is_control()).collect();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None if text.is_empty() => "the rest".to_owned(),
        None => text,
    }
}

type Reader = fn(&str) -> Result<Dependencies, ManifestError>;

/// The content of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manifest {
    /// Its dependencies.
    Parsed(Dependencies),
    /// There is no parser for its format: every change counts.
    Opaque,
}

/// Why a manifest cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The first line of the parser's message.
    #[error("{0}")]
    Syntax(String),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("a block is closed that was not opened")]
    UnopenedBlock,
    #[error("the block `{0}` is not closed")]
    UnclosedBlock(String),
    #[error("a line is neither a section nor a key")]
    UnknownLine,
}

pub(crate) fn read(path: &str, text: &[u8]) -> Result<Manifest, ManifestError> {
    let Some(reader) = reader(path) else { return Ok(Manifest::Opaque) };
    let text = std::str::from_utf8(text).map_err(|_| ManifestError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    reader(text).map(Manifest::Parsed)
}

/// The reader for a file of this name; none if there is no parser for its format.
fn reader(path: &str) -> Option<Reader> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let reader: Reader = match name {
        "Cargo.toml" => cargo::manifest,
        "Cargo.lock" => cargo::lock,
        "config.toml" | "config" => cargo::configuration,
        "package.json" => javascript::package,
        "package-lock.json" | "npm-shrinkwrap.json" => javascript::lock,
        "deno.json" => javascript::deno,
        "deno.lock" => data::all_entries,
        "composer.json" => php::manifest,
        "composer.lock" => php::lock,
        "pyproject.toml" => python::project,
        "poetry.lock" | "uv.lock" | "pdm.lock" => python::lock,
        "Pipfile" => python::pipfile,
        "Pipfile.lock" => python::pipfile_lock,
        "setup.cfg" => setup_cfg::read,
        "go.mod" | "go.work" => go::module,
        "go.sum" => go::sum,
        _ if is_requirements(path) => requirements::file,
        _ => return None,
    };
    Some(reader)
}

#[cfg(test)]
mod tests;
