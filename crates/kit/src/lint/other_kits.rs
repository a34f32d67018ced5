//! Kits for other programs: problems that are errors elsewhere are warnings here.
//!
//! The rest of such a kit can be used. A role, capability or manifest with such a problem cannot: its reader
//! receives the problem as an error.

use bailiwick_model::{Problem, Severity};

use crate::kit::Kit;
use crate::layer::{Layer, Layout};

/// Differences from the other program.
const SOFTENED: [&str; 6] = [
    "no-such-module",
    "wider-than-role",
    "unknown-tool",
    "text-leads",
    "text-refers",
    "text-repeats",
];

/// Turns problems into warnings in files of a kit with the other layout.
pub(super) fn soften(kit: &Kit, problems: &mut [Problem]) {
    let others: Vec<String> = kit
        .layers()
        .iter()
        .filter(|layer| layer.layout == Layout::Underscore)
        .map(|layer: &Layer| layer.shown("_"))
        .collect();
    for problem in problems {
        let file = &problem.place.source.file;
        let elsewhere = others.iter().any(|prefix| file.starts_with(prefix.as_str()));
        if elsewhere && SOFTENED.contains(&problem.code) {
            problem.severity = Severity::Warning;
        }
    }
}
