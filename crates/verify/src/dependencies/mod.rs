//! Which dependencies a manifest or a lock file names, as data: order, layout and the package's own
//! version are no part of it.

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

/// The dependencies that a file names; a name may stand in it more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dependencies(BTreeMap<String, BTreeSet<String>>);

impl Dependencies {
    fn add(&mut self, name: impl Into<String>, what: impl Into<String>) {
        self.0.entry(name.into()).or_default().insert(what.into());
    }

    /// What differs, a line for each name.
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

/// What is there on this side, without what the other side has as well.
fn shown(here: Option<&BTreeSet<String>>, there: Option<&BTreeSet<String>>) -> String {
    let Some(here) = here else { return "nothing".to_owned() };
    let own = here.iter().filter(|what| there.is_none_or(|there| !there.contains(*what)));
    let own: Vec<&str> = own.map(String::as_str).collect();
    let text: String = own.join(", ").chars().filter(|sign| !sign.is_control()).collect();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None if text.is_empty() => "the rest".to_owned(),
        None => text,
    }
}

/// How a file of this name is read; nothing where it can only be compared byte by byte.
type Reader = fn(&str) -> Result<Dependencies, String>;

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Its dependencies.
    Data(Dependencies),
    /// Nothing that can be told apart: every change of it is a change.
    Bytes,
}

/// Reads a manifest.
pub(crate) fn read(path: &str, text: &[u8]) -> Result<Reading, String> {
    let Some(reader) = reader(path) else { return Ok(Reading::Bytes) };
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    reader(text).map(Reading::Data)
}

fn reader(path: &str) -> Option<Reader> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let reader: Reader = match name {
        "Cargo.toml" => cargo::manifest,
        "Cargo.lock" => cargo::lock,
        "config.toml" | "config" => cargo::configuration,
        "package.json" => javascript::package,
        "package-lock.json" | "npm-shrinkwrap.json" => javascript::lock,
        "deno.json" => javascript::deno,
        "deno.lock" => data::whole,
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
