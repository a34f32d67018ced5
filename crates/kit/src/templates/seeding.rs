//! Which embedded templates are copied into the user's own directory, as a start to be changed.

use super::discovery::type_of;
use crate::embedded;

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// Its name in the user's directory of templates.
    pub file: String,
    pub text: String,
}

/// The embedded templates to write if the user has the files `present` in any template directory: all of them, or
/// none if there is a file for any of their types.
pub fn plan(present: &[String]) -> Vec<Seed> {
    let seeds = embedded::agent_templates();
    let types = |files: &mut dyn Iterator<Item = &str>| -> Vec<_> {
        files.filter_map(|file| type_of(file)?.ok()).collect()
    };
    let shipped = types(&mut seeds.iter().map(|(file, _)| file.as_str()));
    let there = types(&mut present.iter().map(String::as_str));
    if there.iter().any(|agent_type| shipped.contains(agent_type)) {
        return Vec::new();
    }
    seeds.into_iter().map(|(file, text)| Seed { file, text }).collect()
}
